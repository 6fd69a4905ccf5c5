"""Functions that are declared in one statement, by what they perform and by what their documentation says of it."""

import sys
from collections.abc import Callable, Mapping
from types import FrameType, FunctionType
from typing import Concatenate, Generic, ParamSpec, TypeVar, cast, final

import attrs

from effx.ir.ops.base import Elementwise, describe_kinds
from effx.ir.values.array import Operand

E = TypeVar("E", bound=Elementwise)
F = TypeVar("F")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def declare_function(
    template: Callable[..., object], name: str, annotations: Mapping[str, object], documentation: str
) -> FunctionType:
    """Copies a function into the module that is being loaded, under a name of its own.

    For `help`, `inspect.signature`, doctest, pickle and keys of programs on disk it is a function that stands there.

    Args:
        template: reads the variables around it, but no globals: the copy has those of the module.
        name: of the copy.
        annotations: the types of its parameters and of its result.
        documentation: its docstring.

    Raises:
        TypeError: the template reads a global.

    >>> def make_template(number: int) -> Callable[[], object]:
    ...     return lambda: number
    >>> seven = declare_function(make_template(7), "seven", {"return": int}, "Returns 7.")
    >>> seven(), seven.__name__, seven.__doc__
    (7, 'seven', 'Returns 7.')
    >>> declare_function(lambda: seven, "seven", {}, "Reads a global.")
    Traceback (most recent call last):
    TypeError: seven: the template reads globals: seven
    """
    assert isinstance(template, FunctionType)
    code = template.__code__
    if code.co_names:
        raise TypeError(f"{name}: the template reads globals: {', '.join(code.co_names)}")
    code = code.replace(co_name=name, co_qualname=name)
    function = FunctionType(code, find_loading_module(), name, template.__defaults__, template.__closure__)
    function.__kwdefaults__ = template.__kwdefaults__
    function.__annotations__ = dict(annotations)
    function.__doc__ = documentation
    return function


def find_loading_module() -> dict[str, object]:
    """Returns the globals of the module whose statements run."""
    frame: FrameType = sys._getframe()
    while frame.f_code.co_name != "<module>" and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_globals


def bind_x(perform: Callable[Concatenate[T, P], R]) -> Callable[[T], Callable[P, R]]:
    """Returns what makes of an operation the function of `x` that performs it."""
    act: Callable[..., R] = perform
    return cast("Callable[[T], Callable[P, R]]", lambda operation: lambda x: act(operation, x))


def bind_x_and_y(perform: Callable[Concatenate[T, P], R]) -> Callable[[T], Callable[P, R]]:
    """Returns what makes of an operation the function of `x` and `y` that performs it."""
    act: Callable[..., R] = perform
    return cast("Callable[[T], Callable[P, R]]", lambda operation: lambda x, y: act(operation, x, y))


def bind_one(perform: Callable[[T, Operand], R]) -> Callable[[T], Callable[[Operand], R]]:
    """Returns what makes of an operation the function of one operand without a name that performs it."""
    return lambda operation: lambda x, /: perform(operation, x)


def bind_two(perform: Callable[[T, Operand, Operand], R]) -> Callable[[T], Callable[[Operand, Operand], R]]:
    """Returns what makes of an operation the function of two operands without names that performs it."""
    return lambda operation: lambda x, y, /: perform(operation, x, y)


@final
@attrs.frozen
class Declaration(Generic[E, F]):
    """What functions have in common that perform one operation each; a call declares one of them.

    Attributes:
        bind: makes of an operation the function that performs it, which reads no globals.
        annotations: the types of its parameters and of its result.
        sections: what its documentation says of operands, result and errors, with `{kinds}` for the operands' kinds.
        show: returns how the value of an example is printed.
    """

    bind: Callable[[E], F]
    annotations: Mapping[str, object]
    sections: str = ""
    show: Callable[[str], str] = str

    def __call__(
        self, operation: E, summary: str, example: str, value: str, *, details: str = "", name: str = ""
    ) -> F:
        """Declares the function that performs an operation.

        Args:
            operation: the operation.
            summary: says what the function returns.
            example: a call.
            value: what it gives.
            details: another paragraph.
            name: the function's, where it is not the operation's.
        """
        kinds = "any" if operation.kinds == Elementwise.kinds else describe_kinds(operation.kinds)
        sections = self.sections.format(kinds=kinds)
        paragraphs = [summary, details, sections, f">>> {example}\n{self.show(value)}"]
        documentation = "\n\n".join([text for text in paragraphs if text])
        template = cast("Callable[..., object]", self.bind(operation))
        function = declare_function(template, name or operation.name, self.annotations, documentation)
        return cast("F", function)
