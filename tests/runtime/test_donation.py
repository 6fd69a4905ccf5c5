"""Donated arguments: results reuse their memory, by the compiled module, by address and by the process's peak."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import errors, lax


def computed(tree: Any) -> Any:
    """Returns copies that XLA has allocated; memory that came from NumPy is not XLA's to write to."""
    return effx.tree.map(enp.copy, tree)


def vector(n: int = 1000) -> Any:
    """Returns floats that nothing else has."""
    return computed(enp.arange(float(n)))


def total(x: Any) -> Any:
    """Returns a sum, for gradients."""
    return (x**3).sum()


def successor(x: Any) -> Any:
    """Adds one."""
    return x + 1


def step(tree: Any, rate: Any) -> Any:
    """Returns new parameters, in the same structure."""
    return {"layers": [(w * rate, b + rate) for w, b in tree["layers"]], "count": tree["count"] + 1}


def parameters() -> Any:
    """Returns a tree of four arrays that are alike in pairs, and a counter."""
    layers = [(enp.ones((20, 30)) * i, enp.ones((30,)) * i) for i in (1.0, 2.0)]
    return computed({"layers": layers, "count": enp.asarray(0)})


@attrs.frozen
class Case:
    """A function with donated arguments.

    Attributes:
        fun, arguments, options: of `jit`.
        aliases: for each result the number of the argument whose memory it takes.
        nbytes: of all memory that is reused.
    """

    fun: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]
    options: dict[str, Any]
    aliases: dict[str, int]
    nbytes: int


CASES = {
    "one": Case(lambda x: x + 1, lambda: (vector(),), {"donate_argnums": 0}, {"": 0}, 4000),
    "result itself": Case(lambda x: x, lambda: (vector(),), {"donate_argnums": 0}, {"": 0}, 4000),
    "swapped types": Case(
        lambda x, n: (n * 2, x + 1),
        lambda: (vector(), computed(enp.arange(500))),
        {"donate_argnums": (0, 1)},
        {"0": 1, "1": 0},
        6000,
    ),
    "swapped values": Case(
        lambda x, y: (y, x), lambda: (vector(), vector()), {"donate_argnums": (0, 1)}, {"0": 0, "1": 1}, 8000
    ),
    "by name": Case(
        lambda x, y: (x * y, y), lambda: (vector(), vector()), {"donate_argnames": "y"}, {"0": 1}, 4000
    ),
    "from the end": Case(
        lambda x, y: x * y, lambda: (vector(), vector()), {"donate_argnums": -1}, {"": 1}, 4000
    ),
    "behind a static one": Case(
        lambda n, x: x * n,
        lambda: (3, vector()),
        {"static_argnums": 0, "donate_argnums": 1},
        {"": 0},
        4000,
    ),
    "behind one that is not read": Case(
        lambda n, x: x + 1, lambda: (vector(7), vector()), {"donate_argnums": (0, 1)}, {"": 0}, 4000
    ),
    "tree": Case(
        step,
        lambda: (parameters(), 0.5),
        {"donate_argnums": 0},
        {"0": 0, "1": 1, "2": 2, "3": 3, "4": 4},
        2 * (2400 + 120) + 4,
    ),
    "another dtype": Case(
        lambda x: x.astype(enp.int32), lambda: (vector(),), {"donate_argnums": 0}, {"": 0}, 4000
    ),
    "another shape": Case(
        lambda x: x.reshape(10, 100), lambda: (vector(),), {"donate_argnums": 0}, {"": 0}, 4000
    ),
    "scan": Case(
        lambda x: lax.scan(lambda c, _: (c * 2, None), x, None, length=3)[0],
        lambda: (vector(),),
        {"donate_argnums": 0},
        {"": 0},
        4000,
    ),
    "gradient": Case(effx.grad(total), lambda: (vector(),), {"donate_argnums": 0}, {"": 0}, 4000),
    "batch": Case(
        effx.vmap(successor),
        lambda: (computed(enp.ones((10, 100))),),
        {"donate_argnums": 0},
        {"": 0},
        4000,
    ),
    "key": Case(
        lambda key: effx.random.split(key)[0],
        lambda: (effx.random.split(effx.random.key(0))[0],),
        {"donate_argnums": 0},
        {"": 0},
        8,
    ),
}


def aliases(text: str) -> dict[str, int]:
    """Returns from the text of a compiled module which result takes which parameter's memory."""
    header = text.partition("\n")[0]
    return {r: int(p) for r, p in re.findall(r"\{(\d*)\}: \((\d+), \{\}, \w+-alias\)", header)}


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    """What fits must not be warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_compiled_module(case: Case) -> None:
    """The compiled module lists which argument's memory each result reuses, and how much that is."""
    compiled = effx.jit(case.fun, **case.options).lower(*case.arguments()).compile()
    assert aliases(compiled.as_text()) == case.aliases
    assert compiled.memory_analysis().alias_size_in_bytes == case.nbytes


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_addresses(case: Case, again: bool) -> None:
    """Results are where donated arguments were, in the first call and in those that C++ runs, and right."""
    f = effx.jit(case.fun, **case.options)
    if again:
        f(*case.arguments())
    arguments, expected = case.arguments(), effx.tree.leaves(case.fun(*case.arguments()))
    given = [x for x in effx.tree.leaves(arguments) if isinstance(x, effx.Array)]
    kept = [x for x in given if x.shape != (7,)]  # not passed, since it is not read
    before = [x.unsafe_buffer_pointer() for x in kept]
    results = effx.tree.leaves(f(*arguments))
    for result, argument in case.aliases.items():
        taken = results[int(result or 0)]
        assert taken.unsafe_buffer_pointer() == before[argument]
        assert kept[argument].is_deleted()
    assert sum([x.is_deleted() for x in given]) == len(case.aliases)
    for x, y in zip(results, expected, strict=True):
        np.testing.assert_allclose(plain(x), plain(y), rtol=1e-6)


def plain(x: Any) -> Any:
    """Returns an array or the words of a key as NumPy's."""
    keys = enp.issubdtype(x.dtype, effx.dtypes.prng_key)
    return np.asarray(effx.random.key_data(x) if keys else x)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0)])
def test_small(shape: tuple[int, ...]) -> None:
    """Scalars and arrays without elements are donated too, without a warning."""
    x = enp.ones(shape)
    result = effx.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(result, np.full(shape, 2.0))


LOOP = """
import effx, effx.numpy as enp

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024

def step(p, rate):
    return {"w": p["w"] - rate * p["w"], "m": p["m"] * 0.9}

step = effx.jit(step, donate_argnums=DONATED)
p = effx.block_until_ready(step({"w": enp.ones(1 << 24), "m": enp.ones(4)}, 0.1))
address = p["w"].unsafe_buffer_pointer()
before = peak()
addresses = set()
for _ in range(50):
    p = effx.block_until_ready(step(p, 0.1))
    addresses.add(p["w"].unsafe_buffer_pointer())
print(before, peak(), addresses == {address}, float(p["w"][0]))
"""


@pytest.mark.unguarded
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_peak_of_a_loop() -> None:
    """50 steps over 64 MB stay where they began; without donation there is at least one array more."""
    peaks = {}
    for donated in (True, False):
        code = LOOP.replace("DONATED", "0" if donated else "()")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        before, after, stays, value = done.stdout.split()
        assert stays == str(donated)
        assert float(value) == pytest.approx(0.9**51, rel=1e-4)
        if donated:
            assert int(after) - int(before) < 2**22
        peaks[donated] = int(after)
    assert peaks[False] - peaks[True] >= 0.95 * 2**26


def words(text: str) -> str:
    """Returns the warning for memory that no result takes, without its first line."""
    return f"jit: <lambda> cannot reuse the donated memory of {text}: no result takes it; leave it out of donate_argnums"


UNUSED: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]], dict[str, Any], str]] = {
    "smaller": (lambda x: x.sum(), lambda: (vector(),), {"donate_argnums": 0}, "argument x f32[1000]"),
    "half as wide": (
        lambda x: x.astype(enp.float16),
        lambda: (vector(),),
        {"donate_argnums": 0},
        "argument x f32[1000]",
    ),
    "two for one": (
        lambda x, y: x + y,
        lambda: (vector(), vector()),
        {"donate_argnums": (0, 1)},
        "argument y f32[1000]",
    ),
    "in a tree": (
        lambda n, p: (p["a"] * n, p["b"][0].sum()),
        lambda: (2, {"a": vector(), "b": [vector(5)]}),
        {"static_argnums": 0, "donate_argnums": 1},
        "argument p['b'][0] f32[5]",
    ),
    "several": (
        lambda *xs: sum([x.sum() for x in xs]),
        lambda: tuple([vector(i) for i in range(10, 16)]),
        {"donate_argnums": tuple(range(6))},
        "argument 0 f32[10], argument 1 f32[11], argument 2 f32[12], argument 3 f32[13] and 2 more",
    ),
    "not read, but kept": (
        lambda x: enp.zeros(()),
        lambda: (vector(),),
        {"donate_argnums": 0, "keep_unused": True},
        "argument x f32[1000]",
    ),
}


@pytest.mark.parametrize(("fun", "arguments", "options", "text"), UNUSED.values(), ids=UNUSED)
def test_memory_that_no_result_takes(
    fun: Callable[..., Any], arguments: Callable[[], tuple[Any, ...]], options: dict[str, Any], text: str
) -> None:
    """One warning, at the user's line, when the program is compiled; the array lives on."""
    f = effx.jit(fun, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        given = arguments()
        f(*given)
        f(*arguments())
    assert [str(w.message).split("\n")[1] for w in caught] == [words(text)]
    assert caught[0].filename == __file__
    last = [x for x in effx.tree.leaves(given) if isinstance(x, effx.Array)][-1]
    assert not last.is_deleted()
    assert last.sum() >= 0


def test_names_need_a_signature() -> None:
    """Of a callable whose signature cannot be read no argument could be found by name."""

    class Unreadable:
        @property
        def __signature__(self) -> object:
            raise TypeError("no signature")

        def __call__(self, *args: Any) -> Any:
            return args

    with pytest.raises(errors.TransformError) as caught:
        effx.jit(Unreadable(), donate_argnames="a")
    assert caught.value.message.startswith("jit: donate_argnames needs the signature of ")
    assert caught.value.message.endswith("Unreadable, which has none; give donate_argnums")


def test_memory_that_no_result_takes_by_name() -> None:
    """An argument by name is named so, by `compile` as well."""
    f = effx.jit(lambda *, x: x.sum(), donate_argnames="x")
    text = re.escape(words("argument 'x' f32[8]"))
    first = re.escape("Some donated buffers were not usable: float32[8].\n")
    with pytest.warns(UserWarning, match=f"^{first}{text}$"):
        f.lower(x=vector(8)).compile()


def test_not_read() -> None:
    """What the program does not read is not passed: nothing is donated, without a warning."""
    x = vector()
    assert float(effx.jit(lambda x: enp.ones(()), donate_argnums=0)(x)) == 1.0
    assert not x.is_deleted()


def test_inside_of_other_functions() -> None:
    """Only an outermost call gives memory away: inside of programs and under handlers arrays live on."""
    inner = effx.jit(lambda x: x * x, donate_argnums=0)
    x = vector(4)
    uses: dict[str, Callable[[], Any]] = {
        "jit": lambda: effx.jit(lambda x: inner(x) + x)(x),
        "vmap": lambda: effx.vmap(lambda x: inner(x) + x)(x),
        "jit of vmap": lambda: effx.jit(effx.vmap(lambda x: inner(x) + x))(x),
        "vmap of jit": lambda: effx.vmap(effx.jit(lambda x: inner(x) + x))(x),
        "cond": lambda: lax.cond(True, lambda x: inner(x) + x, lambda x: x, x),
    }
    for what, use in uses.items():
        np.testing.assert_allclose(use(), np.arange(4.0) ** 2 + np.arange(4.0), err_msg=what)
    for grad in (effx.grad, lambda f: effx.jit(effx.grad(f))):
        np.testing.assert_allclose(grad(lambda x: inner(x).sum())(x), 2 * np.arange(4.0))
    looped = lax.scan(lambda c, _: (inner(c), None), x, None, length=2)[0]
    np.testing.assert_allclose(looped, np.arange(4.0) ** 4)
    assert not x.is_deleted()


GIVEN_TWICE: dict[str, dict[str, Any]] = {
    "both": {"donate_argnums": (0, 1)},
    "one": {"donate_argnums": 0},
    "by name": {"donate_argnames": ("x", "y")},
}


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("options", GIVEN_TWICE.values(), ids=GIVEN_TWICE)
def test_given_twice(options: dict[str, Any], again: bool, capfd: pytest.CaptureFixture[str]) -> None:
    """An array cannot be donated where the same call reads it as another argument."""
    f = effx.jit(lambda x, y: (x + 1, y + 2), **options)
    if again:
        f(vector(4), vector(4))
    x = vector(4)
    with pytest.raises(errors.DonatedArrayError) as caught:
        f(x, x)
    assert caught.value.message == (
        "jit: <lambda> is given the array f32[4] twice, once as a donated argument; "
        "donate a copy, or leave it out of donate_argnums"
    )
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    capfd.readouterr()  # XLA's log


@pytest.mark.parametrize("options", GIVEN_TWICE.values(), ids=GIVEN_TWICE)
def test_compiled_passed_twice(options: dict[str, Any], capfd: pytest.CaptureFixture[str]) -> None:
    """Nor in a call of what was compiled ahead of time."""
    x = vector(4)
    given = {"x": x, "y": x} if "donate_argnames" in options else {}
    args = () if given else (x, x)
    compiled = effx.jit(lambda x, y: (x + 1, y + 2), **options).lower(*args, **given).compile()
    with pytest.raises(errors.DonatedArrayError) as caught:
        compiled(*args, **given)
    assert caught.value.message == (
        "jit: <lambda> is given the array f32[4] twice, once as a donated argument; "
        "donate a copy, or leave it out of donate_argnums"
    )
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    capfd.readouterr()  # XLA's log


def test_given_twice_and_not_read() -> None:
    """What is not passed a second time is no harm."""
    x = vector(4)
    f = effx.jit(lambda x, y: x + 1, donate_argnums=0)
    assert f(x, x).tolist() == [1.0, 2.0, 3.0, 4.0]


def test_compiled_takes_memory() -> None:
    """A call of what was compiled ahead of time takes the memory too."""
    x = vector()
    compiled = effx.jit(lambda x: x + 1, donate_argnums=0).lower(x).compile()
    address = x.unsafe_buffer_pointer()
    assert compiled(x).unsafe_buffer_pointer() == address
    assert x.is_deleted()
    with pytest.raises(errors.DonatedArrayError, match=r"the array f32\[1000\] was donated"):
        compiled(x)


def test_on_several_devices() -> None:
    """Each device's part takes the memory of its own; what fits nowhere is named."""
    f = effx.pmap(lambda x, y: (x + 1, y.sum()), donate_argnums=(0, 1))
    start = effx.pmap(lambda x: x)
    x, y = start(np.ones((4, 100), np.float32)), start(np.ones((4, 50), np.float32))
    before = [s.data.unsafe_buffer_pointer() for s in x.addressable_shards]
    with pytest.warns(UserWarning, match="cannot reuse") as caught:
        result, _ = f(x, y)
    assert [str(w.message).split("\n")[1] for w in caught] == [
        words("argument y f32[4,50]").replace("jit", "pmap")
    ]
    assert [s.data.unsafe_buffer_pointer() for s in result.addressable_shards] == before
    assert x.is_deleted()
    assert not y.is_deleted()
    np.testing.assert_array_equal(result, np.full((4, 100), 2.0))
