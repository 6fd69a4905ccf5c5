"""Ports: the functions that modules need from layers above them, which they must not import.

Here stands what is needed; `effx.wiring`, which stands above all layers, says where it comes from. What a port names
is imported when it is first used, so that loading effx loads neither XLA nor functions that nobody calls.

Never: import another effx module.
"""

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, cast

__all__ = [
    "LateModule",
    "array_methods",
    "evaluation",
    "export",
    "flags",
    "loops",
    "ordered_effects",
    "padding",
    "program_views",
    "random_keys",
    "refs",
    "sizes",
    "sparse",
]


class Port:
    """Modules of higher layers, by the names that a subclass annotates."""

    def __init__(self) -> None:
        self._loaders: dict[str, Callable[[], ModuleType]] = {}

    def connect(self, **loaders: Callable[[], ModuleType]) -> None:
        """Sets for each name the function that imports its module."""
        self._loaders.update(loaders)

    if not TYPE_CHECKING:  # type checkers use the annotations

        def __getattr__(self, name: str) -> ModuleType:
            # Only the first use comes here: from then on the module is an attribute, which costs 20 ns.
            loaders = cast("dict[str, Callable[[], ModuleType]]", self.__dict__.get("_loaders", {}))
            if name not in loaders:
                raise AttributeError(
                    f"{type(self).__name__} has no module {name!r}; effx.wiring connects them"
                )
            module = self.__dict__[name] = loaders[name]()
            return module


class LateModule:
    """Stands for a module of a port in the namespace of a module below, until something of it is used.

    Then the module takes its place there, so that each later use costs what a global name costs: an attribute of a port,
    whose class has a `__getattr__`, costs 60 ns more, and operators of arrays have two.
    """

    def __init__(
        self, port: Port, name: str, namespace: dict[str, object], own_name: str | None = None
    ) -> None:
        self._port, self._name, self._namespace, self._own_name = port, name, namespace, own_name or name

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            module = self._namespace[self._own_name] = getattr(self._port, self._name)
            return getattr(module, name)


class ArrayMethodsPort(Port):
    """The implementations of array methods and operators."""

    arithmetic: ModuleType
    creation: ModuleType
    display: ModuleType
    indexing: ModuleType
    inspection: ModuleType
    numpy: ModuleType
    operators: ModuleType
    out_sharding: ModuleType
    reducing: ModuleType
    shaping: ModuleType
    sorting: ModuleType


class EvaluationPort(Port):
    """The outermost handler, which runs operations that no other handler takes."""

    outermost: ModuleType


class ExportPort(Port):
    """The serialization of exported functions: the format's library is an optional requirement."""

    writing: ModuleType


class FlagsPort(Port):
    """All flags: a flag is pickled by its name."""

    flags: ModuleType


class LoopsPort(Port):
    """LoopsPort of functions, for methods of arrays."""

    loops: ModuleType


class OrderedEffectsPort(Port):
    """Handlers that order callbacks' effects, or drop debugging: written with the base classes for users."""

    tokens: ModuleType


class PaddingPort(Port):
    """The handler of padded arrays, which is part of the library."""

    functions: ModuleType
    handler: ModuleType


class ProgramViewsPort(Port):
    """Views of programs on pages and in terminals, with their costs."""

    viewing: ModuleType


class RandomKeysPort(Port):
    """The check for reused random keys."""

    reuse: ModuleType


class RefsPort(Port):
    """Reading and writing mutable references under handlers."""

    discharge: ModuleType


class SizesPort(Port):
    """Arithmetic of symbolic sizes: each of these modules needs their class."""

    bounds: ModuleType
    division: ModuleType
    evaluation: ModuleType
    operations: ModuleType
    shape_text: ModuleType


class SparsePort(Port):
    """The handler of sparse arrays for functions of arrays."""

    transform: ModuleType


array_methods = ArrayMethodsPort()
evaluation = EvaluationPort()
export = ExportPort()
flags = FlagsPort()
loops = LoopsPort()
ordered_effects = OrderedEffectsPort()
padding = PaddingPort()
program_views = ProgramViewsPort()
random_keys = RandomKeysPort()
refs = RefsPort()
sizes = SizesPort()
sparse = SparsePort()
