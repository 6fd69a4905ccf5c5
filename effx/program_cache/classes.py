"""List the contents of classes and instances for `walk`: members, fields, and an object's state."""

import abc
import dataclasses
import types
from collections.abc import Callable
from enum import Enum, EnumType
from types import FunctionType, MemberDescriptorType
from typing import Any, Generic, Protocol, cast

import attrs

from effx.effects import Handler, Operation
from effx.program_cache.bytecode import word_set
from effx.program_cache.trusted_modules import is_library, is_trusted
from effx.tree.registry import node_form

__all__ = [
    "ENUM_MEMBER_ATTRIBUTES",
    "PLAIN_TYPES",
    "TYPING_FORMS",
    "builtin_content",
    "class_layout",
    "class_members",
    "instance_state",
    "is_protocol_member",
    "refusal_reason",
]

PLAIN_TYPES = frozenset(
    {
        type(None),
        type(...),
        type(NotImplemented),
        types.FunctionType,
        types.MethodType,
        types.CodeType,
        memoryview,
    }
)
# Classes of annotations and the like.
TYPING_FORMS = word_set(
    "_GenericAlias GenericAlias _UnionGenericAlias UnionType TypeVar ParamSpec TypeVarTuple _SpecialForm NewType "
    "_LiteralGenericAlias _CallableGenericAlias _SpecialGenericAlias _CallableType _TupleType ForwardRef"
)
# Members without influence on instances, or listed elsewhere too.
_SKIPPED_MEMBERS = word_set(
    """__dict__ __weakref__ __doc__ __module__ __qualname__ __annotations__ __annotate__ __annotate_func__
    __annotations_cache__ __slots__ __static_attributes__ __firstlineno__ __abstractmethods__ _abc_impl __parameters__
    __orig_bases__ __type_params__ __attrs_attrs__ __attrs_props__ __attrs_own_setattr__ __attrs_base_of_slotted__
    __dataclass_fields__ __dataclass_params__ __protocol_attrs__
    __non_callable_proto_members__ _is_protocol _is_runtime_protocol __classcell__ __static_attributes__"""
)
# Read by effx and NumPy themselves.
_REQUESTED_MEMBERS = word_set(
    """tree_flatten tree_unflatten tree_flatten_with_keys shape dtype weak_type ndim size close keys items values
    _value_ _name_ _missing_"""
)
ENUM_MEMBER_ATTRIBUTES = frozenset(("_value_", "_name_", "__objclass__", "_sort_order_"))
_GENERATED_METHODS = word_set(
    """__init__ __attrs_init__ __repr__ __str__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__ __setattr__ __delattr__
    __getstate__ __setstate__ __replace__ __getnewargs__ __new__ _make _replace _asdict"""
)
_ENUM_PREFIXES = (
    "_member_",
    "_value2",
    "_unhashable",
    "_hashable",
    "_use_args_",
    "_new_member_",
    "_generate_next",
    "_sort_order_",
)
_NAMEDTUPLE_MEMBERS = (
    "_make",
    "_replace",
    "_asdict",
    "__new__",
    "__repr__",
    "__replace__",
    "_fields",
    "_field_defaults",
)
_ALLOWED_BASES: tuple[type, ...] = (
    object, tuple, list, dict, set, frozenset, str, bytes, int, float, complex, abc.ABC, Enum, BaseException, type,
)  # fmt: skip
_METACLASSES = (type, abc.ABCMeta, EnumType, type(Protocol))


def is_protocol_member(name: str) -> bool:
    """Returns whether code other than the program's own reads a member of this name."""
    return name.startswith("__") or name in _REQUESTED_MEMBERS


def _is_generated(cls: "type[object]", name: str, x: object) -> bool:
    """Returns whether a method is generated from the fields, as by attrs, dataclasses and named tuples."""
    if name not in _GENERATED_METHODS:
        return False
    inner = getattr(x, "__wrapped__", x)
    if not isinstance(x, FunctionType) or not isinstance(inner, FunctionType):
        return False
    code = inner.__code__
    if code.co_filename.startswith("<attrs generated") or is_library(inner):
        return True
    known = hasattr(cls, "__dataclass_fields__") or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
    return known and (code.co_filename == "<string>" or is_trusted(inner.__globals__.get("__name__")))


def class_members(cls: "type[object]") -> list[str]:
    """Returns the names of the members that a user's class itself defines."""
    is_namedtuple = issubclass(cls, tuple) and hasattr(cls, "_fields")
    names = []
    for name, x in vars(cls).items():
        if name in _SKIPPED_MEMBERS or isinstance(x, MemberDescriptorType) or _is_generated(cls, name, x):
            continue
        if issubclass(cls, Enum) and (
            name.startswith(_ENUM_PREFIXES) or name in cls.__members__ or name == "__new__"
        ):
            continue
        if is_namedtuple and (name in _NAMEDTUPLE_MEMBERS or type(x).__name__ == "_tuplegetter"):
            continue
        if x is None and name in ("__hash__", "__eq__"):
            continue
        if getattr(x, "__objclass__", None) is object:
            continue
        names.append(name)
    return names


def class_layout(cls: "type[object]") -> list[object]:
    """Returns the definition of a class's fields, and its flattening as a pytree."""
    layout: list[object] = [*node_form(cls)]
    for name, x in vars(cls).items():
        if _is_generated(cls, name, x):
            # A generated hash contains a number that differs between processes.
            layout += [name, None if name == "__hash__" else getattr(x, "__wrapped__", x).__code__]
    fields: Any = vars(cls).get("__attrs_attrs__")
    if fields is not None:
        for f in fields:
            default = f.default
            if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # a class, to type checkers a function
                default = ("factory", default.factory, default.takes_self)
            elif default is attrs.NOTHING:
                default = ("none",)
            layout += [
                f.name,
                default,
                dict(f.metadata),
                f.init,
                f.kw_only,
                f.eq,
                f.eq_key,
                f.order,
                f.order_key,
            ]
            layout += [
                _attrs_parts(f.converter),
                _attrs_parts(f.validator),
                _attrs_parts(f.on_setattr),
                f.hash,
                f.repr,
            ]
            layout += [f.alias, repr(f.type)]
    if "__dataclass_fields__" in vars(cls):
        missing = dataclasses.MISSING
        for d in dataclasses.fields(cast("Any", cls)):
            layout += [
                d.name,
                ("none",) if d.default is missing else d.default,
                dict(d.metadata),
                d.init,
                d.kw_only,
            ]
            layout += [("none",) if d.default_factory is missing else d.default_factory, d.compare, d.hash]
            layout.append(repr(d.type))
        layout.append(repr(vars(cls)["__dataclass_params__"]))
    if issubclass(cls, tuple) and "_fields" in vars(cls):
        layout += [vars(cls)["_fields"], vars(cls).get("_field_defaults")]
    return layout


def _attrs_parts(x: object) -> object:
    """Returns the contents of attrs' own objects around users' functions."""
    if x is None or isinstance(x, FunctionType | type):
        return x
    if is_trusted(type(x).__module__):
        names = [s for c in type(x).__mro__ for s in vars(c).get("__slots__", ()) if s != "__weakref__"]
        return (type(x).__qualname__, *[_attrs_parts(getattr(x, name, None)) for name in names])
    return x


def refusal_reason(cls: "type[object]") -> str:
    """Returns why a class that is not trusted cannot be part of a key; "" if it can."""
    if type(cls) not in _METACLASSES:
        return f"made by {type(cls).__name__}"
    if issubclass(cls, Operation | Handler):
        return "whose rules are kept elsewhere"
    if not cls.__flags__ & (1 << 9) or _is_foreign(cls):
        return "which is not written in Python"
    if type(cls) is abc.ABCMeta and _abc_registered(cls):
        return "with classes registered as kinds of it"
    for base in cls.__bases__:
        trusted = is_trusted(base.__module__) or base.__module__ == "builtins"
        if trusted and base not in _ALLOWED_BASES and not _is_stateless_base(base):
            return f"a kind of {base.__module__}.{base.__qualname__}"
    return ""


# (registry, cache, …), the first of weak references.
_dump: Callable[[type], tuple[set[object], ...]] = getattr(abc, "_get_dump", lambda cls: (set(),))


def _abc_registered(cls: "type[object]") -> set[object]:
    return _dump(cls)[0]


_C_DESCRIPTOR_TYPES = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
)  # fmt: skip


def _is_foreign(cls: "type[object]") -> bool:
    """Returns whether a class has parts in C with hidden state: methods, or more memory than its slots take."""
    slots = 0
    for name, x in vars(cls).items():
        owner = getattr(x, "__objclass__", getattr(x, "__self__", None))
        if isinstance(x, _C_DESCRIPTOR_TYPES) and owner is cls and name not in ("__dict__", "__weakref__"):
            return True
        slots += isinstance(x, MemberDescriptorType)
    return cls.__basicsize__ > max([b.__basicsize__ for b in cls.__bases__]) + 8 * (slots + 2)


def _is_stateless_base(base: "type[object]") -> bool:
    """Returns whether a base adds no state of its own."""
    if issubclass(base, BaseException | Enum):
        return True
    return base in (Generic, Protocol) or base.__module__.startswith(
        ("typing", "collections.abc", "abc", "enum")
    )


def instance_state(x: object) -> dict[str, object] | None:
    """Returns an object's attributes by name; None if they are not its whole state, or cannot be read."""
    cls = type(x)
    if is_trusted(cls.__module__):
        get_state: Callable[[], dict[str, object]] | None = getattr(x, "__reaches__", None)
        if get_state is not None:
            return get_state()
        fields: Any = getattr(cls, "__attrs_attrs__", None)
        if fields is not None and cls.__module__.partition(".")[0] == "effx" and _is_frozen(cls):
            return {f.name: getattr(x, f.name) for f in fields}
        if isinstance(x, tuple) and hasattr(cls, "_fields"):
            return {}
        return None
    if cls.__module__ == "builtins" or refusal_reason(cls):
        return None
    attributes: dict[str, object] = dict(getattr(x, "__dict__", {}))
    for base in cls.__mro__:
        for name, slot in vars(base).items():
            if isinstance(slot, MemberDescriptorType) and name not in attributes:
                try:
                    attributes[name] = slot.__get__(x, cls)
                except AttributeError:
                    continue
    attributes.pop("__weakref__", None)
    return attributes


def _is_frozen(cls: "type[object]") -> bool:
    return getattr(cls.__setattr__, "__name__", "") in ("_frozen_setattrs", "_frozen_delattrs") or (
        getattr(cls.__setattr__, "__module__", "") == "attr._make"
    )


def builtin_content(x: object) -> object:
    """Returns the builtin value of an instance of a builtin class's subclass."""
    untyped: Any = x
    if isinstance(x, dict):
        return list(dict.items(untyped))
    if isinstance(x, tuple | list):
        return list(tuple.__iter__(untyped) if isinstance(x, tuple) else list.__iter__(untyped))
    for base in (set, frozenset, str, bytes, int, float, complex):
        if isinstance(x, base):
            return base(untyped)
    return x.args if isinstance(x, BaseException) else None
