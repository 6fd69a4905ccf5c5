"""`debug.breakpoint`: the values of the user's frames, at a prompt or as text."""

from __future__ import annotations

import bdb
import faulthandler
import io
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import effx
import effx.numpy as enp
from effx import debug, lax
from effx.errors import TransformError


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    """Nothing here may wait for ever."""
    faulthandler.dump_traceback_later(120, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the tests are run from one."""
    monkeypatch.setattr(sys, "stdin", io.StringIO())


def inner(z: Any, talk: Callable[[], None]) -> Any:
    weights = {"a": z * 2.0, "n": "text", "f": inner}
    talk()
    return weights["a"]


def answers(*commands: str, wrap: Any = effx.jit, **options: Any) -> tuple[list[str], Any]:
    """The prompt's answers to commands, and the function's result."""
    out = io.StringIO()

    def outer(x: Any) -> Any:
        def talk() -> None:
            debug.breakpoint(stdin=io.StringIO("\n".join(commands) + "\n"), stdout=out, **options)

        y = x + 1.0
        return inner(y, talk)

    result = wrap(outer)(1.0)
    lines = [line for line in out.getvalue().split("(effx) ") if line]
    return lines, result


@pytest.mark.parametrize("wrap", [effx.jit, effx.checkpoint])
def test_prompt(wrap: Any) -> None:
    """Expressions of each frame's variables, where the frames are, and what is wrong."""
    talk, result = answers(
        "u", "p weights['a'] + 1", "z", "u", "x, y", "pp {'y': y}", "oops", "1 /", "", "d", "z.shape", "c", wrap=wrap,
        num_frames=3,
    )  # fmt: skip
    assert float(result) == 4.0
    assert talk[0].startswith("stopped at ")
    assert talk[0].splitlines()[0].endswith("in talk")
    assert talk[1].splitlines()[0].endswith("in inner")
    assert talk[1].splitlines()[1] == "  talk()"
    said = [line.strip() for line in talk[2:]]
    assert said[:2] == ["Array(5., dtype=float32)", "Array(2., dtype=float32)"]
    assert said[2].splitlines()[0].endswith("in outer")
    assert said[5:7] == [
        "*** NameError: name 'oops' is not defined",
        "*** SyntaxError: invalid syntax (<string>, line 1)",
    ]
    assert said[7].splitlines()[0].endswith("in inner")
    assert said[8] == "()"


def test_places() -> None:
    talk, _ = answers("d", "u", "u", "u", "w", "a", "l", "c", num_frames=3)
    assert talk[1] == "*** there is no frame further in\n"
    assert talk[4] == "*** there is no frame further out\n"
    where = talk[5].splitlines()
    assert [where[i].split()[-1] for i in (0, 2, 4)] == ["outer", "inner", "talk"]
    assert where[0].startswith("> ")
    (pointed,) = [line for line in talk[7].splitlines() if line.startswith("->")]
    assert pointed.endswith("return inner(y, talk)")
    assert "  y = Array(2., dtype=float32)" in talk[6]


def test_quit_ends_the_program() -> None:
    for commands in (("q",), ()):  # the end of the input is one
        with pytest.raises(bdb.BdbQuit):
            answers(*commands)


def test_without_a_terminal_the_frame_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    @effx.jit
    def f(x: Any) -> Any:
        def body(i: Any, y: Any) -> Any:
            debug.breakpoint(num_frames=1, ordered=True)
            return y * 2.0

        return lax.fori_loop(0, 2, body, x)

    assert float(f(3.0)) == 12.0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if " = Array" in line] == [
        "  i = Array(0, dtype=int32)",
        "  y = Array(3., dtype=float32)",
        "  i = Array(1, dtype=int32)",
        "  y = Array(6., dtype=float32)",
    ]
    assert lines[0].startswith("breakpoint at ")
    assert lines[1] == "  debug.breakpoint(num_frames=1, ordered=True)"


def test_token(capsys: pytest.CaptureFixture[str]) -> None:
    """Says when to stop, and whether; it has the derivative of the identity."""

    def f(x: Any) -> Any:
        return debug.breakpoint(token={"y": x * 2.0}, num_frames=1)["y"] ** 2

    for g in (effx.grad(f), effx.jit(effx.grad(f)), effx.grad(effx.jit(f))):
        assert float(g(3.0)) == 24.0
        assert capsys.readouterr().out.count("x = Array(3.") == 1
    assert effx.vmap(f)(enp.arange(2.0)).tolist() == [0.0, 4.0]
    assert capsys.readouterr().out.count("breakpoint at") == 2
    effx.jit(lambda x: (debug.breakpoint(token=x), x)[1])(1.0)
    assert capsys.readouterr().out == ""


def test_filter_frames() -> None:
    """effx's own frames are there if asked for."""
    inside, _ = answers("w", "c", filter_frames=False)
    outside, _ = answers("w", "c")
    assert f"effx{os.sep}transforms" in inside[1]
    assert f"effx{os.sep}transforms" not in outside[1]


def test_at_a_terminal(tmp_path: Path) -> None:
    """The prompt reads from it."""
    script = tmp_path / "stops.py"
    script.write_text(
        "import effx\n"
        "@effx.jit\n"
        "def f(x):\n"
        "    y = x + 1.0\n"
        "    effx.debug.breakpoint()\n"
        "    return y\n"
        "print('result', f(2.0))\n"
    )
    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"p y\nc\n")
        done = subprocess.run(
            [sys.executable, str(script)],
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert "in f\n  effx.debug.breakpoint()\n" in done.stdout
    assert "Array(3., dtype=float32)\n" in done.stdout
    assert done.stdout.endswith("result 3.0\n")


ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"backend": "web"}, "debug.breakpoint: backend must be 'cli' or None, got 'web'"),
    ({"num_frames": 0}, "debug.breakpoint: num_frames must be at least 1, got 0"),
    ({"port": 3}, "debug.breakpoint: the prompt has no option 'port', only stdin, stdout, completekey"),
    (
        {"token": 1.0, "ordered": True},
        "debug.breakpoint: a token takes the place of ordered=True; give one of them",
    ),
]


@pytest.mark.parametrize(("options", "text"), ERRORS)
def test_errors(options: dict[str, Any], text: str) -> None:
    with pytest.raises(TransformError) as caught:
        debug.breakpoint(**options)
    assert caught.value.message == text
