"""Pytrees: structure and order of every node type, records, registration, prefixes, and their laws."""

from __future__ import annotations

import collections
import dataclasses
import functools
import pickle
import sys
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import effx
from effx import Array, tree, tree_util
from effx.errors import DTypeError, TreeError
from effx.handling import BoxHandler
from effx.tree import PyTree


class Point(NamedTuple):
    x: PyTree
    y: PyTree


@tree.register_record
@dataclasses.dataclass
class Layer:
    weight: PyTree
    bias: PyTree = None
    name: str = tree.static(default="dense")


@attrs.frozen
class Pair:
    left: PyTree
    right: PyTree
    tag: str = attrs.field(default="", metadata={"static": True})


def said(error: pytest.ExceptionInfo[TreeError]) -> str:
    message = error.value.args[0]
    assert isinstance(message, str)
    return message.split("\n")[0]


scalars = st.one_of(st.integers(), st.floats(allow_nan=False), st.text(max_size=3), st.booleans())


def nodes(children: st.SearchStrategy[PyTree]) -> st.SearchStrategy[PyTree]:
    text = st.text("abc", max_size=2)
    return st.one_of(
        st.none(),
        st.lists(children, max_size=3),
        st.lists(children, max_size=3).map(tuple),
        st.dictionaries(text, children, max_size=3),
        st.dictionaries(text, children, max_size=3).map(OrderedDict),
        st.dictionaries(text, children, max_size=3).map(lambda x: defaultdict(list, x)),
        st.builds(Point, children, children),
        st.builds(Layer, children, children, text),
        st.builds(Pair, children, children, text),
        st.builds(functools.partial(tree.Partial, max), children),
    )


trees = st.recursive(scalars, nodes, max_leaves=12)


def same(a: PyTree, b: PyTree) -> bool:
    return tree.flatten(a) == tree.flatten(b)


@given(trees)
def test_unflatten_inverts_flatten(t: PyTree) -> None:
    leaves, treedef = tree.flatten(t)
    again = tree.unflatten(treedef, leaves)
    assert type(again) is type(t)
    assert same(again, t)
    assert treedef.num_leaves == len(leaves)


@given(trees)
def test_flatten_inverts_unflatten(t: PyTree) -> None:
    treedef = tree.structure(t)
    leaves = list(range(treedef.num_leaves))
    assert tree.flatten(tree.unflatten(treedef, leaves)) == (leaves, treedef)


@given(trees)
def test_map_keeps_structure_and_composes(t: PyTree) -> None:
    assert same(tree.map(lambda x: x, t), t)
    twice = tree.map(lambda x: [x, x], t)
    assert same(twice, tree.map(lambda x: (x, x), t)) == (tree.structure(t).num_leaves == 0)
    f: Callable[[PyTree], PyTree] = repr
    assert same(tree.map(len, tree.map(f, t)), tree.map(lambda x: len(f(x)), t))


@given(trees)
def test_paths_are_distinct_and_in_the_order_of_the_leaves(t: PyTree) -> None:
    found, treedef = tree.flatten_with_path(t)
    assert ([leaf for _, leaf in found], treedef) == tree.flatten(t)
    assert len({tree.keystr(path) for path, _ in found}) == len(found)
    assert prefixless(t)


def prefixless(t: PyTree) -> bool:
    return tree.prefix_errors(t, t) == [] and tree.flatten_up_to(tree.structure(t), t) == tree.leaves(t)


@given(trees, trees)
def test_a_leaf_is_a_prefix_of_everything(a: PyTree, b: PyTree) -> None:
    nested = tree.map(lambda _: b, a)
    assert tree.prefix_errors(a, nested) == []
    assert tree.broadcast_prefix(a, nested) == [x for x in tree.leaves(a) for _ in tree.leaves(b)]
    assert tree.structure(a).compose(tree.structure(b)) == tree.structure(nested)


@given(trees, trees)
def test_prefix_errors_agree_with_flatten_up_to(a: PyTree, b: PyTree) -> None:
    errors = tree.prefix_errors(a, b)
    try:
        tree.flatten_up_to(tree.structure(a), b)
    except TreeError:
        assert errors
    else:
        assert errors == []


@given(trees, trees)
def test_transpose_inverts_itself(a: PyTree, b: PyTree) -> None:
    outer, inner = tree.structure(a), tree.structure(b)
    nested = tree.unflatten(outer.compose(inner), range(outer.num_leaves * inner.num_leaves))
    assert same(tree.transpose(inner, outer, tree.transpose(outer, inner, nested)), nested)


@given(trees)
def test_treedefs_pickle(t: PyTree) -> None:
    treedef = tree.structure(t)
    assert pickle.loads(pickle.dumps(treedef)) == treedef


@pytest.mark.parametrize(
    ("t", "leaves", "text"),
    [
        (5, [5], "*"),
        (None, [], "None"),
        ([], [], "[]"),
        ((1, [2, None]), [1, 2], "(*, [*, None])"),
        ({"b": 1, "a": 2}, [2, 1], "{'a': *, 'b': *}"),
        (OrderedDict(b=1, a=2), [1, 2], "CustomNode(OrderedDict[('b', 'a')], [*, *])"),
        (
            defaultdict(int, {"b": 1, "a": 2}),
            [2, 1],
            "CustomNode(defaultdict[(<class 'int'>, ('a', 'b'))], [*, *])",
        ),
        (Point(1, (2,)), [1, 2], "CustomNode(namedtuple[Point], [*, (*,)])"),
        (Layer(1, [2], "x"), [1, 2], "CustomNode(Layer[('x',)], [*, [*]])"),
        (Pair(1, [2], "x"), [1, 2], "CustomNode(Pair[('x',)], [*, [*]])"),
        (
            tree.Partial(max, 1, key=2),
            [1, 2],
            "CustomNode(Partial[<built-in function max>], [(*,), {'key': *}])",
        ),
        ("text", ["text"], "*"),
    ],
)
def test_node_types(t: PyTree, leaves: list[PyTree], text: str) -> None:
    assert tree.leaves(t) == leaves
    assert str(tree.structure(t)) == f"PyTreeDef({text})"


def test_is_leaf_stops_at_records_too() -> None:
    layer = Layer(1, 2)
    assert tree.leaves([layer, (3,)], is_leaf=lambda x: isinstance(x, Layer)) == [layer, 3]
    assert tree.leaves([layer, None], is_leaf=lambda x: x is None) == [1, 2, None]


def test_records_inside_records_become_nodes_in_one_flatten() -> None:
    @tree.register_record
    @dataclasses.dataclass(frozen=True, slots=True)
    class Inner:
        a: PyTree

    @attrs.define
    class Outer:
        inner: PyTree

    t = Outer([Inner(1), Inner(Inner(2))])
    assert tree.leaves(t) == [1, 2]
    assert tree.map(lambda x: x + 1, t) == Outer([Inner(2), Inner(Inner(3))])
    for registry in (tree.users, tree.dispatch):
        assert registry.is_node(Outer)
        assert registry.is_node(Inner)


def test_records_are_rebuilt_without_init() -> None:
    calls = []

    @tree.register_record
    @dataclasses.dataclass
    class Post:
        x: PyTree
        derived: PyTree = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            calls.append(self.x)
            self.derived = self.x * 2

    @attrs.frozen
    class Checked:
        _x: int = attrs.field(converter=int, validator=attrs.validators.instance_of(int))

    assert tree.leaves(Post(1)) == [1, 2]
    again = tree.map(lambda x: [x], Post(1))
    assert (again.x, again.derived, calls) == ([1], [2], [1, 1])
    placeholder = tree.map(lambda _: object, Checked(3))
    assert placeholder._x is object


def test_a_subclass_of_a_record_is_a_node_of_its_own() -> None:
    @tree.register_record
    class Sub(Layer):
        pass

    mapped = tree.map(lambda x: -x, Sub(1, 2, "n"))
    assert type(mapped) is Sub
    assert (mapped.weight, mapped.bias, mapped.name) == (-1, -2, "n")


def test_classes_and_exceptions_are_leaves() -> None:
    @attrs.define(auto_exc=True)
    class FailureError(Exception):
        x: int

    failure = FailureError(1)
    assert tree.leaves([Layer, failure]) == [Layer, failure]


def test_register_leaf() -> None:
    @tree.register_leaf
    @attrs.define
    class Opaque:
        x: int

    class Sub(Opaque):
        pass

    items = [Opaque(1), Sub(2)]
    assert tree.leaves(items) == items
    tree.leaves(Layer(1))
    with pytest.raises(TreeError) as error:
        tree.register_leaf(Layer)
    assert said(error) == (
        "register_leaf: Layer is a node type already: it became a node when a tree with it was first "
        "flattened, register it before"
    )


@pytest.mark.unguarded  # gives what is no array
def test_dataclasses_are_leaves_until_registered() -> None:
    """A dataclass may hold configuration: it is a node once it is registered, or a handler's class declares it."""

    @dataclasses.dataclass(frozen=True)
    class Config:
        size: int

    @tree_util.register_dataclass
    @dataclasses.dataclass
    class State:
        x: PyTree

    @dataclasses.dataclass
    class Payload:
        x: Array

    @dataclasses.dataclass
    class Kept:
        n: Array

    class Declares(BoxHandler[Payload, Kept | None]):
        pass

    assert tree.leaves([Config(3), State(4)]) == [Config(3), 4]
    assert tree.leaves([Payload(1), Kept(2)]) == [1, 2]  # type: ignore[arg-type]  # any leaf will do
    with pytest.raises(DTypeError) as error:
        effx.jit(lambda c: c)(Config(3))
    assert error.value.message == (
        "jit: argument 0 must be an array, a number, or a pytree of them, got "
        f"{Config(3)!r} of type Config; an argument that is no array can be static in jit"
    )
    assert effx.jit(lambda c, x: x * c.size, static_argnums=0)(Config(3), 2.0) == 6.0


def test_named_tuples_can_be_registered() -> None:
    """A named tuple is a node of its fields unless its class is registered to be another."""
    half = collections.namedtuple("half", "x name")  # noqa: PYI024  made anew in this test
    tree_util.register_pytree_node(half, lambda p: ((p.x,), p.name), lambda name, xs: half(*xs, name))  # type: ignore[call-arg]  # one child
    assert tree.leaves([half(1, "a"), Point(2, 3)]) == [1, 2, 3]
    assert tree.map(lambda x: -x, half(1, "a")) == half(-1, "a")
    out = effx.jit(lambda p: tree.map(lambda x: x * 2, p))(half(2.0, "a"))
    assert (float(out.x), out.name) == (4.0, "a")
    assert tree.prefix_errors(half(1, "a"), half(1, "b")) == [
        "the prefix is a half with static data a, the full tree has b"
    ]
    with pytest.raises(TreeError) as error:
        tree_util.register_pytree_node(half, lambda p: ((), p), lambda p, _: p)
    assert said(error) == "register_pytree_node: half is a node type already"
    with pytest.raises(TreeError):
        tree_util.register_pytree_node(tuple, lambda p: ((), p), lambda p, _: p)


@pytest.mark.unguarded  # what the hook inserts meets the recursion limit first
@pytest.mark.parametrize("depth", [1500, 5000])
def test_trees_that_are_nested_too_deeply(depth: int) -> None:
    """C++ overlooks Python's recursion limit; such a tree is an error."""
    deep: PyTree = 1.0
    for i in range(depth):
        deep = [deep] if i % 2 else {"a": deep}
    f = effx.jit(lambda x: 1.0)
    f(1.0)
    for use in (
        tree.flatten,
        tree.leaves_with_path,
        lambda t: tree.leaves(t, is_leaf=lambda x: False),
        lambda t: tree.map_with_path(lambda p, x: x, t),
        lambda t: tree.broadcast([0], [t]),
        lambda t: tree.prefix_errors(t, t),
        f,
        lambda t: effx.jit(lambda x: t)(1.0),
        lambda t: effx.vmap(lambda x: x)(t),
    ):
        with pytest.raises(TreeError) as error:
            use(deep)
        assert said(error) == (
            f"flatten: the tree is nested too deeply, expected fewer than {sys.getrecursionlimit()} levels"
        )
    assert f(1.0) == 1.0
    assert tree.leaves((1, deep), is_leaf=lambda x: x is deep) == [1, deep]
    while isinstance(deep, list | dict):  # not by recursion
        deep = deep[0] if isinstance(deep, list) else deep["a"]


def test_many_threads_meet_a_new_record_at_once() -> None:
    @attrs.define
    class Fresh:
        x: PyTree
        y: PyTree

    barrier, found = threading.Barrier(8), list[list[PyTree]]()

    def work() -> None:
        barrier.wait()
        found.append(tree.leaves([Fresh(1, 2)] * 10))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[1, 2] * 10] * 8


def test_map_over_several_trees() -> None:
    assert tree.map(lambda x, y, z: x + y + len(z), (1, [2]), (10, [20]), ([1], [()])) == (12, [22])


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, "at ['a'] tree 1 is a list of length 2, tree 2 a list of length 3"),
        ((1, 2), [1, 2], "tree 1 is a tuple, tree 2 a list"),
        ([(1,)], [3], "at [0] tree 1 is a tuple, tree 2 a leaf of type int"),
        ([None], [3], "at [0] tree 1 is None, tree 2 a leaf of type int"),
        (
            {"a": 1, "b": 2},
            {"a": 1, "c": 2},
            "tree 1 lacks the keys ['c'] and has the keys ['b'] too many, tree 2 has ['a', 'c']",
        ),
        (
            Layer(1, (2,), "p"),
            Layer(1, (2,), "q"),
            "tree 1 is a Layer with static data ('p',), tree 2 has ('q',)",
        ),
        (
            [Layer((1,), [2]), 3, Point(1, [2])],
            [Layer([1], (2,)), 3, Point(1, [2, 3])],
            (
                "at [0].weight tree 1 is a tuple, tree 2 a list; "
                "at [0].bias tree 1 is a list, tree 2 a tuple; "
                "at [2].y tree 1 is a list of length 1, tree 2 a list of length 2"
            ),
        ),
        (
            OrderedDict(a=1),
            OrderedDict(b=1),
            "tree 1 lacks the keys ['b'] and has the keys ['a'] too many, tree 2 has ['b']",
        ),
    ],
)
def test_mismatched_trees(a: PyTree, b: PyTree, text: str) -> None:
    with pytest.raises(TreeError) as error:
        tree.map(lambda x, y: x, a, b)
    assert said(error) == f"tree.map: {text}"
    assert error.value.__suppress_context__


def test_flatten_up_to_and_broadcast_name_themselves() -> None:
    with pytest.raises(TreeError) as error:
        tree.flatten_up_to(tree.structure((1, 2)), (1,))
    assert (
        said(error)
        == "tree.flatten_up_to: the structure is a tuple of length 2, the tree a tuple of length 1"
    )
    with pytest.raises(TreeError) as error:
        tree.broadcast({"a": 0}, {"a": 1, "b": 2})
    assert (
        said(error) == "tree.broadcast_prefix: the prefix lacks the keys ['b'], the full tree has ['a', 'b']"
    )
    assert tree.broadcast([None, 1], [(2, 3), [4]], is_leaf=lambda x: x is None) == [(None, None), [1]]


def test_a_node_that_refuses_placeholders_still_gives_an_error() -> None:
    class Strict:
        def __init__(self, x: PyTree) -> None:
            if x == 0:
                raise KeyError(x)
            self.x = x

    tree_util.register_pytree_node(Strict, lambda s: ((s.x,), None), lambda _, c: Strict(*c))
    with pytest.raises(TreeError, match=r"^tree\.flatten_up_to: Custom node type mismatch"):
        tree.flatten_up_to(tree.structure(Strict(1)), 3)


def test_prefix_errors_of_dicts_whose_keys_have_no_order() -> None:
    with pytest.raises(ValueError, match="Comparator"):
        tree.flatten({1: 2, "a": 3})


def test_unflatten_counts() -> None:
    with pytest.raises(TreeError) as error:
        tree.unflatten(tree.structure([1, 2]), [1])
    assert said(error) == "tree.unflatten: got 1 leaves, expected 2 for PyTreeDef([*, *])"


def test_transpose() -> None:
    assert tree.transpose(tree.structure([0, 0]), None, [(1, 2), (3, 4)]) == ([1, 3], [2, 4])
    assert tree.transpose(tree.structure([]), tree.structure((0, 0)), []) == ([], [])
    with pytest.raises(TreeError) as error:
        tree.transpose(tree.structure((1, 2)), tree.structure([1]), ([1], [2, 3]))
    assert said(error) == "tree.transpose: got PyTreeDef(([*], [*, *])), expected PyTreeDef(([*], [*]))"
    with pytest.raises(TreeError) as error:
        tree.transpose(tree.structure([]), None, [])
    assert said(error) == "tree.transpose: inner structure needed, as PyTreeDef([]) has no leaves"


def test_folds() -> None:
    assert tree.reduce(lambda x, y: x - y, [10, (1, 2)]) == 7
    assert tree.reduce(lambda x, y: [*x, y], (1, 2), []) == [1, 2]
    assert tree.reduce_associative(lambda x, y: f"({x}{y})", list("abcde")) == "(((ab)(cd))e)"
    assert tree.reduce_associative(max, [], identity=3) == 3
    assert tree.all([True, None, (1,)])
    assert tree.all([])
    for fold in (tree.reduce, tree.reduce_associative):
        with pytest.raises(TreeError, match="got a tree without leaves and no"):
            fold(max, [None])


def test_paths() -> None:
    t = {"w": [Layer(1, Point(2, tree.Partial(max, 3)))]}
    assert [tree.keystr(path) for path, _ in tree.leaves_with_path(t)] == [
        "['w'][0].weight",
        "['w'][0].bias.x",
        "['w'][0].bias.y[<flat index 0>][0]",
    ]
    simple = [tree.keystr(path, simple=True, separator="/") for path, _ in tree.leaves_with_path(t)]
    assert simple == ["w/0/weight", "w/0/bias/x", "w/0/bias/y/0/0"]
    assert tree.leaves_with_path(OrderedDict(b=1)) == [((tree.DictKey("b"),), 1)]

    def at_depth_one(path: tree.KeyPath, _: PyTree) -> bool:
        return len(path) == 1

    assert tree.leaves_with_path(t, at_depth_one, is_leaf_takes_path=True) == [((tree.DictKey("w"),), t["w"])]
    assert tree.map_with_path(lambda p, x, y: (len(p), x, y), [1, (2,)], [3, (4,)]) == [
        (1, 1, 3),
        ((2, 2, 4),),
    ]
    with pytest.raises(TreeError, match=r"^tree\.map_with_path: tree 1 is a list, tree 2 a tuple"):
        tree.map_with_path(lambda p, x, y: x, [1], (1,))


def test_treedefs() -> None:
    treedef = tree.structure([1, (2, None)])
    assert tree_util.treedef_children(treedef) == [tree.structure(0), tree.structure((0, None))]
    assert tree_util.treedef_tuple([treedef, treedef]) == tree.structure(([0, (0, None)], [0, (0, None)]))
    assert tree_util.treedef_is_leaf(tree.structure(0))
    assert not tree_util.treedef_is_leaf(tree.structure(()))
    assert tree_util.all_leaves([1, "a"])
    assert not tree_util.all_leaves([1, ()])
    assert not tree_util.all_leaves([(1,)])


def test_partial() -> None:
    assert tree.Partial(pow, 2)(5) == 32
    assert tree.Partial(tree.Partial(pow, 2), 5)() == 32
    hidden = tree.Partial(functools.partial(pow, 2), 5)
    assert (tree.leaves(hidden), hidden()) == ([5], 32)
    inner = functools.partial(pow, 2)
    assert tree.structure(tree.Partial(inner, 5)) == tree.structure(tree.Partial(inner, 6))
    doubled = tree.map(lambda x: x * 2, tree.Partial(pow, 2, mod=5))
    assert (doubled.func, doubled.args, doubled.keywords) == (pow, (4,), {"mod": 10})


class Tracked:
    def __init__(self, *children: PyTree) -> None:
        self.children = children

    def tree_flatten(self) -> tuple[tuple[PyTree, ...], None]:
        return self.children, None

    def tree_flatten_with_keys(self) -> tuple[Iterable[tuple[object, PyTree]], None]:
        return [(tree.GetAttrKey(f"c{i}"), child) for i, child in enumerate(self.children)], None

    @classmethod
    def tree_unflatten(cls, _: None, children: Iterable[PyTree]) -> Tracked:
        return cls(*children)


def test_registering_classes() -> None:
    @tree_util.register_pytree_node_class
    class Plain(Tracked):
        pass

    @tree_util.register_pytree_with_keys_class
    class Keyed(Tracked):
        pass

    t = [Plain(1, [2]), Keyed(3, (4,))]
    assert [tree.keystr(path) for path, _ in tree.leaves_with_path(t)] == [
        "[0][<flat index 0>]",
        "[0][<flat index 1>][0]",
        "[1].c0",
        "[1].c1[0]",
    ]
    assert tree.map(lambda x: x + 1, t)[1].children == (4, (5,))
    with pytest.raises(TreeError) as error:
        tree_util.register_pytree_node_class(Plain)
    assert said(error).endswith("<locals>.Plain is a node type already")


def test_register_dataclass_calls_the_class() -> None:
    @functools.partial(tree_util.register_dataclass, drop_fields=("derived",))
    @dataclasses.dataclass
    class Post:
        x: PyTree
        unit: str = tree.static(default="m")
        derived: PyTree = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            self.derived = self.x * 2

    mapped = tree.map(lambda x: x + 1, Post(1, "s"))
    assert (mapped.x, mapped.unit, mapped.derived) == (2, "s", 4)

    @dataclasses.dataclass
    class Wrong:
        x: int

    with pytest.raises(TreeError, match=r"Wrong: got the fields \['x', 'y'\], expected \['x'\]"):
        tree_util.register_dataclass(Wrong, ["x"], ["y"])
    with pytest.raises(TreeError, match="got one of data_fields and meta_fields, expected both or none"):
        tree_util.register_dataclass(Wrong, ["x"])
    with pytest.raises(TreeError, match=r"int is no dataclass, expected data_fields and meta_fields"):
        tree_util.register_dataclass(int)


def test_register_attrs_and_static() -> None:
    @tree_util.register_attrs
    @attrs.frozen
    class Now:
        x: PyTree

    assert tree.users.is_node(Now)
    assert tree_util.register_attrs(Now) is Now
    with pytest.raises(TreeError, match=r"^register_attrs: got int, expected an attrs class or dataclass"):
        tree_util.register_attrs(int)

    @tree_util.register_static
    @dataclasses.dataclass(frozen=True)
    class Mode:
        name: str

    assert tree.leaves([Mode("a"), 1]) == [1]
    assert tree.structure(Mode("a")) == tree.structure(Mode("a")) != tree.structure(Mode("b"))
    assert tree.map(lambda x: x, Mode("a")) == Mode("a")


def test_tree_util_has_the_names_of_jax() -> None:
    short = (
        "all broadcast flatten flatten_with_path leaves leaves_with_path map map_with_path reduce structure"
    )
    for name in [*short.split(), "transpose", "unflatten", "reduce_associative"]:
        assert getattr(tree_util, f"tree_{name}") is getattr(tree, name)


def test_registries_are_effx_own() -> None:
    from jaxlib._jax import pytree

    default: Any = pytree.default_registry()
    tree.leaves(Layer(1))
    assert not default.is_node(Layer)
    assert default is not tree.users
    assert pickle.loads(pickle.dumps(tree.dispatch)) is tree.dispatch


def test_a_record_that_another_thread_registers_meanwhile() -> None:
    """What was flattened as a leaf before is flattened again, whoever registered its class in between."""

    def flatten_in_between(make: Callable[[], Any], flatten: Callable[..., Any]) -> Any:
        entered, registered = threading.Event(), threading.Event()

        class Slow(dict[str, Any]):  # a leaf, whose test by `is_leaf` waits while the other thread registers
            pass

        def is_leaf(x: Any) -> bool:
            if isinstance(x, Slow):
                entered.set()
                assert registered.wait(60)
            return isinstance(x, Slow)

        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(flatten([make(), Slow()], is_leaf)))
        thread.start()
        assert entered.wait(60)
        tree.flatten(make())
        registered.set()
        thread.join()
        return results[0]

    @attrs.frozen
    class First:
        x: Any

    @attrs.frozen
    class Second:
        x: Any

    leaves = flatten_in_between(lambda: First(1), lambda t, is_leaf: tree.flatten(t, is_leaf)[0])
    assert leaves == [1, {}]
    paths = flatten_in_between(lambda: Second(1), lambda t, is_leaf: tree.flatten_with_path(t, is_leaf)[0])
    assert [leaf for _, leaf in paths] == [1, {}]


def test_records_as_leaves() -> None:
    @attrs.frozen
    class Outer:
        inner: Any

    @attrs.frozen
    class Inner:
        x: Any

    whole = [Outer(Inner(1)), Inner(2)]
    for _ in range(2):  # before and after the classes are known
        assert tree.flatten(whole, lambda x: isinstance(x, Inner))[0] == [Inner(1), Inner(2)]
        assert tree.flatten(whole, lambda x: isinstance(x, Outer))[0] == [Outer(Inner(1)), 2]
        assert [leaf for _, leaf in tree.flatten_with_path(whole, lambda x: isinstance(x, Outer))[0]] == [
            Outer(Inner(1)),
            2,
        ]
    assert tree.flatten(whole)[0] == [1, 2]


def test_a_tree_that_holds_itself_ends_at_leaves() -> None:
    x: list[Any] = []
    y: list[Any] = [x]
    x.append(y)
    assert tree.flatten(x, is_leaf=lambda node: node is not x)[0] == [y]
    assert [path for path, _ in tree.flatten_with_path(x, is_leaf=lambda node: node is not x)[0]] == [
        (tree_util.SequenceKey(0),)
    ]
    with pytest.raises(TreeError, match="nested too deeply"):
        tree.flatten(x, is_leaf=lambda node: False)
    x.clear()


class FlatCache:
    """A node whose data is the structure of the tree that it holds, flattened once."""

    def __init__(self, held: Any, leaves: Any = None, treedef: Any = None) -> None:
        self.leaves: Any = leaves
        self.treedef: Any = treedef
        if treedef is None:
            self.leaves, self.treedef = tree.flatten(held)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FlatCache) and (self.leaves, self.treedef) == (other.leaves, other.treedef)

    def __hash__(self) -> int:
        return hash(self.treedef)


tree_util.register_pytree_node(
    FlatCache, lambda x: (x.leaves, x.treedef), lambda data, leaves: FlatCache(None, list(leaves), data)
)


def test_transpose_of_a_node_whose_data_is_a_structure() -> None:
    """The tree's own structure is not the inner one inside the outer one there; as many leaves will do."""
    outer = tree.structure(FlatCache({"a": 1, "b": 2}))
    inner = tree.structure([1, 2])
    nested = FlatCache({"a": [3, 4], "b": [5, 6]})
    assert tree.transpose(outer, inner, nested) == [FlatCache({"a": 3, "b": 5}), FlatCache({"a": 4, "b": 6})]
    with pytest.raises(TreeError, match=r"tree\.transpose: got"):
        tree.transpose(outer, tree.structure([1, 2, 3]), nested)
    with pytest.raises(TreeError, match=r"tree\.transpose: got"):
        tree.transpose(tree.structure([0, 0]), inner, {"a": [1, 2], "b": [3, 4]})


def test_a_partials_function_is_equal_to_what_was_given() -> None:
    """Also where that is a partial function of functools, which another partial would be merged with."""
    fun = functools.partial(max, 1)
    one, two = tree_util.Partial(fun, 2), tree_util.Partial(fun, 2)
    assert one.func == fun == two.func
    assert fun == one.func
    assert hash(one.func) == hash(two.func)
    assert one.func != functools.partial(max, 1)


def test_a_static_field_keeps_its_own_metadata() -> None:
    assert tree.static(metadata={"key": 1}).metadata == {"static": True, "key": 1}
    assert tree.static(metadata={"static": False}).metadata == {"static": False}
