"""The registries of node types, on jaxlib's C++, and `flatten`, which registers records by itself.

Never: use jaxlib's default registry, which belongs to jax, or inspect a leaf.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from inspect import getattr_static
from operator import attrgetter
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    TypeAlias,
    TypeVar,
    cast,
    final,
    get_args,
)

from jaxlib._jax import pytree as _cpp

from effx.errors import TreeError

PyTree: TypeAlias = Any
"""A leaf or a nested structure of leaves: the one place where effx's trees are untyped."""

if TYPE_CHECKING:

    @final
    class PyTreeDef:
        """The structure of a tree. Written out: jaxlib has no types where effx is installed, and it would be Any."""

        def __getstate__(self) -> tuple[PyTree, list[PyTree]]: ...
        def __setstate__(self, state: tuple[PyTree, list[PyTree]], /) -> None: ...
        @property
        def num_leaves(self) -> int: ...
        @property
        def num_nodes(self) -> int: ...
        def unflatten(self, leaves: Iterable[object], /) -> PyTree: ...
        def flatten_up_to(self, tree: object) -> list[PyTree]: ...
        def compose(self, inner: PyTreeDef, /) -> PyTreeDef: ...
        def walk(
            self,
            f_node: Callable[[PyTree, PyTree], PyTree],
            f_leaf: Callable[[PyTree], PyTree] | None,
            leaves: Iterable[object],
            /,
        ) -> PyTree: ...
        def from_iterable_tree(self, tree: object, /) -> PyTree: ...
        def children(self) -> list[PyTreeDef]: ...
        def node_data(self) -> tuple[type[PyTree], PyTree] | None: ...
        @staticmethod
        def from_node_data_and_children(
            registry: Registry, node_data: tuple[type[object], object] | None, children: Iterable[PyTreeDef]
        ) -> PyTreeDef: ...
        def serialize_using_proto(self) -> bytes: ...
        @staticmethod
        def deserialize_using_proto(registry: Registry, data: bytes) -> PyTreeDef: ...

else:
    PyTreeDef = _cpp.PyTreeDef

SequenceKey: TypeAlias = _cpp.SequenceKey
DictKey: TypeAlias = _cpp.DictKey
GetAttrKey: TypeAlias = _cpp.GetAttrKey
FlattenedIndexKey: TypeAlias = _cpp.FlattenedIndexKey
KeyEntry: TypeAlias = SequenceKey | DictKey | GetAttrKey | FlattenedIndexKey
"""One step on the way to a leaf; users' nodes may have keys of other types."""
KeyPath: TypeAlias = tuple[object, ...]
"""The path of a leaf: a key for each node from the root, such as `(DictKey('w'), SequenceKey(0))`."""

IsLeaf: TypeAlias = Callable[[PyTree], bool]

T = TypeVar("T")
R = TypeVar("R")
C = TypeVar("C", bound=type[object])


class Registry(_cpp.PyTreeRegistry):
    """A registry of node types that pickles by name, so that treedefs pickle.

    >>> import pickle
    >>> from effx import tree
    >>> pickle.loads(pickle.dumps(tree.users)) is tree.users
    True
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            enable_none=True, enable_tuple=True, enable_namedtuple=True, enable_list=True, enable_dict=True
        )
        self.name = name

    def __reduce__(self) -> tuple[Callable[[str], Registry], tuple[str]]:
        return _registry, (self.name,)

    if TYPE_CHECKING:  # with the structure that is written out above

        def flatten(  # type: ignore[override]  # jaxlib names a class of its own
            self, tree: object, leaf_predicate: IsLeaf | None = None
        ) -> tuple[list[PyTree], PyTreeDef]: ...
        def flatten_with_path(  # type: ignore[override]  # as above
            self, tree: object, leaf_predicate: Callable[[PyTree, PyTree], bool] | None = None
        ) -> tuple[list[tuple[KeyPath, PyTree]], PyTreeDef]: ...


def _registry(name: str) -> Registry:
    return users if name == "users" else dispatch


users: Final = Registry("users")
"""Node types as users see them: an effx array is a leaf."""
dispatch: Final = Registry("dispatch")
"""The same node types for jit's C++ dispatch, where the concrete array class is a node around its buffer."""
_in_cpp: Final = Registry("in C++")
"""The node types that C++ flattens by itself, without calling Python."""

_LOCK = threading.RLock()
# Types of leaves that `register_leaf_classes` leaves as they are. Records that it registered are not among them: a thread
# may see one as a leaf that another thread has just registered, and must flatten it again.
_decided_leaves: set[type[object]] = set()
_leaf_classes: set[type[object]] = set()  # types that stay leaves, subclasses included
_automatic: set[type[object]] = set()  # record types that became nodes on first sight
# What users hold as a whole: programs, stages of compilation, exported functions, types of references.
_OPAQUE_MODULES = (
    "effx.ir.",
    "effx.lower.",
    "effx.export.",
    "effx.transforms.jit.",
    "effx.transforms.refs.ref",
)
# Whether an attrs class of a user's is a node without being registered; not for programs written for JAX.
_takes_attrs_classes = [True]
# Users' registrations of classes.
declared_forms: dict[type[object], tuple[object, ...]] = {}
named_tuples: set[type[object]] = (
    set()
)  # named tuples' classes that were registered; all others are nodes too

_flatten = users.flatten
_flatten_in_cpp = _in_cpp.flatten
_are_decided = _decided_leaves.issuperset


def flatten(tree: PyTree, is_leaf: IsLeaf | None = None) -> tuple[list[PyTree], PyTreeDef]:
    """Flatten a tree into its leaves and its structure.

    Args:
        tree: any value; a value that is no node is a leaf.
        is_leaf: called with each subtree from the root down; where it is true, the subtree is a leaf.

    >>> flatten({"b": [1, 2], "a": None})
    ([1, 2], PyTreeDef({'a': None, 'b': [*, *]}))
    """
    if is_leaf is not None:
        check_nesting_depth(tree, is_leaf)
    try:
        flat = _flatten(tree, is_leaf)
    except SystemError as error:
        raise nesting_error("flatten") from error
    # 13 ns a leaf: the types of leaves, all in C.
    if _are_decided(map(type, flat[0])):
        return flat
    return register_and_repeat(lambda: _flatten(tree, is_leaf), flat, lambda flat: flat[0])


def nesting_error(function_name: str) -> TreeError:
    """The error for a tree in which jaxlib's C++ ran into Python's recursion limit, which it does not report."""
    return TreeError(
        f"{function_name}: the tree is nested too deeply, expected fewer than {sys.getrecursionlimit()} levels"
    )


def check_nesting_depth(tree: PyTree, is_leaf: IsLeaf | None = None) -> None:
    """Refuses a tree that is nested too deeply before Python functions are called on its parts.

    After an exception of theirs, as at the recursion limit, C++ does not reset its count of levels.

    Raises:
        TreeError: it is nested too deeply.
    """
    try:
        _flatten_in_cpp((((((((tree,),),),),),),))  # some levels more, which those functions may need
    except SystemError as error:
        if is_leaf is None or not _ends_at_leaves(tree, is_leaf):
            raise nesting_error("flatten") from error
    except Exception:  # noqa: BLE001  of a part that need not be flattened
        pass


def _ends_at_leaves(tree: PyTree, is_leaf: IsLeaf) -> bool:
    """Returns whether `is_leaf` ends a tree that is nested too deeply without it, or holds itself."""
    deepest = sys.getrecursionlimit() // 2
    parts = [(tree, 0)]
    while parts:
        part, depth = parts.pop()
        if is_leaf(part):
            continue
        level = users.flatten_one_level(part)
        if level is not None and depth >= deepest:
            return False
        parts += [] if level is None else [(child, depth + 1) for child in level[0]]
    return True


def register_and_repeat(
    flatten_once: Callable[[], R], flat: R, leaves_of: Callable[[R], Iterable[PyTree]]
) -> R:
    """Flatten again until no leaf is a record that is a node: neither of a new class nor of one that another thread
    registered meanwhile.

    Args:
        flatten_once: flattens the tree with the classes that are registered.
        flat: its result so far. leaves_of: returns the leaves in such a result.
    """
    deliberate_leaves: set[type[object]] = set()
    while True:
        records = register_leaf_classes(leaves_of(flat))
        if records <= deliberate_leaves:  # `is_leaf` says so
            return flat
        deliberate_leaves |= records
        flat = flatten_once()


def register_leaf_classes(leaves: Iterable[PyTree]) -> set[type[object]]:
    """Register the attrs classes of leaves as nodes; returns the classes of leaves that are nodes because of that."""
    classes = set(map(type, leaves))
    with _LOCK:
        for cls in classes - _decided_leaves - _automatic:
            if not users.is_node(cls) and is_record(cls):
                _register_record(cls, *_field_names(cls))
                _automatic.add(cls)
            else:
                _decided_leaves.add(cls)
    return classes & _automatic


def register_classes(classes: Iterable[type[object]]) -> None:
    """Register the attrs classes among some that are not registered yet: those of nodes in a stored tree."""
    with _LOCK:
        for cls in classes:
            if not users.is_node(cls) and _has_attrs_fields(cls) and _may_be_node(cls):
                _register_record(cls, *_field_names(cls))
                _automatic.add(cls)


def node_form(cls: type[object]) -> tuple[object, ...]:
    """Returns a user's registration of a class: as a leaf, or with its flatten functions; empty for records."""
    if not _leaf_classes.isdisjoint(cls.__mro__):
        return ("leaf",)
    if cls in _automatic:
        return ("record",) if not hasattr(cls, "__attrs_attrs__") else ()
    return declared_forms.get(cls, ())


def is_record(cls: type[object]) -> bool:
    """Whether a type is a node without being registered: an attrs class, but no exception.

    A dataclass is a leaf until it is registered: many hold configuration.

    >>> is_record(int)
    False
    """
    if not _has_attrs_fields(cls) or cls.__module__.startswith(_OPAQUE_MODULES):
        return False
    if not _takes_attrs_classes[0] and not any([base.__module__.startswith("effx.") for base in cls.__mro__]):
        return False  # a class that derives from one of effx's, as distributions do, is written for effx
    return _may_be_node(cls)


def _has_attrs_fields(cls: type[object]) -> bool:
    return hasattr(cls, "__attrs_attrs__")


def keep_attrs_classes_leaves() -> None:
    """Makes attrs classes of users leaves from here on, as for JAX, unless they are registered."""
    _takes_attrs_classes[0] = False


def _may_be_node(cls: type[object]) -> bool:
    return not issubclass(cls, BaseException) and _leaf_classes.isdisjoint(cls.__mro__)


def _field_names(cls: type[object]) -> tuple[list[str], list[str]]:
    """Names of the data fields and of the static fields."""
    attributes = getattr(cls, "__attrs_attrs__", None)
    fields = dataclasses.fields(cast("Any", cls)) if attributes is None else attributes
    data = [f.name for f in fields if not f.metadata.get("static", False)]
    return data, [f.name for f in fields if f.metadata.get("static", False)]


def record_fields(cls: type[object]) -> tuple[list[str], list[str]] | None:
    """Returns the names of a record's data fields and of its static fields; None for nodes that are no records.

    >>> @register_record
    ... @dataclasses.dataclass
    ... class Scale:
    ...     factor: float
    ...     name: str = static(default="s")
    >>> record_fields(Scale), record_fields(dict)
    ((['factor'], ['name']), None)
    """
    if cls in _automatic:
        return _field_names(cls)
    form = declared_forms.get(cls, ())
    names = [x for x in form if isinstance(x, str)]
    if None not in form or len(names) != len(form) - 1:
        return None
    count = form.index(None)
    return names[:count], names[count:]


def _is_plain_init(cls: type[object], names: set[str]) -> bool:
    """Whether calling `cls` with its fields as keywords does no more than store them."""
    init = vars(cls).get("__init__")
    code = getattr(init, "__code__", None)
    if code is None or cls.__new__ is not object.__new__:
        return False
    if set(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]) != names:
        return False  # fields with init=False, InitVars, aliases
    attributes = getattr(cls, "__attrs_attrs__", None)
    if attributes is None:
        return code.co_filename == "<string>" and not hasattr(cls, "__post_init__")
    hooked = hasattr(cls, "__attrs_pre_init__") or hasattr(cls, "__attrs_post_init__")
    checked = any(a.converter is not None or a.validator is not None for a in attributes)
    return code.co_filename.startswith("<attrs generated") and not (hooked or checked)


def _make_getter(names: list[str]) -> Callable[[object], tuple[PyTree, ...]]:
    """A function that gives these attributes as a tuple, in C where there are two or more."""
    if not names:
        return lambda record: ()
    if len(names) == 1:
        name = names[0]
        return lambda record: (getattr(record, name),)
    return attrgetter(*names)


def _register_record(cls: type[object], data: list[str], meta: list[str]) -> None:
    if _is_plain_init(cls, {*data, *meta}):
        register_fields(cls, data, meta)  # all in C++, twice as fast
        return
    # Rebuilt without `__init__`: its converters and validators would meet tracers and placeholders,
    # its keywords may differ from the attributes, and fields with init=False would be lost.
    new, set_field = object.__new__, object.__setattr__
    keys = [GetAttrKey(name) for name in data]
    get_data, get_meta = _make_getter(data), _make_getter(meta)
    names = (*data, *meta)
    # One update of `__dict__` in C, where no slot and no descriptor stands in the way.
    plain = cls.__dictoffset__ != 0 and not any(
        hasattr(getattr_static(cls, n, None), "__set__") for n in names
    )

    def flatten_record(record: object) -> tuple[tuple[PyTree, ...], tuple[PyTree, ...]]:
        return get_data(record), get_meta(record)

    def flatten_record_with_keys(record: object) -> tuple[list[tuple[object, PyTree]], tuple[PyTree, ...]]:
        return list(zip(keys, get_data(record), strict=True)), get_meta(record)

    def unflatten_record(static: tuple[PyTree, ...], children: tuple[PyTree, ...]) -> object:
        record = new(cls)
        values = zip(names, (*children, *static), strict=True)
        if plain:
            record.__dict__.update(values)
        else:
            for name, value in values:
                set_field(record, name, value)
        return record

    register_node(cls, flatten_record, unflatten_record, flatten_record_with_keys)


def _check_not_registered(who: str, cls: type[object]) -> None:
    plain = issubclass(cls, tuple) and hasattr(cls, "_fields") and cls not in named_tuples
    if users.is_node(cls) and not plain:
        why = "it became a node when a tree with it was first flattened, register it before" * (
            cls in _automatic
        )
        raise TreeError(f"{who}: {cls.__qualname__} is a node type already" + (f": {why}" if why else ""))


def register_node(
    cls: type[T],
    flatten_node: Callable[[T], tuple[Iterable[PyTree], Hashable]],
    unflatten_node: Callable[[Any, Any], T],
    flatten_with_keys: Callable[[T], tuple[Iterable[tuple[object, PyTree]], Hashable]] | None = None,
    *,
    who: str = "register_pytree_node",
) -> None:
    """Makes `cls` a node type in both registries.

    Args:
        cls: the type; its subclasses are not affected.
        flatten_node: returns the children, and static data that is compared with `==`.
        unflatten_node: takes the static data and the children, and rebuilds the node. The children may
            be anything, placeholders included.
        flatten_with_keys: like `flatten_node` with a key for each child.
        who: the function that an error names.

    Raises:
        TreeError: `cls` is a node type already.

    >>> from effx import tree
    >>> class Pair:
    ...     def __init__(self, x, y): self.x, self.y = x, y
    >>> tree.register_node(Pair, lambda pair: ((pair.x, pair.y), None), lambda _, children: Pair(*children))
    >>> tree.map(lambda x: 2 * x, Pair(1, 2)).y
    4
    """
    with _LOCK:
        _check_not_registered(who, cls)
        if issubclass(cls, tuple):
            named_tuples.add(cls)
        declared_forms[cls] = (flatten_node, unflatten_node, flatten_with_keys)
        for registry in (users, dispatch):
            registry.register_node(cls, flatten_node, unflatten_node, flatten_with_keys)


def register_fields(
    cls: type[object],
    data: Sequence[str],
    meta: Sequence[str] = (),
    *,
    who: str = "register_dataclass",
) -> None:
    """Makes `cls` a node type in both registries, which is rebuilt by a call of `cls` with its fields as keywords.

    >>> from effx import tree
    >>> class Point:
    ...     def __init__(self, x, name): self.x, self.name = x, name
    >>> tree.register_fields(Point, ["x"], ["name"])
    >>> tree.leaves(Point(1.0, "start"))
    [1.0]
    """
    with _LOCK:
        _check_not_registered(who, cls)
        declared_forms[cls] = (*data, None, *meta)
        for registry in (users, dispatch, _in_cpp):
            registry.register_dataclass_node(cls, list(data), list(meta))


def register_record(cls: C) -> C:
    """Make an attrs class or dataclass a node type at once, not on first use.

    Fields whose metadata has `static=True` are part of the structure, the others are children.

    >>> @register_record
    ... @dataclasses.dataclass
    ... class Layer:
    ...     weight: float
    ...     name: str = static(default="dense")
    >>> flatten(Layer(1.0))
    ([1.0], PyTreeDef(CustomNode(Layer[('dense',)], [*])))
    """
    with _LOCK:
        if cls not in _automatic:
            if not ((_has_attrs_fields(cls) or dataclasses.is_dataclass(cls)) and _may_be_node(cls)):
                raise TreeError(
                    f"register_attrs: got {cls.__qualname__}, expected an attrs class or dataclass that is "
                    "no exception and not registered as a leaf"
                )
            _check_not_registered("register_attrs", cls)
            _register_record(cls, *_field_names(cls))
            _automatic.add(cls)
    return cls


def register_declared(form: object) -> None:
    """Register the dataclasses that a type annotation names, such as a handler's payloads."""
    if (
        isinstance(form, type)
        and dataclasses.is_dataclass(form)
        and not users.is_node(form)
        and _may_be_node(form)
    ):
        register_record(form)
    for part in get_args(form):
        register_declared(part)


def register_leaf(cls: C) -> C:
    """Keep an attrs class or dataclass, and its subclasses, a leaf.

    Raises:
        TreeError: `cls` is a node type already.

    >>> @register_leaf
    ... @dataclasses.dataclass
    ... class Name:
    ...     text: str
    >>> flatten([Name("x")])
    ([Name(text='x')], PyTreeDef([*]))
    """
    with _LOCK:
        _check_not_registered("register_leaf", cls)
        _leaf_classes.add(cls)
    return cls


def static(**options: Any) -> Any:
    """A dataclass field that is part of a tree's structure; takes what `dataclasses.field` takes.

    >>> static(default=3).metadata["static"]
    True
    """
    return dataclasses.field(**{**options, "metadata": {"static": True, **(options.get("metadata") or {})}})


def tuple_structure(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees with these structures."""
    make_tuple: Callable[..., PyTreeDef] = _cpp.treedef_tuple  # type: ignore[assignment]  # of jaxlib's own class
    return make_tuple(users, list(treedefs))


def _flatten_ordered_dict(tree: OrderedDict[Any, PyTree]) -> tuple[list[PyTree], tuple[Any, ...]]:
    return list(tree.values()), tuple(tree)


def _flatten_ordered_dict_with_keys(
    tree: OrderedDict[Any, PyTree],
) -> tuple[list[tuple[object, PyTree]], tuple[Any, ...]]:
    return [(DictKey(key), value) for key, value in tree.items()], tuple(tree)


def _flatten_defaultdict(tree: defaultdict[Any, PyTree]) -> tuple[list[PyTree], tuple[Any, tuple[Any, ...]]]:
    keys = tuple(sorted(tree))
    return [tree[key] for key in keys], (tree.default_factory, keys)


def _flatten_defaultdict_with_keys(
    tree: defaultdict[Any, PyTree],
) -> tuple[list[tuple[object, PyTree]], tuple[Any, tuple[Any, ...]]]:
    children, static_data = _flatten_defaultdict(tree)
    return [(DictKey(key), child) for key, child in zip(static_data[1], children, strict=True)], static_data


register_node(
    OrderedDict,
    _flatten_ordered_dict,
    lambda keys, children: OrderedDict(zip(keys, children, strict=True)),
    _flatten_ordered_dict_with_keys,
)
register_node(
    defaultdict,
    _flatten_defaultdict,
    lambda static_data, children: defaultdict(static_data[0], zip(static_data[1], children, strict=True)),
    _flatten_defaultdict_with_keys,
)
