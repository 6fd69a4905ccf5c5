"""Keys of staged programs on disk: no function finds a program that could compute anything else."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import effx
from effx import flags
from tests.lower.users_programs import run, same

# Under typeguard's hook effx's source is not effx's own, so no program is kept.
pytestmark = pytest.mark.unguarded

# Functions `f`, with a part of each and what stands in its place afterwards.
CHANGES = {
    name: (source, old, new)
    for name, old, new, source in re.findall(
        r"^# ([^:]+): (.+) -> (.+)\n((?:(?!# ).*\n)+)",
        """\
# constant: 2.0 -> 4.0
def f(x): return x * 2.0

# operation: + -> -
def f(x): return x + 2.0

# attribute: sin -> cos
def f(x): return enp.sin(x)

# sign of zero: 0.0 -> -0.0
def f(x): return x / 0.0

# kind of number: 1) -> 1.5)
def f(x): return enp.array(1) * x

# global: 2.0 -> 3.0
k = 2.0
def f(x): return x * k

# global list: 1.0 -> 3.0
k = [1.0, 2.0]
def f(x): return x * k[0] + k[1]

# global dict: 2.0 -> 3.0
k = {'a': 1.0, 'b': {'c': 2.0}}
def f(x): return x * k['b']['c']

# global key: 'b' -> 'bb'
k = {'a': 1.0, 'b': 2.0}
def f(x): return sum([v * x ** len(n) for n, v in k.items()])

# global array: 3.0 -> 4.0
k = np.arange(3.0)
def f(x): return (x * k).sum()

# global array of effx: 3.0 -> 4.0
k = enp.arange(3.0)
def f(x): return (x * k).sum()

# element: 2.0 -> 5.0
k = np.array([1.0, 2.0])
def f(x): return (x * k).sum()

# element decides: 1.0 -> -1.0
k = enp.array([1.0, 2.0])
def f(x): return x if k.tolist()[0] > 0 else -x

# callee: 2.0 -> 4.0
def g(x): return x * 2.0
def f(x): return g(x)

# callee of callee: + 2.0 -> - 2.0
def h(x): return x + 2.0
def g(x): return h(x) * 2
def f(x): return g(x)

# callee in a list: 2.0 -> 4.0
def g(x): return x * 2.0
all = [g]
def f(x): return all[0](x)

# recursion: 2.0 -> 4.0
def g(x, n): return x if n == 0 else g(x * 2.0, n - 1)
def f(x): return g(x, 2)

# inner function: 2.0 -> 4.0
def f(x):
    def g(y): return y * 2.0
    return g(x)

# comprehension: (1, 2) -> (1, 3)
def f(x): return sum([x * i for i in (1, 2)])

# default: 2.0 -> 4.0
def f(x, k=2.0): return x * k

# default of a keyword: 2.0 -> 4.0
def f(x, *, k=2.0): return x * k

# closure: make(2.0) -> make(4.0)
def make(k):
    def f(x): return x * k
    return f
f = make(2.0)

# closed-over array: enp.ones(2) -> enp.ones(3)
def make(k):
    return lambda x: (x * k).sum()
f = make(enp.ones(2))

# closed-over function: 2.0 -> 4.0
def make(g):
    return lambda x: g(x)
f = make(lambda x: x * 2.0)

# closed-over module: sin -> cos
def make(np):
    return lambda x: np.sin(x)
f = make(enp)

# nonlocal: += -> -=
def f(x):
    n = 1
    def g():
        nonlocal n
        n += 1
    g()
    return x * n

# partial: 2.0 -> 4.0
def g(k, x): return x * k
f = functools.partial(g, 2.0)

# wraps: 2.0 -> 4.0
def twice(g):
    @functools.wraps(g)
    def h(x): return 2.0 * g(x)
    return h
@twice
def f(x): return x

# lru_cache: 2.0 -> 4.0
@functools.lru_cache
def k(): return 2.0
def f(x): return x * k()

# method: 2.0 -> 4.0
class A:
    def m(self, x): return x * 2.0
a = A()
def f(x): return a.m(x)

# field: 2.0 -> 4.0
@attrs.frozen
class A:
    k: float
    def m(self, x): return x * self.k
a = A(2.0)
def f(x): return a.m(x)

# dataclass: 2.0 -> 4.0
@dataclasses.dataclass
class A:
    k: float
a = A(2.0)
def f(x): return x * a.k

# slots: 2.0 -> 4.0
class A:
    __slots__ = ('k',)
    def __init__(self, k): self.k = k
a = A(2.0)
def f(x): return x * a.k

# default of a field: 2.0 -> 4.0
@attrs.frozen
class A:
    k: float = 2.0
def f(x): return x * A().k

# factory: 2.0 -> 4.0
@attrs.frozen
class A:
    k: list = attrs.field(factory=lambda: [2.0])
def f(x): return x * A().k[0]

# converter: 2.0 -> 4.0
@attrs.frozen
class A:
    k: float = attrs.field(converter=lambda k: k * 2.0)
def f(x): return x * A(1.0).k

# base class: 2.0 -> 4.0
class B:
    def m(self, x): return x * 2.0
class A(B): pass
def f(x): return A().m(x)

# super: 2.0 -> 4.0
class B:
    def m(self, x): return x * 2.0
class A(B):
    def m(self, x): return super().m(x)
def f(x): return A().m(x)

# class attribute: 2.0 -> 4.0
class A:
    k = 2.0
def f(x): return x * A.k

# named by a string: 2.0 -> 4.0
class A:
    k = 2.0
def f(x): return x * getattr(A, 'k')

# named by a computed string: 2.0 -> 4.0
class A:
    kk = 2.0
def f(x): return x * getattr(A, 'k' * 2)

# property: 2.0 -> 4.0
class A:
    @property
    def k(self): return 2.0
a = A()
def f(x): return x * a.k

# static method: 2.0 -> 4.0
class A:
    @staticmethod
    def k(): return 2.0
def f(x): return x * A.k()

# class method: 2.0 -> 4.0
class A:
    @classmethod
    def k(cls): return 2.0
def f(x): return x * A.k()

# operator: 2.0 -> 4.0
class A:
    def __rmul__(self, x): return x * 2.0
a = A()
def f(x): return x.dtype.itemsize * a * x

# callable object: 2.0 -> 4.0
class A:
    def __call__(self, x): return x * 2.0
f = A()

# bound method: 2.0 -> 4.0
class A:
    def m(self, x): return x * 2.0
f = A().m

# enum: 2.0 -> 4.0
class E(enum.Enum):
    A = 2.0
def f(x): return x * E.A.value

# enum member: 2.0 -> 4.0
class E(enum.Enum):
    A = 2.0
e = E.A
def f(x): return x * e.value

# named tuple: 2.0 -> 4.0
class A(typing.NamedTuple):
    k: float
a = A(2.0)
def f(x): return x * a.k

# default of a named tuple: 2.0 -> 4.0
class A(typing.NamedTuple):
    k: float = 2.0
def f(x): return x * A().k

# subclass of dict: 2.0 -> 4.0
class A(dict):
    pass
a = A(k=2.0)
def f(x): return x * a['k']

# set: 2.0 -> 4.0
k = frozenset((1.0, 2.0))
def f(x): return x * sum(k)

# item getter: itemgetter(0) -> itemgetter(1)
k = operator.itemgetter(0)
def f(x): return x * k((2.0, 4.0))

# attribute of a function: 2.0 -> 4.0
def g(x): return x * g.k
g.k = 2.0
def f(x): return g(x)

# function of a module: m.sin -> m.cos
import math as m
def f(x): return x * m.sin(1.0)

# exchanged function: enp.sin -> enp.cos
import types
m = types.SimpleNamespace(g=enp.sin)
def f(x): return m.g(x)

# grad: ** 2 -> ** 3
def g(x): return x ** 2
f = effx.grad(g)

# argnums: g, 0 -> g, 1
def g(x, k=5.0): return x ** 2 * k ** 3
f = lambda x: effx.grad(g, 0)(x, 2.0)

# grad of a closure: g(2.0) -> g(4.0)
def g(k):
    return effx.value_and_grad(lambda x: x * k)
f = g(2.0)

# vmap: 2.0 -> 4.0
f = effx.vmap(effx.grad(lambda x: x * 2.0), axis_size=2, in_axes=None)

# axis size: _size=2, in_axes=None) -> _size=3, in_axes=None)
f = effx.vmap(lambda x: x * 2.0, axis_size=2, in_axes=None, out_axes=None)
f = effx.vmap(f, axis_size=2, in_axes=None)

# checkpoint: 2.0 -> 4.0
f = effx.grad(effx.checkpoint(lambda x: x * 2.0))

# jit inside: 2.0 -> 4.0
g = effx.jit(lambda x: x * 2.0)
def f(x): return g(x)

# static inside: (x, 2) -> (x, 4)
g = effx.jit(lambda x, k: x * k, static_argnums=1)
def f(x): return g(x, 2)

# scan: 2.0 -> 4.0
def f(x): return effx.lax.scan(lambda c, y: (c * 2.0, y), x, enp.arange(3))

# custom_jvp: 2.0 -> 4.0
@effx.custom_jvp
def g(x): return x
@g.defjvp
def _(p, t): return g(*p), t[0] * 2.0
f = effx.grad(g)

# custom_vjp: 2.0 -> 4.0
@effx.custom_vjp
def g(x): return x
g.defvjp(lambda x: (x, None), lambda r, t: (t * 2.0,))
f = effx.grad(g)

# custom_vmap: 2.0 -> 4.0
@effx.custom_batching.custom_vmap
def g(x): return x
@g.def_vmap
def _(n, b, x): return x * 2.0, b[0]
f = lambda x: effx.vmap(g)(x * enp.ones(2))

# jacobian: 2.0 -> 4.0
f = effx.jacfwd(lambda x: x * 2.0)

# loop in Python: range(2) -> range(3)
def f(x):
    for _ in range(2): x = x * 2.0
    return x

# tree of classes: 2.0 -> 4.0
@attrs.frozen
class A:
    a: typing.Any
    k: float = attrs.field(default=2.0, metadata={'static': True})
f = lambda x: (lambda y: y.a * y.k)(effx.tree.map(lambda z: z, A(x)))

# how a class is taken apart: 2.0 -> 4.0
class A:
    def __init__(self, a): self.a = a
effx.tree_util.register_pytree_node(A, lambda s: ((s.a * 2.0,), None), lambda _, c: A(*c))
def f(x): return effx.tree.map(lambda z: z, A(x)).a
""",
        re.MULTILINE,
    )
}


def other(source: str, old: str, new: str) -> str:
    assert old in source
    head, _, tail = source.rpartition(old)
    return head + new + tail


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_the_result_changes_the_key(name: str, directory: Path) -> None:
    """The same source finds the program, wherever it stands in its file; a changed one does not."""
    source, old, new = CHANGES[name]
    first = run(source)
    assert first.refusal == ""
    assert not first.hit
    second = run("\n\n" + source if name not in ("vmap", "axis size", "jacobian") else source)
    assert second.hit
    assert same(first.value, second.value)
    changed = run(other(source, old, new))
    assert not changed.hit
    with flags.cache_programs(False):
        plain = run(other(source, old, new))
    assert same(changed.value, plain.value)
    assert effx.tree.structure(changed.value) != effx.tree.structure(first.value) or not all(
        [
            x.shape == y.shape and np.array_equal(x, y)
            for x, y in zip(effx.tree.leaves(changed.value), effx.tree.leaves(first.value), strict=True)
        ]
    )


# What no key can tell, and what is said of it.
REFUSALS = dict(
    re.findall(
        r"((?:(?!# ).*\n)+)# (.+)\n",
        """\
rng = np.random.default_rng(0)
def f(x): return x * rng.normal()
# it reads the global `rng` (Generator) in f, which is or holds a Generator, whose content does not show
def f(x): return x * np.random.rand()
# f reads `numpy.random`, which does more than compute
from numpy.random import rand
def f(x): return x * rand()
# it reads the global `rand` (method) in f, which is or holds a cython_function_or_method, whose content does not show
import time
def f(x): return x * time.time()
# it reads `time.time` (builtin_function_or_method), which is time.time, of which only its name is known
import os
def f(x): return x * len(os.environ)
# it reads the global `unsetenv` (builtin_function_or_method) in _Environ.__delitem__, which is posix.unsetenv, of which \
only its name is known
count = 0
def f(x):
    global count
    count = count + 1
    return x * 2.0
# f writes the global `count`
def f(x):
    print(x)
    return x
# f uses `print`, which does more than compute
def f(x): return eval("x * 2.0")
# f uses `eval`, which does more than compute
def f(x): return x * globals()["k"]
k = 2.0
# f uses `globals`, which does more than compute
def f(x): return x * f.__globals__["k"]
k = 2.0
# f asks for `__globals__`
def f(x):
    import math
    return x * math.pi
# f imports `math` when it is called
def f(x):
    class A: k = 2.0
    return x * A.k
# f defines a class when it is called
seen = []
def f(x):
    seen.append(1.0)
    return x * 2.0
# staging it changed what it reads
class A:
    count = 0
    def m(self, x):
        self.count += 1
        return x
a = A()
def f(x): return a.m(x)
# staging it changed what it reads
def make():
    n = 0
    def f(x):
        nonlocal n
        n += 1
        return x * n
    return f
f = make()
# make.<locals>.f writes the variable `n` of a function around it
def names(module): return module.sin
def f(x): return names(enp)(x)
# f uses the global `enp` (module) as a value
def f(x): return effx.pure_callback(np.sin, x, x)
# it calls Python when it runs
def f(x):
    effx.debug.print("{}", x)
    return x
# it calls Python when it runs
def make():
    @attrs.frozen
    class A: a: typing.Any
    return A
A = make()
def f(x): return A(x)
# its result holds a make.<locals>.A, a class that cannot be imported
generator = (i for i in range(3))
def f(x): return x * next(generator)
# it reads the global `generator` (generator) in f, which is or holds a generator, whose content does not show
from effx.handling import ArrayOperation
@attrs.frozen
class Twice(ArrayOperation):
    def infer(self, t): return t
    def decompose(self, x): return x * 2.0
def f(x): return Twice()(x)
# it reads the global `Twice` (type) in f, which is the class Twice, whose rules are kept elsewhere
import threading
lock = threading.Lock()
def f(x):
    with lock: return x * 2.0
# it reads the global `lock` (lock) in f, which is or holds a lock, whose content does not show
class M(type): pass
class A(metaclass=M): k = 2.0
def f(x): return x * A.k
# it reads the global `A` (M) in f, which is the class A, made by M
def f(x): return x * len(np.lib.format.MAGIC_PREFIX)
# f reads `numpy.lib.format`, which does more than compute
""",
    )
)


@pytest.mark.parametrize("source", REFUSALS)
def test_what_no_key_can_tell(source: str, directory: Path) -> None:
    """It is staged each time, with one line that says why."""
    for _ in range(2):
        found = run(source)
        assert found.refusal == REFUSALS[source]
        assert not found.hit


KEYS = """
import sys
from tests.lower.test_cached_programs import CHANGES
from tests.lower.users_programs import loaded
from effx.transforms.kept.walk import Walk
for name, (source, _, _) in CHANGES.items():
    walk = Walk()
    walk.value(loaded(source).f)
    print(name, walk.key())
"""


def test_keys_are_those_of_other_processes() -> None:
    """Whatever the order of sets and the hashes of strings are."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", KEYS],
            env={"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": str(seed)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in (1, 2)
    ]
    first, second = [process.communicate(timeout=120)[0].splitlines() for process in processes]
    assert len(first) == len(CHANGES)
    assert first == second
