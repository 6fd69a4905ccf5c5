"""Ports: the functions that modules need from layers above them, which they must not import.

Here stands what is needed; `effx.wiring`, which stands above all layers, says where it comes from. What a port names
is imported when it is first used, so that loading effx loads neither XLA nor functions that nobody calls.

Never: import another effx module.
"""

from collections.abc import Callable
from types import ModuleType

__all__ = [
    "array_methods",
    "evaluation",
    "export",
    "flags",
    "loops",
    "meshes",
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

    def connect(self, **loaders: Callable[[], ModuleType]) -> None:
        """Sets for each name the function that imports its module."""
        for name, load in loaders.items():
            setattr(self, name, _LateModule(self, name, load))


class _LateModule:
    """Stands for a module in a port until something of it is used; then the module takes its place.

    So a port has plain attributes: a class with a `__getattr__` of its own costs 60 ns at each use, and an operator of
    arrays has two.
    """

    def __init__(self, port: Port, name: str, load: Callable[[], ModuleType]) -> None:
        self._port, self._name, self._load = port, name, load

    def __getattr__(self, name: str) -> object:
        module = self._load()
        setattr(self._port, self._name, module)
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
    promotion: ModuleType
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
    """Loops of functions, for methods of arrays."""

    loops: ModuleType


class MeshesPort(Port):
    """The shardings that types show, which name meshes of devices and the mesh in force."""

    named: ModuleType
    shardings: ModuleType


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
meshes = MeshesPort()
ordered_effects = OrderedEffectsPort()
padding = PaddingPort()
program_views = ProgramViewsPort()
random_keys = RandomKeysPort()
refs = RefsPort()
sizes = SizesPort()
sparse = SparsePort()
