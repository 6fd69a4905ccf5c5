"""Forks, new processes, interrupts, the end of the interpreter, and memory: each in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest


def run(code: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a new process, with a time limit of a minute."""
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "EFFX_NUM_CPU_DEVICES": "1", **environment},
    )


REFUSED = (
    "os.fork: this process was forked from one in which XLA had started, and XLA's threads do not live on: it can read "
    "arrays but not compute; use multiprocessing's start method 'spawn' or 'forkserver'"
)

FORK = """
import multiprocessing, os, signal, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
import effx, effx.numpy as enp

def child(call):
    pid = os.fork()
    if pid:
        assert os.waitpid(pid, 0)[1] == 0
        return
    signal.alarm(20)  # a hang ends the process, which the parent sees
    try:
        print(call())
    except effx.errors.BackendError as error:
        print(error.message)
    sys.stdout.flush()
    os._exit(0)

child(lambda: "unstarted")
f, x, key = effx.jit(lambda x: x * 2), enp.arange(3.0), effx.random.key(0)
for _ in range(2):
    f(x), x + 1, effx.random.normal(key)
print("seen by C++:", f._cache_size())
for call in (
    lambda: f(x), lambda: x + 1, lambda: x[0], lambda: effx.jit(lambda x: x * 3)(x), lambda: enp.ones(3),
    lambda: effx.device_put(np.ones(3)), lambda: effx.random.normal(key), lambda: effx.devices(),
    lambda: effx.vmap(f)(x), lambda: f.lower(x).compile(),
):
    child(call)
child(lambda: (np.asarray(x).tolist(), x.tolist(), x.block_until_ready().shape))
print(f(x))  # the parent goes on

def work(y):
    return (f(y) + 1).tolist()

def refused(y):
    try:
        work(y)
    except effx.errors.BackendError as error:
        return error.message

with multiprocessing.get_context("fork").Pool(1) as pool:
    print(pool.map(refused, [np.ones(2)])[0])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_forked_processes_are_refused() -> None:
    """A child of a process in which XLA has started can read, and gets an error where it computes; it does not hang."""
    done = run(FORK)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[:2] == ["unstarted", "seen by C++: 1"]
    assert lines[2:12] == [REFUSED] * 10
    assert lines[12:] == ["([0.0, 1.0, 2.0], [0.0, 1.0, 2.0], (3,))", "[0. 2. 4.]", REFUSED]


def test_spawned_processes_compute(tmp_path: object) -> None:
    """With the start methods "spawn" and "forkserver" functions and arrays go to other processes and back."""
    module = f"{tmp_path}/work_of_spawn.py"
    with open(module, "w", encoding="utf-8") as file:
        file.write(
            """
import multiprocessing, sys
import effx, effx.numpy as enp

@effx.jit
def doubled(x):
    return x * 2

def work(given):
    function, x, key = given
    return function(x), effx.random.key_data(key)

if __name__ == "__main__":
    x = enp.arange(3.0)
    doubled(x)
    for method in ("spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            y, words = pool.map(work, [(doubled, x, effx.random.key(7))])[0]
            print(method, type(y) is type(x), y, words)
"""
        )
    done = subprocess.run([sys.executable, module], check=False, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [f"{m} True [0. 2. 4.] [0 7]" for m in ("spawn", "forkserver")]


INTERRUPTS = """
import random, signal
import effx, effx.numpy as enp
from effx import lax, presence
from effx.effects import current_frame

def model(n):
    def step(c, x):
        return enp.tanh(c @ c.T) @ c * x, enp.sum(c)
    def loss(w):
        y, s = lax.scan(step, w, enp.linspace(0.0, 1.0, n))
        return enp.sum(y) + enp.sum(s)
    return effx.jit(effx.value_and_grad(loss))

w, big = enp.ones((8, 8)) / 8, enp.ones((400, 400))
want = {n: float(model(n)(w)[0]) for n in (5, 7)}
random.seed(1)
hits = 0
signal.signal(signal.SIGALRM, signal.default_int_handler)  # what Ctrl-C does
for i in range(9):
    n = 5 + 2 * (i % 2)
    try:
        signal.setitimer(signal.ITIMER_REAL, random.random() * 0.08)
        if i % 4 == 0:
            effx.clear_caches()
        model(n)(w)
        f = effx.jit(lambda x: (x @ x).sum())
        with effx.debug_nans():
            effx.vmap(effx.grad(lambda x: enp.sin(x) * i))(w[0])
        for _ in range(20):
            f(big).block_until_ready()
    except KeyboardInterrupt:
        hits += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert current_frame() is None
    assert not presence.is_any_present()
    assert abs(float(model(n)(w)[0]) - want[n]) < 1e-3
print("interrupted" if hits > 2 else hits)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals of POSIX")
def test_interrupts() -> None:
    """Ctrl-C while staging, compiling or running leaves a process that computes, without handlers or settings in force."""
    done = run(INTERRUPTS)
    # Python prints and drops an interrupt that comes while it calls a finaliser or the callback of a weak reference.
    printed = re.sub(
        r"Exception ignored in.*\n(Traceback.*\n(  .*\n)+\n?)?KeyboardInterrupt: *\n", "", done.stderr
    )
    assert (done.stdout, printed) == ("interrupted\n", "")


EXITS = {
    "programs that run": """
f = effx.jit(lambda x: lax.fori_loop(0, 30, lambda i, y: enp.tanh(y @ y), x))
x = enp.ones((500, 500)) / 500
f(x).block_until_ready()
held = [f(x + i) for i in range(10)]
""",
    "a program whose results nobody holds": """
f = effx.jit(lambda x: lax.fori_loop(0, 30, lambda i, y: enp.tanh(y @ y), x))
x = enp.ones((700, 700)) / 700
f(x).block_until_ready()
f(x)
""",
    "the first product": """
effx.jit(lambda x: x.T @ x)(np.ones((64, 64), np.float32))
""",
    "single operations that run": """
x = enp.ones((1000, 1000))
for _ in range(20):
    x = x @ x * 0.001
""",
    "a callback in a thread that is waited for": """
from effx.experimental import io_callback
f = effx.jit(lambda x: io_callback(lambda y: (time.sleep(0.3), print("done"))[0], None, x, ordered=True))
threading.Thread(target=lambda: f(1.0)).start()
""",
    "a callback in a thread that is not": """
f = effx.jit(lambda x: effx.pure_callback(lambda y: (time.sleep(5.0), y)[1], x, x))
threading.Thread(target=lambda: f(1.0), daemon=True).start()
time.sleep(0.2)
""",
    "a function that is compiled": """
def long(x):
    for _ in range(300):
        x = enp.sin(x @ x)
    return x
staged = threading.Event()
effx.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: event == "/effx/lower" and staged.set())
threading.Thread(target=lambda: effx.jit(long)(np.ones((3, 3), np.float32)), daemon=True).start()
assert staged.wait(30)
""",
    "threads that compile for ever": """
effx.jit(lambda x: x)(1.0)
def go():
    for i in itertools.count():
        effx.jit(lambda x: enp.sin(x) * i)(1.0)
threading.Thread(target=go, daemon=True).start()
threading.Thread(target=go, daemon=True).start()
time.sleep(0.3)
""",
    "a thread that computes for ever": """
f = effx.jit(lambda x: enp.tanh(x @ x))
def go():
    x = enp.ones((200, 200))
    while True:
        x = f(x)
threading.Thread(target=go, daemon=True).start()
time.sleep(0.3)
""",
    "a thread that reads for ever": """
f = effx.jit(lambda x: enp.tanh(x @ x))
def go():
    x = enp.ones((200, 200))
    while True:
        x = effx.device_put(np.asarray(f(x)))
threading.Thread(target=go, daemon=True).start()
time.sleep(0.3)
""",
    "a thread that is called back for ever": """
f = effx.jit(lambda x: effx.pure_callback(lambda y: (time.sleep(0.001), y)[1], x, x))
def go():
    while True:
        f(1.0)
threading.Thread(target=go, daemon=True).start()
time.sleep(0.3)
""",
    "a handler that was registered before XLA started": """
import effx.lower.process_exit
def last():  # as the one by which a process leaves its group
    sys.stderr.write("" if held.is_ready() else "XLA is at work")
atexit.register(last)
f = effx.jit(lambda x: lax.fori_loop(0, 100, lambda i, y: enp.tanh(y @ y), x))
held = f(enp.ones((500, 500)) / 500)
""",
    "a handler of the end that computes": """
def last():
    f = effx.jit(lambda x: effx.pure_callback(lambda y: y + 1, x, enp.sin(x)))
    assert float(f(0.0)) == 1.0 or sys.stderr.write("wrong")
atexit.register(last)  # before effx registers its own, so that it runs after that
effx.jit(lambda x: x + 1)(1.0)
""",
    "things that are held": """
c = enp.ones(5)
h = effx.jit(lambda x: x + c)
kept, compiled = h(c), h.lower(c).compile()
with effx.debug_key_reuse():
    key = effx.random.key(0)
    number = effx.random.normal(key)
gradient = effx.grad(lambda x: enp.sum(x**2))(c)
""",
}


@pytest.mark.parametrize("name", EXITS)
def test_the_end_of_the_interpreter(name: str) -> None:
    """A process ends well with any work in flight, and prints nothing."""
    code = f"""
import atexit, itertools, sys, threading, time
import numpy as np
import effx, effx.numpy as enp
from effx import lax
{EXITS[name]}
"""
    done = run(code)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("done\n" if "waited for" in name else "")


def test_the_end_under_typeguard() -> None:
    """Checks of types that end before effx does are no errors either."""
    pytest.importorskip("typeguard")
    code = f"""
from typeguard import install_import_hook
install_import_hook("effx.lower")
import effx, effx.numpy as enp
{EXITS["things that are held"]}
"""
    done = run(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


MEMORY = """
import gc, os
import effx, effx.numpy as enp

def resident():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

x = enp.ones((128, 128))
step = effx.jit(effx.grad(lambda w: enp.sum(enp.tanh(w @ w))))
state = [x]

def train(i):
    state[0] = state[0] - 0.1 * step(state[0])

def fresh(i):
    c = enp.ones((128, 128))
    effx.jit(lambda y: enp.sum(y * c))(x)

def fresh_gradient(i):
    effx.grad(effx.jit(lambda y: enp.sum(enp.sin(y))))(x)

def eager(i):
    float(enp.sum(enp.sin(x) + i))

for f in (train, fresh, fresh_gradient, eager):
    for i in range(100):
        f(i)
    before = resident()
    for i in range(1000):
        f(i)
    print(f.__name__, resident() - before)
"""


@pytest.mark.skipif(
    not os.path.exists("/proc/self/statm"), reason="only Linux says how much memory is resident"
)
def test_memory_is_flat() -> None:
    """A thousand steps, and a thousand fresh functions with arrays of 64 KiB of their own, leave nothing behind."""
    done = run(MEMORY)
    assert done.stderr == ""
    grown = {name: float(amount) for name, amount in (line.split() for line in done.stdout.splitlines())}
    assert len(grown) == 4
    assert max(grown.values()) < 8.0, grown  # one array of each would be 64
