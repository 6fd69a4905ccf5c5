"""The implementations: effx, and adapters of JAX and of PyTorch, which are imported when they are asked for."""

import contextlib
import importlib
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import final

import numpy as np

import effx
from effx import image, lax, nn
from effx.errors import NoRuleError, TransformError
from effx.laws.control_oracle import ReplacedNames
from effx.laws.portable.implementation import AttachJvp, AttachVjp, Function, Implementation, Leaf
from effx.laws.programs import CONSTRUCTS
from effx.scipy import linalg, signal, special, stats
from effx.tree.registry import PyTree

ARRAY_OF_NUMPY = "np.array({data}, np.{dtype})"
BOUNDED_LOOP = '''
def while_loop(more, body, state, max_steps):
    """The loop of effx with `max_steps`, in terms of one without."""
    return lax.while_loop(
        lambda s: (s[0] < max_steps) & more(s[1]), lambda s: (s[0] + 1, body(s[1])), (0, state)
    )[1]
'''


def _import_peer(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"effx.laws: --against {name.partition('.')[0]} needs {name}, which is not installed"
        ) from error


def _spell(source: str, **names: str) -> str:
    for word, spelling in names.items():
        source = re.sub(rf"(?<![\w.]){word}\.", f"{spelling}.", source)
    return source


def _says_that_it_is_not_supported(error: Exception) -> bool:
    return re.search("not (supported|implemented|differentiable)", str(error)) is not None


def _attach_jvp(make: Function) -> AttachJvp:
    def attach(f: Function, rule: Function) -> Function:
        g: PyTree = make(f)
        g.defjvp(rule)
        return lambda *xs: g(*xs)

    return attach


def _attach_vjp(make: Function) -> AttachVjp:
    def attach(f: Function, forward: Function, backward: Function) -> Function:
        g: PyTree = make(f)
        g.defvjp(forward, backward)
        return lambda *xs: g(*xs)

    return attach


def of_effx() -> Implementation:
    """Returns effx as an implementation.

    >>> of_effx().function("enp.sin") is effx.numpy.sin
    True
    """

    return Implementation(
        name="effx",
        version=effx.__version__,
        namespace={
            "np": np, "effx": effx, "enp": effx.numpy, "lax": lax, "nn": nn, "special": special, "sl": linalg,
            "signal": signal, "stats": stats, "image": image,
        },
        preamble=(
            "import numpy as np", "import effx", "import effx.numpy as enp", "from effx import image, lax, nn",
            "from effx.scipy import linalg as sl, signal, special, stats", "effx.config.update('enable_x64', True)",
        ),
        spell=lambda source: source,
        array_source=ARRAY_OF_NUMPY,
        asarray=effx.numpy.asarray,
        precision=effx.enable_x64,
        constructs=CONSTRUCTS,
        one_way=(),
        partial=False,
        refuses=lambda error: isinstance(error, NoRuleError),
        grad=lambda f, argnums: effx.grad(f, argnums),
        value_and_grad=lambda f, argnums: effx.value_and_grad(f, argnums),
        jvp=effx.jvp,
        vjp=effx.vjp,
        vmap=lambda f, in_axes, out_axes: effx.vmap(f, tuple(in_axes), out_axes),
        stop_gradient=lax.stop_gradient,
        linearize=effx.linearize,
        jit=lambda f: effx.jit(f),
        checkpoint=lambda f: effx.checkpoint(f),
        custom_jvp=_attach_jvp(effx.custom_jvp),
        custom_vjp=_attach_vjp(effx.custom_vjp),
    )  # fmt: skip


def of_jax() -> Implementation:
    """Returns the installed JAX as an implementation.

    Raises:
        ImportError: it is not installed.
    """
    jax: PyTree = _import_peer("jax")
    modules: dict[str, PyTree] = {
        name: _import_peer(f"jax.{path}")
        for name, path in {
            "enp": "numpy", "nn": "nn", "special": "scipy.special", "sl": "scipy.linalg", "signal": "scipy.signal",
            "stats": "scipy.stats", "image": "image",
        }.items()
    }  # fmt: skip
    loop_globals: dict[str, PyTree] = {"lax": jax.lax}
    exec(BOUNDED_LOOP, loop_globals)

    def spell(source: str) -> str:
        source = source.replace("lax.while_loop(", "while_loop(")
        spelled = _spell(source, effx="jax", enp="jnp", special="jax.scipy.special", sl="jax.scipy.linalg")
        spelled = _spell(
            spelled, signal="jax.scipy.signal", stats="jax.scipy.stats", image="jax.image", nn="jax.nn"
        )
        return f"{BOUNDED_LOOP}\n\n{spelled}" if "while_loop(" in source else spelled

    return Implementation(
        name="jax",
        version=jax.__version__,
        namespace={
            "np": np,
            "effx": jax,
            **modules,
            "lax": ReplacedNames(jax.lax, while_loop=loop_globals["while_loop"]),
        },
        preamble=(
            "import numpy as np", "import jax", "import jax.numpy as jnp", "import jax.scipy", "from jax import lax",
            "jax.config.update('jax_enable_x64', True)",
        ),
        spell=spell,
        array_source=ARRAY_OF_NUMPY,
        asarray=jax.numpy.asarray,
        precision=jax.enable_x64,
        constructs=CONSTRUCTS,
        one_way=("while",),
        partial=False,
        refuses=_says_that_it_is_not_supported,
        grad=lambda f, argnums: jax.grad(f, argnums),
        value_and_grad=lambda f, argnums: jax.value_and_grad(f, argnums),
        jvp=jax.jvp,
        vjp=jax.vjp,
        vmap=lambda f, in_axes, out_axes: jax.vmap(f, tuple(in_axes), out_axes),
        stop_gradient=jax.lax.stop_gradient,
        linearize=jax.linearize,
        jit=lambda f: jax.jit(f),
        checkpoint=lambda f: jax.checkpoint(f),
        custom_jvp=_attach_jvp(jax.custom_jvp),
        custom_vjp=_attach_vjp(jax.custom_vjp),
    )  # fmt: skip


@final
class TorchFunctions:
    """PyTorch's functions by the names that effx has for them; those of other shapes of call are not there."""

    RENAMED = {  # noqa: RUF012  # a table of this module
        "power": "pow", "remainder": "remainder", "mod": "remainder", "transpose": "permute", "array": "as_tensor",
        "concatenate": "cat", "sort": None, "max": "amax", "min": "amin", "median": None, "pad": None, "repeat": None,
        "clip": "clamp", "logistic": "sigmoid", "lgamma": "lgamma", "erf_inv": "erfinv", "divide": "div",
    }  # fmt: skip

    def __init__(self, torch: PyTree, *modules: PyTree) -> None:
        self._torch, self._modules = torch, modules

    def __getattr__(self, name: str) -> PyTree:
        renamed = self.RENAMED.get(name, name)
        for module in self._modules:
            if renamed is not None and hasattr(module, renamed):
                return getattr(module, renamed)
        raise AttributeError(name)


def of_torch() -> Implementation:
    """Returns `torch.func` of the installed PyTorch as an implementation.

    Raises:
        ImportError: PyTorch is not installed.
    """
    torch: PyTree = _import_peer("torch")
    func: PyTree = _import_peer("torch.func")
    functional: PyTree = _import_peer("torch.nn.functional")
    lax_names: PyTree = TorchFunctions(torch, torch, torch.special)

    def stack_rows(f: Function, xs: Leaf) -> PyTree:
        return torch.stack([f(x) for x in xs])

    @contextlib.contextmanager
    def choose_precision(double: bool) -> Iterator[None]:
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64 if double else torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(before)

    def unpack_single(pullback: Function) -> Function:
        def pull(ct: PyTree) -> tuple[PyTree, ...]:
            cts = pullback(ct)
            return cts if isinstance(cts, tuple) else (cts,)

        return pull

    def find_vjp(f: Function, *xs: Leaf) -> tuple[PyTree, Function]:
        y, pullback = func.vjp(f, *xs)
        return y, unpack_single(pullback)

    return Implementation(
        name="torch",
        version=torch.__version__,
        namespace={
            "np": np, "torch": torch, "effx": ReplacedNames(func), "enp": TorchFunctions(torch, torch, torch.special),
            "lax": ReplacedNames(lax_names, map=stack_rows, stop_gradient=lambda x: x.detach()),
            "nn": TorchFunctions(torch, functional, torch), "special": TorchFunctions(torch, torch.special),
        },
        preamble=("import numpy as np", "import torch", "torch.set_default_dtype(torch.float64)"),
        spell=lambda source: _spell(
            source, effx="torch.func", enp="torch", lax="torch", nn="torch.nn.functional", special="torch.special"
        ),
        array_source="torch.tensor({data}, dtype=torch.{dtype})",
        asarray=lambda data: torch.as_tensor(np.array(data)),
        precision=choose_precision,
        constructs=("vmap",),
        one_way=(),
        partial=True,
        refuses=_says_that_it_is_not_supported,
        grad=lambda f, argnums: func.grad(f, argnums),
        value_and_grad=lambda f, argnums: lambda *xs: tuple(reversed(func.grad_and_value(f, argnums)(*xs))),
        jvp=func.jvp,
        vjp=find_vjp,
        vmap=lambda f, in_axes, out_axes: func.vmap(f, tuple(in_axes), out_axes),
        stop_gradient=lambda x: x.detach(),
        linearize=func.linearize,
    )  # fmt: skip


PEERS: dict[str, Callable[[], Implementation]] = {"effx": of_effx, "jax": of_jax, "torch": of_torch}


def find_implementation(name: str) -> Implementation:
    """Returns the implementation of a name.

    Args:
        name: `effx`, `jax` or `torch`.

    Raises:
        TransformError: the name is another.
        ImportError: it is not installed.

    >>> find_implementation("effx").name
    'effx'
    """
    if name not in PEERS:
        raise TransformError(f"find_implementation: a name is one of {', '.join(PEERS)}, got {name!r}")
    return PEERS[name]()
