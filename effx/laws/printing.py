"""Values as Python source: the report of a failing law can be pasted and run.

A class or function that cannot be imported is named in a comment.
"""

import sys
from cmath import isfinite
from collections.abc import Callable, Sequence
from typing import Protocol, final, runtime_checkable

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array
from effx.ir.program import Program
from effx.ir.types import ArrayType

# Namespaces whose names do not move.
PUBLIC = ("effx.handling.ops", "effx.handling", "effx.laws")
PREAMBLE = (
    "import numpy as np",
    "import effx",
    "import effx.numpy as enp",
    "from effx import lax, laws",
)


@runtime_checkable
class SourcedFunction(Protocol):
    """A function that knows its own source: a `def f(...)` under the name `f`."""

    @property
    def source(self) -> str:
        """The source."""
        ...


def _numbers_source(value: object) -> str:
    """Returns nested lists of numbers as source."""
    match value:
        case list():
            return f"[{', '.join(map(_numbers_source, value))}]"
        case complex() if not isfinite(value):
            return f"complex({_numbers_source(value.real)}, {_numbers_source(value.imag)})"
        case float() if not isfinite(value):
            return repr(value).replace("nan", "np.nan").replace("inf", "np.inf")
        case _:
            return repr(value)


@final
class SourcePrinter:
    """Collects imports and definitions while values become expressions."""

    def __init__(self) -> None:
        self.imports: list[str] = list(PREAMBLE)
        self.definitions: list[str] = []
        self.notes: list[str] = []

    def expression(self, value: object) -> str:
        """Returns source whose value equals `value`."""
        match value:
            case Array():
                return self._array(value)
            case np.ndarray():
                return f"np.asarray({self._data(value)}, {self._dtype(value.dtype)})"
            case ArrayType():
                self._import("from effx.ir.types import array_type")
                return f"array_type({self._dtype(value.dtype)}, {value.shape!r}, {value.weak!r})"
            case Program():
                self._import("from effx.ir.text import parse_program")
                return f'parse_program("""\n{value}\n""")'
            case np.dtype():
                return self._dtype(value)
            case SourcedFunction():
                return self._source(value)
            case bool() | int() | str() | None | bytes():
                return repr(value)
            case float() | complex():
                return self._data(np.asarray(value))
            case list():
                return f"[{', '.join(map(self.expression, value))}]"
            case tuple():
                return f"({', '.join(map(self.expression, value))}{',' * (len(value) == 1)})"
            case dict():
                return f"{{{', '.join(f'{k!r}: {self.expression(v)}' for k, v in value.items())}}}"
            case type():
                return self._named(value)
            case _:
                return self._instance(value)

    def _import(self, line: str) -> None:
        if line not in self.imports:
            self.imports.append(line)

    def _dtype(self, dtype: dtypes.DType) -> str:
        return f"effx.dtypes.{'bool_' if dtype == dtypes.bool_ else dtype.name}"

    def _array(self, x: Array) -> str:
        if 0 in x.type.shape:
            return f"enp.zeros({x.type.shape!r}, {self._dtype(x.type.dtype)})"
        if x.type.weak and not x.type.shape:
            return f"enp.asarray({self._data(np.asarray(x))})"
        return f"enp.asarray({self._data(np.asarray(x))}, {self._dtype(x.type.dtype)})"

    def _data(self, data: "np.typing.NDArray[np.generic]") -> str:
        if data.dtype.kind in "fV" and data.dtype.itemsize < 8:
            # The shortest number that rounds to the element.
            data = np.asarray([float(str(v)) for v in data.ravel()]).reshape(data.shape)
        return _numbers_source(data.tolist())

    def _source(self, value: SourcedFunction) -> str:
        name = f"f{len(self.definitions) or ''}"
        self.definitions.append(value.source.replace("def f(", f"def {name}(", 1))
        return name

    def _named(self, value: "type | Callable[..., object]") -> str:
        """Names a class or function, with an import if possible."""
        module, name = value.__module__, value.__qualname__
        here: object = sys.modules.get(module)
        for part in name.split("."):
            here = getattr(here, part, None)
        top = name.split(".")[0]
        if (module or "").startswith("effx."):  # by its public name, which stays where it is
            module = next((m for m in PUBLIC if getattr(sys.modules.get(m), top, None) is value), module)
        if here is value and module != "__main__":
            self._import(f"from {module} import {top}")
        else:
            name = name.split(".")[-1]
            name = name if name.isidentifier() else "your_function"
            code = getattr(value, "__code__", None)
            location = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else module
            note = f"# {name} is yours, from {location}: define it here."
            if note not in self.notes:
                self.notes.append(note)
        return name

    def _instance(self, value: object) -> str:
        kind = type(value)
        if attrs.has(kind):
            fields = [
                f"{f.alias}={self.expression(getattr(value, f.name))}" for f in attrs.fields(kind) if f.init
            ]
            return f"{self._named(kind)}({', '.join(fields)})"
        if callable(value) and hasattr(value, "__qualname__"):
            return self._named(value)
        shown = repr(value)
        name = self._named(kind)
        return shown if shown.startswith(f"{name}(") else f"{name}()"

    def text(self, call: str) -> str:
        """Returns the whole program that ends in a call."""
        imports = [*self.imports[: len(PREAMBLE)], *sorted(self.imports[len(PREAMBLE) :])]
        parts = ["\n".join([*imports, *self.notes]), *self.definitions]
        return "\n\n".join([*parts, f"with effx.enable_x64(True):\n    {call}\n"])


def reproduction(name: str, case: Sequence[object]) -> str:
    """Returns Python source that checks one case of a law."""
    printer = SourcePrinter()
    arguments = ",\n        ".join([printer.expression(value) for value in case])
    return printer.text(f"laws.LAWS[{name!r}](\n        {arguments},\n    )")
