"""The launcher: lines with numbers, exit statuses, signals."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from effx.distributed.launch import launch, main
from tests.distributed.results import Ended


def run(*arguments: str, timeout: float = 60) -> Ended:
    """Runs the launcher as a user does."""
    command = [sys.executable, "-m", "effx.distributed.launch", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    return Ended(done.returncode, done.stdout, done.stderr)


def python(code: str, count: int = 2, grace: float = 5) -> tuple[int, list[str]]:
    """Runs code in processes, and returns the status and the lines in order."""
    output = io.StringIO()
    status = launch([sys.executable, "-c", code], count, grace=grace, output=output)
    return status, sorted(output.getvalue().splitlines())


def test_lines_and_variables(tmp_path: Path) -> None:
    """Each line has its process's number, and each process its variables."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\n"
        "names = ('NUM_PROCESSES', 'PROCESS_ID', 'LOCAL_PROCESS_ID', 'NUM_CPU_DEVICES', 'COORDINATOR_ADDRESS')\n"
        "print(*[os.environ[f'EFFX_{name}'] for name in names], *sys.argv[1:])\n"
        "sys.stderr.write('no end of line')\n"
    )
    done = run("-n", "3", "--devices-per-process", "4", "--port", "4567", str(script), "-n", "x")
    assert (done.status, done.error) == (0, "")
    lines = [
        f"[{k}] {text}" for k in range(3) for text in (f"3 {k} {k} 4 127.0.0.1:4567 -n x", "no end of line")
    ]
    assert sorted(done.out.splitlines()) == lines


def test_modules() -> None:
    """A module in place of a script."""
    done = run("-n", "1", "-m", "json.tool", "--help")
    assert done.status == 0
    assert done.out.startswith("[0] usage: ")


def test_statuses() -> None:
    """0 where all end well; else that of the first that fails, in the shells' way for signals."""
    number = "number = int(os.environ['EFFX_PROCESS_ID'])"
    assert python("print(1)") == (0, ["[0] 1", "[1] 1"])
    assert python(f"import os, time; {number}; number and os._exit(7); time.sleep(60)", grace=0.2)[0] == 7
    assert (
        python(f"import os, time; {number}; number and os.kill(os.getpid(), 9); time.sleep(60)", 2, 0.2)[0]
        == 137
    )


def test_who_does_not_end_is_ended() -> None:
    """Also where it does not care for requests to end, and with what it has started."""
    code = (
        "import os, signal, subprocess, sys, time\n"
        "if os.environ['EFFX_PROCESS_ID'] == '1':\n"
        "    time.sleep(0.3)\n"
        "    sys.exit(3)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print('begun')\n"
        "time.sleep(60)\n"
    )
    start = time.monotonic()
    assert python(code, grace=0.5) == (3, ["[0] begun"])
    assert time.monotonic() - start < 60  # as long as they would sleep


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals(number: signal.Signals, tmp_path: Path) -> None:
    """They go to all processes, which may end in their own way."""
    script = tmp_path / "script.py"
    script.write_text(
        "import signal, sys, time\n"
        "def end(number, frame):\n"
        "    print('got', number, flush=True)\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGINT, end)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-m", "effx.distributed.launch", "-n", "2", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stdout is not None
        try:
            ready = sorted([process.stdout.readline(), process.stdout.readline()])
            process.send_signal(number)
            out, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    assert ready == ["[0] ready\n", "[1] ready\n"]
    assert sorted(out.splitlines()) == [f"[0] got {int(number)}", f"[1] got {int(number)}"]
    assert process.returncode == 128 + number


def test_reports_of_failures(capsys: pytest.CaptureFixture[str]) -> None:
    """The launcher says which process failed first, and how."""
    python("raise SystemExit(3)", 1)
    python("import os; os.kill(os.getpid(), 9)", 1)
    assert capsys.readouterr().err == (
        "effx.distributed.launch: process 0 ended with status 3\n"
        "effx.distributed.launch: process 0 ended by SIGKILL\n"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["script.py"], "the following arguments are required: -n/--processes"),
        (["-n", "0", "script.py"], "argument -n/--processes: must be at least 1, got 0"),
        (["-n", "2"], "the following arguments are required: script, arguments"),
    ],
)
def test_command_line(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is missing or wrong ends the launcher with status 2."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert text in capsys.readouterr().err


def test_a_failure_in_a_group(tmp_path: Path) -> None:
    """A process that is killed while the others wait for it: its status, and errors that name it."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, signal\n"
        "import effx\n"
        "from effx.experimental import multihost_utils\n"
        "effx.distributed.initialize()\n"
        "if os.environ['EFFX_PROCESS_ID'] == '1':\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "multihost_utils.sync_global_devices('there')\n"
    )
    done = run("-n", "2", str(script))
    assert done.status == 137
    assert "[0] effx.errors.DistributedError: sync_global_devices: process 1 of 2 is gone" in done.out
    assert done.error == "effx.distributed.launch: process 1 ended by SIGKILL\n"
