"""The exception hierarchy, and the user's source location in errors.

Every error that effx raises on purpose derives from `EffxError` and prints in one form::

    ShapeError: dot_general: contracting sizes differ: lhs f32[3,4] axis 1 is 4, rhs f32[5,6] axis 0 is 5
      at   train.py:12 in loss
      in   jit > vmap(axis_size=8) > jvp

Never: import another effx module.
"""

import os
import sys
import warnings
from bisect import bisect_right
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from inspect import isgeneratorfunction
from types import CodeType, FrameType, TracebackType

__all__ = [
    "AxisNameError",
    "BackendError",
    "CheckpointError",
    "ClosedOverError",
    "CompatError",
    "ConcretizationError",
    "ConcretizationTypeError",
    "ConversionError",
    "DTypeError",
    "DeviceCountError",
    "DistributedError",
    "DonatedArrayError",
    "EffxError",
    "EscapedBoxError",
    "FormatFieldError",
    "InconclusiveDimensionOperation",
    "IndexingError",
    "JAXIndexError",
    "JAXTypeError",
    "JaxRuntimeError",
    "JaxprTypeError",
    "KeyReuseError",
    "NoRuleError",
    "NoTracingError",
    "NonConcreteBooleanIndexError",
    "NotFiniteError",
    "PayloadError",
    "ProcessMismatchError",
    "ProgramError",
    "RefError",
    "RefGivenError",
    "ShapeError",
    "TracerArrayConversionError",
    "TracerAttributeError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "TracingError",
    "TransformError",
    "TreeError",
    "TypePromotionError",
    "UndefinedRuleError",
    "UnexpectedTracerError",
    "hide_internal_frames",
    "name_user_call",
    "source_of",
    "user_frame",
    "warn_user",
    "without_internal_frames",
]

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_GENERATED = "<attrs generated methods effx."  # by attrs, for classes of the package
_FROZEN = "<frozen "  # the parts of Python that run between a user's `import`, or `python -m`, and effx
# Prefixes of the names of files whose frames are hidden; one tuple, for `str.startswith`.
_hidden_prefixes: list[tuple[str, ...]] = [(_PACKAGE, _GENERATED, _FROZEN)]
# By id, because hashing a code object hashes all of its constants and names; the values keep
# the ids taken.
_internal_code: dict[int, CodeType] = {}


def is_internal(code: CodeType) -> bool:
    if id(code) in _internal_code:
        return True
    if code.co_filename.startswith(_hidden_prefixes[0]):
        _internal_code[id(code)] = code
        return True
    return False


def hide_frames_of(path: str) -> None:
    """Hides the frames of a file, or of all files in a folder, like effx's own."""
    _hidden_prefixes[0] = (*_hidden_prefixes[0], path)


def show_frames_of(path: str) -> None:
    """Shows again the frames that `hide_frames_of` hides for a path."""
    _hidden_prefixes[0] = tuple([prefix for prefix in _hidden_prefixes[0] if prefix != path])
    for key, code in list(_internal_code.items()):
        if code.co_filename.startswith(path):
            _internal_code.pop(key, None)


def user_frame(depth: int = 1) -> FrameType | None:
    """Returns the innermost Python frame that is not effx's own code.

    Args:
        depth: how many frames of the caller to skip before looking.
    """
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and is_internal(frame.f_code):
        frame = frame.f_back
    return frame


# Classes whose methods have names as functions have; others' have the name of their class before theirs.
_ARRAY_CLASSES = ("Array.", "ArrayAttributes.", "IndexUpdate.")
# Modules of which users call nothing by name.
_INNER_MODULES = ("effx.handlers.", "effx.tracing.", "effx.families.", "effx.lower.")
# Modules whose frames may stand between a user's function and the transformation that calls it.
_CALLBACK_MODULES = ("effx.transforms.", "effx.tracing.", "effx.handlers.")
# Functions that may stand there too: they only call another one.
_CALLERS = ("__call__", "call_in_transformation")
# Modules of the rules of operations, if a frame of theirs stands inside of the public function.
_RULE_MODULES = ("effx.handlers.", "effx.families.")
_OPERATORS = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "divmod",
    "pow",
    "matmul",
    "and",
    "or",
    "xor",
)
_REFLECTED_OPERATORS = frozenset([f"r{name}" for name in _OPERATORS])


def name_user_call() -> str:
    """Returns the name of the function or method of effx that the user's code called: the start of an error's text.

    It is that of the outermost public function between the caller and the user's code. A transformation or a loop that
    calls a function of effx stands for the user's code, as in `vmap(enp.dot)`. Where nothing public is on the stack, it
    is what the user's code called all the same, such as the operator of `x - y`, or `operand`.

    It walks the stack, some microseconds, so call it where an error is made.
    """
    name = outermost = ""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_internal(frame.f_code):
        outermost, module = frame.f_code.co_qualname, str(frame.f_globals.get("__name__", ""))
        is_inner, is_closure = module.startswith(_INNER_MODULES), ".<locals>" in outermost
        public_name = "" if is_inner else _public_name(frame)
        # `jacrev` and `hessian` call each other; but frames within a transformation, and `tree.map`, call for the user.
        calls_for_user = is_inner or (
            module.startswith("effx.transforms.") and (is_closure or not public_name)
        )
        if name and (calls_for_user or module.startswith("effx.tree.")):
            break
        # What a public function defines within has its name, unless it calls another public function.
        if public_name and not public_name.startswith("__") and not (name and is_closure):
            name = public_name
        frame = frame.f_back
    return name or _name_of_private(outermost) or "operand"


def _name_of_private(qualified: str) -> str:
    """Returns the name of a function, class or operator that is not public; an empty text if it says nothing to users."""
    owner, _, name = qualified.rpartition(".")
    if name == "__init__":
        name = owner.rpartition(".")[2]
    elif name.startswith("__") and name != "__call__":
        name = name.strip("_")
    if name.startswith(("_", "<")):
        return ""
    return name[1:] if name in _REFLECTED_OPERATORS else name


def _public_name(frame: FrameType) -> str:
    """Returns the name by which users know the function of a frame, or the one that it is defined in.

    The empty text if that is not public, which the `__all__` of its module says; `__add__` for operators of arrays.
    """
    qualified, public = frame.f_code.co_qualname.partition(".<locals>")[0], frame.f_globals.get("__all__", ())
    owner, _, name = qualified.rpartition(".")
    is_special = name.startswith("__") and name.endswith("__")
    if name.startswith("_") and not is_special:
        return ""
    if not owner:
        return name if name in public else ""
    if qualified.startswith(_ARRAY_CLASSES):
        return name
    if (
        owner not in public or owner == "Operation"
    ):  # users' rules call operations, which have no functions' names
        return ""
    if owner == "ufunc":
        owner = str(frame.f_locals["self"].__name__)
    return owner if name in ("__init__", "__call__") else name if is_special else f"{owner}.{name}"


def user_passed_operands() -> bool:
    """Returns whether the operands that are being promoted come from the user's code, not from effx's own.

    The settings `numpy_rank_promotion` and `numpy_dtype_promotion` are about what users write. The innermost public
    function or method promotes its operands. The user has passed them if the user's code called it, maybe
    through a transformation; effx has if another of its functions did (`average` multiplies by weights), or the rule of
    an operation. It is the user's too where no public function is found.

    It walks the stack, so call it only where a promotion is about to be refused.
    """
    if active_source.get() is not None:  # a handler performs an operation by several of its own
        return False
    promoter = ""  # the name of the innermost public function
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_internal(frame.f_code):
        module, name = str(frame.f_globals.get("__name__", "")), frame.f_code.co_name
        if not promoter:
            if module.startswith(_RULE_MODULES):
                return False
            promoter = name if _public_name(frame) else ""
        # The call of a ufunc leads to its function, which promotes; a method may call the function of its name.
        elif name not in (promoter, *_CALLERS) and not module.startswith(_CALLBACK_MODULES):
            return False
        frame = frame.f_back
    return True


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """Warns at the user's line, once for each line unless Python's filters say otherwise."""
    frame = user_frame(2)
    if frame is None:
        warnings.warn(text, category, stacklevel=2)
        return
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, category, frame.f_code.co_filename, frame.f_lineno, registry=registry)


# A line of source is kept as (code, offset) and resolved only when printed: two attribute
# reads while staging, against about 3 us for a file name and line.
Source = tuple[CodeType, int] | None


# What handlers perform for one operation of the user's has that operation's position; a
# handler that performs several sets it, so that the stack is searched once.
active_source: ContextVar[Source] = ContextVar("effx_source", default=None)


# The positions that were found last, by code object (by id, which the positions keep taken) and offset: what is
# performed again at a place has the same one, so that a long program of few lines keeps few of them.
_positions: dict[int, dict[int, tuple[CodeType, int]]] = {}


def current_source(depth: int = 2) -> Source:
    """Returns the user's source location as (code object, instruction offset).

    Args:
        depth: how many frames of effx's own are known to be innermost: looking at one costs 100 ns.
    """
    # Python's frames are walked once for each operation of the user's. A program that is run again sets the
    # position and the name stack of each equation, and the backward pass those of the forward pass.
    active = active_source.get()
    if active is not None:
        return active
    frame: FrameType | None = sys._getframe(depth)
    internal = _internal_code
    while frame is not None:
        code = frame.f_code
        if id(code) not in internal:
            positions = _positions.get(id(code))
            if positions is None or len(positions) >= 256:
                positions = None if is_internal(code) else _new_positions(code)
            if positions is not None:
                offset = frame.f_lasti
                return positions.get(offset) or positions.setdefault(offset, (code, offset))
        frame = frame.f_back
    return None


def _new_positions(code: CodeType) -> dict[int, tuple[CodeType, int]]:
    if len(_positions) >= 1024:
        _positions.clear()
    positions = _positions[id(code)] = {-1: (code, -1)}
    return positions


def source_of(source: Source) -> str:
    """Returns `file.py:12 in function` for a recorded position, `?` for none."""
    if source is None:
        return "?"
    file, line, function = resolve_source(source)
    return f"{short_file_name(file)}:{line} in {function}"


def short_file_name(path: str) -> str:
    """Returns the last part of a file's path, or a notebook's cell as IPython numbers it, such as `In[4]`.

    >>> short_file_name("/home/me/train.py")
    'train.py'
    """
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    # Pairs of kind and name, such as ("Cell", "In[4]"), for what was typed into a cell, and None for other files.
    name_cell = getattr(getattr(shell, "compile", None), "format_code_name", None)
    cell = None if name_cell is None else name_cell(path)
    return os.path.basename(path) if cell is None else str(cell[1])


def set_error_position(error: "EffxError", source: Source) -> None:
    """Sets an error's source location, unless an inner one is set already."""
    if source is not None and not error.has_position:
        error.at, error.has_position = source_of(source), True


def resolve_source(source: tuple[CodeType, int]) -> tuple[str, int, str]:
    """Returns file, line and function name of a recorded position."""
    code, offset = source
    starts, lines = _line_table(code)
    return code.co_filename, lines[bisect_right(starts, offset) - 1], code.co_name


def make_source(file: str, line: int, function: str) -> tuple[CodeType, int]:
    """Makes a source location whose file need not exist, for example of another process's program."""
    source = _made_sources.get((file, line, function))
    if source is None:
        if len(_made_sources) >= 4096:
            _made_sources.clear()
        code = _placeholder_code.__code__.replace(co_filename=file, co_name=function, co_firstlineno=line)
        source = _made_sources[file, line, function] = code, -1
    return source


_made_sources: dict[tuple[str, int, str], tuple[CodeType, int]] = {}


def _placeholder_code() -> None: ...


_LineTable = tuple[list[int], list[int]]
# By id for the reason above. Decoding a table is linear in the function's length, and a function has as many
# positions as lines: without the table, a program's text would cost their product.
_line_tables: dict[int, tuple[CodeType, _LineTable]] = {}


def _line_table(code: CodeType) -> _LineTable:
    """Returns the offsets at which a function's instructions change lines, and the lines."""
    entry = _line_tables.get(id(code))
    if entry is None:
        starts, lines = [-1], [code.co_firstlineno]
        for start, _, number in code.co_lines():
            starts.append(start)
            lines.append(code.co_firstlineno if number is None else number)
        if len(_line_tables) >= 1024:
            _line_tables.clear()
        entry = _line_tables[id(code)] = code, (starts, lines)
    return entry[1]


def _position(frame: FrameType | None, line: int | None = None) -> str | None:
    if frame is None:
        return None
    return f"{short_file_name(frame.f_code.co_filename)}:{line or frame.f_lineno} in {frame.f_code.co_name}"


class EffxError(Exception):
    """Base class of all errors that effx raises on purpose.

    Attributes:
        message: the text without position.
        at: the user's line, such as `train.py:12 in loss`: that of the call, or of the operation where that is known.
        has_position: whether it is the operation's.
        handlers: the handler stack, such as `jit > jvp`; filled in while the error travels outward.

    >>> str(EffxError("sin: got a string")).splitlines()[0]
    'sin: got a string'
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.at: str | None = _position(user_frame(2))
        self.has_position = False
        self.handlers: str = ""

    def __str__(self) -> str:
        lines = [self.message]
        if self.at is not None:
            lines.append(f"  at   {self.at}")
        if self.handlers:
            lines.append(f"  in   {self.handlers}")
        return "\n".join(lines)

    # IPython calls this by its name to show an error. What calls no compiled function has effx's frames until then.
    def _render_traceback_(self) -> list[str]:
        shell = sys.modules["IPython"].get_ipython()
        entries = self.__traceback__
        if hide_frames_setting[0]():
            entries = without_internal_frames(entries)
        # The first entry is IPython's own, that runs the cell.
        lines: list[str] = shell.InteractiveTB.structured_traceback(type(self), self, entries, tb_offset=1)
        return lines


class ShapeError(EffxError, ValueError):
    """Shapes, axes or sizes do not match.

    As in NumPy that is a ValueError. It is no TypeError: where a method raises one, NumPy's functions take the array
    for one of NumPy's and compute on its copy. In JAX it is, so under `effx.compat` it is one too.
    """


class ConversionError(ShapeError, TypeError):
    """Something does not convert: an array whose rank or dtype allows no length, int or float, or an argument to an int."""


class DTypeError(EffxError, TypeError):
    """A dtype is unsupported, or dtypes do not match. Under `effx.compat` it is a ValueError too."""


class OptionError(DTypeError, ValueError):
    """An option has an invalid value.

    As in NumPy and JAX that is a ValueError. A DTypeError it is too, because it was one only.
    """


class TypePromotionError(DTypeError, ValueError):
    """Dtypes have no common dtype to promote to."""


class ArrayApiError(EffxError, ValueError):
    """The array API standard has no such revision or kind of dtype."""


class IndexingError(EffxError, IndexError):
    """An index has an invalid form, or does not match the array."""


class TreeError(EffxError, ValueError, TypeError):
    """Two pytrees that must have the same structure do not.

    In JAX that is a TypeError of branches, loops and tangents, and a ValueError of axes, cotangents and trees.
    """


class TransformError(EffxError, TypeError):
    """A transformation got invalid arguments. Under `effx.compat` it is a ValueError too, as some of JAX's are."""


class PayloadError(TransformError):
    """A handler's rule, or its `lift`, gives what is no payload of the value: of another class, shape or dtype."""


class NoTracingError(TransformError, RuntimeError):
    """A function would be staged while the setting no_tracing is on."""


class FormatFieldError(TransformError, KeyError, IndexError):
    """A format string names an argument that is not there: a KeyError and an IndexError, as `str.format` raises them."""


class UndefinedRuleError(TransformError, AttributeError):
    """A function with rules of its own was called before its rule was defined."""


class TracingError(EffxError):
    """A traced value was used like a concrete one, or outside of its transformation.

    Of these only `ConcretizationError` and `KeyReuseError` are TypeErrors: functions that take ints catch that and say
    so in their own words, which would hide that a value had escaped.
    """


class ConcretizationError(TracingError, TypeError):
    """Python needed the concrete value of an abstract value."""


class TracerBoolConversionError(ConcretizationError):
    """Python needed the truth value of an abstract value."""


class TracerIntegerConversionError(ConcretizationError):
    """Python needed an int from an abstract value, for example for a size or an index."""


class TracerArrayConversionError(ConcretizationError):
    """NumPy needed the elements of an abstract value."""


class TracerAttributeError(ConcretizationError, AttributeError):
    """Python read a device attribute of an abstract value; an AttributeError, so that `hasattr` is False."""


class NonConcreteBooleanIndexError(ConcretizationError, IndexingError):
    """A result's shape would depend on an abstract mask."""


class InconclusiveDimensionOperation(TracingError, ValueError):  # noqa: N818  # JAX's name
    """A comparison or conversion of a symbolic size depends on the values of its variables."""


class KeyReuseError(TracingError, TypeError):
    """A random key was used twice while the flag debug_key_reuse was on."""


class EscapedBoxError(TracingError, RuntimeError):
    """A value that belongs to a handler was used outside of that handler.

    Attributes:
        frame: the handler's frame.
    """

    frame: object = None


class ClosedOverError(TransformError, EscapedBoxError):
    """A function with rules of its own depends on a value that is transformed and of which its rules know nothing."""


class RefError(TransformError, ValueError):
    """A mutable reference is used wrongly: returned, passed twice, after it was freed, or outside of its function."""


class RefGivenError(RefError):
    """A mutable reference was passed where an array is expected."""


class NoRuleError(EffxError, TypeError):
    """A handler has no rule for an operation, and the operation does not decompose.

    Under `effx.compat` it is a ValueError and a NotImplementedError too: JAX raises now one, now the other.
    """


class AxisNameError(EffxError, NameError):
    """A collective names an axis that no surrounding handler binds."""


class DonatedArrayError(EffxError, RuntimeError):
    """An array was used after it had been donated to a computation or deleted."""


class NotFiniteError(EffxError, FloatingPointError):
    """An operation returned NaN, or an infinity, while the flag debug_nans or debug_infs was on."""


class ProgramError(EffxError, ValueError):
    """A program in the IR is malformed, or its text does not parse."""


# XLA's status codes, by their numbers.
_STATUS = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip


class BackendError(EffxError, RuntimeError):
    """A platform, plugin or device is missing or does not work. Under `effx.compat` it is a ValueError too.

    >>> BackendError("devices: there is no platform 'x'").error_code_string
    'UNKNOWN'
    """

    @property
    def error_message(self) -> str:
        """XLA's message; the error's own text if it is not from XLA."""
        return self.message if self.__cause__ is None else str(self.__cause__)

    @property
    def error_code_string(self) -> str:
        """The name of XLA's status, such as `INVALID_ARGUMENT`; `UNKNOWN` if there is none."""
        name = self.error_message.partition(":")[0]
        return name if name in _STATUS else "UNKNOWN"

    @property
    def error_code(self) -> int:
        """The number of XLA's status."""
        return _STATUS.index(self.error_code_string)


# What the error of a callback becomes before it comes out of a program, from the name of effx's function and the error.
callback_errors: list[Callable[[str, BaseException], BaseException]] = []

# Names of `jax.errors` for what effx calls otherwise.
ConcretizationTypeError = ConcretizationError
UnexpectedTracerError = EscapedBoxError
JaxRuntimeError = BackendError
JAXTypeError = TracingError
JAXIndexError = IndexingError
JaxprTypeError = ProgramError


class ExchangeError(BackendError, BufferError):
    """An array cannot be shared with another library in the requested way."""


class DeviceCountError(BackendError, ValueError):
    """A parallel map has more replicas than there are devices."""


class DistributedError(BackendError):
    """Processes did not form a group, or a process of the group has ended."""


class ProcessMismatchError(DistributedError, AssertionError):
    """The processes of a group disagree: on the function that they call, or on values that must be equal."""


class ShardingError(EffxError, ValueError):
    """A sharding does not match its mesh, or an array cannot have a sharding."""


class CheckpointError(EffxError, ValueError):
    """A checkpoint is missing, incomplete or damaged, or cannot be written."""


class CompatError(EffxError, ImportError):
    """`import jax` cannot import effx in this process."""


def check_function(fun: object, *, what: str = "") -> None:
    """Checks the function that a transformation gets.

    Raises:
        TransformError: it is not callable, or a generator function.
    """
    if not callable(fun):
        raise TransformError(
            f"{what or name_user_call()}: expected a function, got {fun!r} of type {type(fun).__name__}"
        )
    if isgeneratorfunction(fun):
        name = getattr(fun, "__name__", None) or getattr(getattr(fun, "func", None), "__name__", repr(fun))
        raise TransformError(
            f"{what or name_user_call()}: expected a function, got the generator function {name}, which runs after "
            f"it has returned; return a list instead"
        )


def explain_rule_error(error: Exception, rule: object, what: str, source: Source = None) -> None:
    """Says in a note of an error which rule of the user's made it, and for which of the user's lines.

    The error keeps its class, so that a rule may raise what its author likes. Rules of effx's own are not named.

    Args:
        error: raised by the call of the rule.
        rule: the rule.
        what: names handler and operation, such as `interval: the rule for mul`.
        source: the user's line that performs the operation; by default the current one.

    Raises:
        TransformError: the rule does not take the arguments that it was called with.
    """
    function = _called_function(rule)
    code = getattr(function, "__code__", None)
    if isinstance(code, CodeType) and is_internal(code):
        return
    place, is_entered = f"at {describe_rule(rule)}", False
    entry = error.__traceback__
    while entry is not None:
        if entry.tb_frame.f_code is code:
            place, is_entered = f"at {_position(entry.tb_frame, entry.tb_lineno)}", True
        entry = entry.tb_next
    # Python names the function that does not take its arguments; other errors may come from what a handler does around.
    if type(error) is TypeError and not is_entered:
        names = {f"{getattr(function, '__qualname__', '')}()", f"{getattr(code, 'co_qualname', '')}()"}
        if str(error).split(" ", 1)[0] in names:
            raise TransformError(f"{what} {place} does not take its arguments: {error}") from error
    if is_entered or code is None:
        note = f"{what} raises this {place}, for {source_of(source or current_source(2))}"
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)


def _called_function(rule: object) -> object:
    """Returns the function that a call of a rule runs: of a `partial`, a method or an object that can be called.

    For a function of effx's own around the user's it is the user's, which effx sets as `__wrapped__`.
    """
    for _ in range(100):
        code = getattr(rule, "__code__", None)
        inner = getattr(rule, "__wrapped__", None) if code is None or is_internal(code) else None
        if inner is None:
            inner = rule.func if isinstance(rule, partial) else getattr(rule, "__func__", None)
        if inner is None and code is None:
            # The method of a class that is written in Python; C's have no code.
            inner = next(
                (k.__dict__["__call__"] for k in type(rule).__mro__ if "__call__" in k.__dict__), None
            )
            inner = inner if hasattr(inner, "__code__") else None
        if inner is None:
            return rule
        rule = inner
    return rule


def describe_rule(rule: object) -> str:
    """Returns where a rule is defined, such as `bounds.py:12 in _`; its repr if it has no line."""
    code = getattr(_called_function(rule), "__code__", None)
    if not isinstance(code, CodeType):
        return repr(rule)
    return f"{short_file_name(code.co_filename)}:{code.co_firstlineno} in {code.co_name}"


def hide_internal_frames(error: BaseException) -> None:
    """Shortens an error's traceback in place, unless the flag `traceback_filtering` is off."""
    if hide_frames_setting[0]():
        error.__traceback__ = without_internal_frames(error.__traceback__)


hide_frames_setting: list[Callable[[], object]] = [lambda: True]  # effx.flags puts the flag there


def without_internal_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Returns the traceback without effx's own frames, so that it ends at the user's line."""
    user_entries: list[TracebackType] = []
    entry = traceback
    while entry is not None:
        if not is_internal(entry.tb_frame.f_code):
            user_entries.append(entry)
        entry = entry.tb_next
    result: TracebackType | None = None
    for entry in reversed(user_entries):
        # An interrupt may come between the instructions of lines: then there is no number.
        line = entry.tb_lineno or entry.tb_frame.f_code.co_firstlineno
        result = TracebackType(result, entry.tb_frame, entry.tb_lasti, line)
    return result


def __dir__() -> list[str]:
    return sorted(__all__)
