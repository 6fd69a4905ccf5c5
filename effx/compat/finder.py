"""The import hook: `import jax` and `import jax.X` give modules that take their names from effx.

A name is looked up in three modules: the one for it in `effx.compat.modules`, effx's own namespace of the same
name, and below both the modules that JAX has there. A missing name is an error that shows the importing line.

So nothing is written twice: `jax.numpy.sin is effx.numpy.sin`.

Never: be installed but by a user's call; patch anything; let JAX's own modules and these live in one process.
"""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import final

from effx.array import Box
from effx.compat.beside import check_alone
from effx.compat.callback_errors import log_as_runtime_error
from effx.compat.missing import asked
from effx.compat.policies import ask_policy_of_jax
from effx.compat.settings import read_environment
from effx.compat.stages import add_attributes
from effx.compat.tracer_text import tracer_text
from effx.errors import (
    BackendError,
    CompatError,
    DTypeError,
    EffxError,
    IndexingError,
    NoRuleError,
    ShapeError,
    TransformError,
    callback_errors,
)
from effx.flags import check_static_indices
from effx.ir.meshes import PartitionSpec
from effx.ir.ops.checkpoint import ask_policy
from effx.ir.types import ArrayType
from effx.lower.placement.concrete import ConcreteArray
from effx.tree.registry import keep_attrs_classes_leaves

__all__ = ["install", "installed"]

OWN = "effx.compat.modules"

# The namespaces of effx that are JAX's too; those below them follow.
PUBLIC = frozenset(
    {
        "ad_checkpoint", "checkpoint_policies", "custom_batching", "custom_derivatives", "debug", "distributed", "dlpack",
        "dtypes", "errors", "example_libraries", "experimental", "export", "ffi", "flatten_util", "image", "lax", "memory",
        "monitoring", "nn", "numpy", "ops", "profiler", "random", "ref", "scipy", "sharding", "stages", "test_util", "tree",
        "tree_util", "typing",
    }
)  # fmt: skip


@cache
def source_modules(name: str) -> tuple[str, ...]:
    """Returns the modules that a module of JAX's takes its names from; none where there is no such module."""
    path = name.removeprefix("jax")
    candidates = [OWN + path]
    if not path or path.split(".")[1] in PUBLIC:
        candidates.append("effx" + path)
    return tuple([home for home in candidates if _exists(home)])


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@final
class Facade(ModuleType):
    """A module of JAX's, whose names are effx's. They are looked up at access."""

    def __getattr__(self, name: str) -> object:
        full = f"{self.__name__}.{name}"
        for home in source_modules(self.__name__):
            module = importlib.import_module(home)
            if _is_import_of_overlay(module, name):
                continue
            try:
                value = getattr(module, name)
            except AttributeError:
                continue
            if not isinstance(value, ModuleType) or source_modules(full) == ():
                if name in vars(
                    module
                ):  # and not by a function of the module, which may give another next time
                    setattr(self, name, value)
                return value
        if source_modules(full):
            return importlib.import_module(full)
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        who = asked(full)
        raise AttributeError(f"{full} is not in effx; {who.file}:{who.line} asks for it", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return sorted(
            {name for home in source_modules(self.__name__) for name in dir(importlib.import_module(home))}
        )

    def __repr__(self) -> str:
        return f"<module {self.__name__!r} of effx>"


def _is_import_of_overlay(module: ModuleType, name: str) -> bool:
    """Says whether a name of `effx.compat.modules` is only something that the module has imported for itself."""
    public: list[str] | None = module.__dict__.get("__all__")
    if public is None or not module.__name__.startswith(OWN):
        return False
    return name in module.__dict__ and name not in public


@final
class JaxFinder(MetaPathFinder, Loader):
    """Finds `jax` and all below it, before any other finder does."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the spec of a module; None where it is not JAX's.

        Raises:
            ModuleNotFoundError: effx has no such module.
        """
        if fullname != "jax" and not fullname.startswith("jax."):
            return None
        if not source_modules(fullname):
            who = asked(fullname)
            # With a name of its own, `from jax import foo` would replace the error by a less informative one.
            raise ModuleNotFoundError(
                f"{fullname} is not in effx; {who.file}:{who.line} asks for it", name="jax"
            )
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Returns the module."""
        return Facade(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Sets the docstring only: names are looked up at access."""
        # Python's LazyLoader, by which some libraries import jax, has made it a module of the plain class.
        module.__class__ = Facade
        module.__doc__ = importlib.import_module(source_modules(module.__name__)[0]).__doc__


def installed() -> bool:
    """Says whether `import jax` gives effx in this process.

    >>> import subprocess, sys
    >>> program = "from effx import compat; print(compat.installed()); compat.install(); print(compat.installed())"
    >>> print(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout)
    False
    True
    """
    return any([isinstance(finder, JaxFinder) for finder in sys.meta_path])


def install() -> None:
    """Makes `import jax` give effx from here on, in this process.

    Settings of JAX's in the environment, `JAX_ENABLE_X64` and the like, are followed.

    Raises:
        CompatError: JAX itself is loaded already, or installed together with effx-jax-compat.
        TypeError, ValueError: a setting in the environment has no value that it can have.

    >>> import subprocess, sys
    >>> program = "from effx import compat; compat.install(); import jax; print(jax.numpy.sin(0.0), jax.jit.__module__)"
    >>> print(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout)
    0.0 ...effx...
    """
    if installed():
        return
    if "jax" in sys.modules:
        where = getattr(sys.modules["jax"], "__file__", None) or "no file"
        raise CompatError(
            f"effx.compat: jax is loaded already, from {where}, and one process cannot mix both; "
            f"import effx.compat.jax before anything that imports jax"
        )
    check_alone()
    sys.meta_path.insert(0, JaxFinder())
    callback_errors.append(log_as_runtime_error)
    # JAX raises now one, now the other of them, and programs catch what it raises.
    ShapeError.__bases__ = EffxError, ValueError, TypeError
    DTypeError.__bases__ = EffxError, TypeError, ValueError
    IndexingError.__bases__ = EffxError, IndexError, TypeError, ValueError
    TransformError.__bases__ = EffxError, TypeError, ValueError
    BackendError.__bases__ = EffxError, RuntimeError, ValueError
    NoRuleError.__bases__ = EffxError, TypeError, ValueError, NotImplementedError
    keep_attrs_classes_leaves()
    check_static_indices.set(False)  # JAX's default
    ArrayType.__str__ = ArrayType.long_text  # type: ignore[assignment,method-assign]  # programs match JAX's texts
    PartitionSpec.__repr__ = PartitionSpec.tuple_text  # type: ignore[method-assign]  # see above
    Box.__repr__ = tracer_text  # type: ignore[method-assign]  # see above
    ConcreteArray.__name__ = ConcreteArray.__qualname__ = "ArrayImpl"
    add_attributes()
    ask_policy.append(ask_policy_of_jax)
    read_environment()
