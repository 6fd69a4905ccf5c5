"""Find what a function's bytecode reads from outside: globals with their attributes, and attribute names.

A global counts with the attributes that are read directly from it, so that `np.sin` does not mean all of `np`.

Never: run anything, or look at values.
"""

import dis
import sys
from collections.abc import Iterable, Iterator
from types import CodeType
from typing import final

import attrs

__all__ = ["CodeReads", "code_reads", "word_set"]

Chain = tuple[str, ...]


@final
@attrs.frozen
class CodeReads:
    """The names that a code object, with nested code objects, reads.

    Attributes:
        globals: for each reading the global's name, then the attributes read directly from it.
        free: the same for variables of enclosing functions.
        names: attributes of any value, and all strings, any of which may name one; "*" for computed names.
        refusal: an action that no key can describe; "" for none.
    """

    globals: tuple[Chain, ...]
    free: tuple[Chain, ...]
    names: tuple[str, ...]
    refusal: str


def word_set(text: str) -> frozenset[str]:
    """Returns the words of a text."""
    return frozenset(text.split())


# Attributes through which code reads more than values.
_HIDDEN_NAMES = word_set(
    "f_globals f_locals f_builtins f_back gi_frame cr_frame ag_frame tb_frame tofile dump func_globals"
)
_ALLOWED_DUNDERS = word_set(
    """__name__ __qualname__ __init__ __new__ __call__ __class__ __len__ __getitem__ __setitem__ __iter__ __next__
    __contains__ __enter__ __exit__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __add__ __sub__ __mul__ __truediv__
    __matmul__ __pow__ __neg__ __abs__ __radd__ __rsub__ __rmul__ __post_init__ __attrs_init__ __setattr__ __wrapped__
    __array__ __jax_array__ __int__ __float__ __bool__ __index__ __str__ __repr__ __version__ __getattribute__ __getattr__"""
)
_HAS_SHIFTED_ARGUMENTS = sys.version_info >= (3, 12)
_HAS_KNOWN_ENCODING = sys.version_info < (3, 14)

_reads_by_code: dict[int, tuple[CodeType, CodeReads]] = {}


def code_reads(code: CodeType) -> CodeReads:
    """Returns the names that a function's code reads."""
    known = _reads_by_code.get(id(code))
    if known is not None and known[0] is code:
        return known[1]
    if len(_reads_by_code) >= 4096:
        _reads_by_code.clear()
    free: dict[Chain, None] = {}
    globals_: dict[Chain, None] = {}
    names: dict[str, None] = {}
    free_names = frozenset(code.co_freevars)
    refusal = ""
    pending = [code]
    while pending and not refusal:
        inner = pending.pop()
        refusal = _collect_reads(inner, free_names, globals_, free, names)
        pending += [c for c in inner.co_consts if type(c) is CodeType]
        _collect_strings(inner.co_consts, names)
    refusal = refusal or _hidden_name_reason(names)
    reads = CodeReads(tuple(globals_), tuple(free), tuple(names), refusal)
    _reads_by_code[id(code)] = code, reads
    return reads


def _collect_strings(constants: tuple[object, ...], names: dict[str, None]) -> None:
    for constant in constants:
        if type(constant) is str and constant.isidentifier():
            names[constant] = None
        elif type(constant) in (tuple, frozenset):
            _collect_strings(tuple(constant), names)  # type: ignore[arg-type]  # one of these two


def _collect_reads(
    code: CodeType,
    free_names: frozenset[str],
    globals_: dict[Chain, None],
    free: dict[Chain, None],
    names: dict[str, None],
) -> str:
    """Adds the names that one code object reads; returns an action that no key can describe, or ""."""
    if code.co_flags & 0x380:  # coroutines, and generators that are
        return "is a coroutine"
    chain: list[str] = []
    target = globals_
    for op, name in (*_iterate_instructions(code), ("", "")):
        if op in ("LOAD_ATTR", "LOAD_METHOD"):
            names[name] = None
            if chain:
                chain.append(name)
                continue
        elif chain:
            target[tuple(chain)] = None
            chain = []
        if op == "LOAD_GLOBAL":
            chain, target = [name], globals_
        elif op == "LOAD_DEREF":
            if name in free_names:
                chain, target = [name], free
        elif op in ("STORE_ATTR", "DELETE_ATTR", "LOAD_SUPER_ATTR"):
            names[name] = None
        elif op in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            return f"writes the global `{name}`"
        elif op in ("STORE_DEREF", "DELETE_DEREF"):
            if name in free_names:
                return f"writes the variable `{name}` of a function around it"
        elif op == "MATCH_CLASS":
            names["*"] = None
        elif op == "IMPORT_NAME":
            return f"imports `{name}` when it is called"
        elif op in ("LOAD_NAME", "STORE_NAME", "LOAD_BUILD_CLASS", "LOAD_LOCALS"):
            return "defines a class when it is called"
    if "__getattribute__" in code.co_names or "__getattr__" in code.co_names:
        names["*"] = None
    return _hidden_name_reason(code.co_names)


def _hidden_name_reason(names: Iterable[str]) -> str:
    """Returns the refusal for names through which code reads more than values, as attributes or strings; or ""."""
    for name in names:
        if name in _HIDDEN_NAMES or (
            name.startswith("__") and name.endswith("__") and name not in _ALLOWED_DUNDERS
        ):
            return f"asks for `{name}`"
    return ""


def _iterate_instructions(code: CodeType) -> Iterator[tuple[str, str]]:
    """Yields each instruction with the name that it refers to, if any."""
    if not _HAS_KNOWN_ENCODING:
        for instruction in dis.get_instructions(code):
            yield instruction.opname, instruction.argval if type(instruction.argval) is str else ""
        return
    # A tenth of the time that `dis` takes.
    raw, argument = code.co_code, 0
    for i in range(0, len(raw), 2):
        op = raw[i]
        argument = argument << 8 | raw[i + 1]
        if op == dis.EXTENDED_ARG:
            continue
        if op:  # otherwise an inline cache entry of the interpreter
            yield dis.opname[op], _instruction_name(code, op, argument)
        argument = 0


_NAMED, _FREE = frozenset(dis.hasname), frozenset(dis.hasfree)
_GLOBAL, _ATTRIBUTE = dis.opmap["LOAD_GLOBAL"], dis.opmap["LOAD_ATTR"]
_SUPER = dis.opmap.get("LOAD_SUPER_ATTR", -1)


def _instruction_name(code: CodeType, op: int, argument: int) -> str:
    if op in _NAMED:
        if op == _GLOBAL or (op == _ATTRIBUTE and _HAS_SHIFTED_ARGUMENTS):
            argument >>= 1
        elif op == _SUPER:
            argument >>= 2
        return code.co_names[argument]
    if op in _FREE:
        name: str = code._varname_from_oparg(argument)  # type: ignore[attr-defined]  # as `dis` does
        return name
    return ""
