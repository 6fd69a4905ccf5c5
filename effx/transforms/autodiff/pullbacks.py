"""What `vjp` returns: a function of cotangents that shows what it keeps, and that may add to mutable references."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, final

import attrs

from effx.array import Array
from effx.array.promotion import zeros
from effx.errors import DTypeError, RefError, TransformError, TreeError
from effx.ir.types import ArrayType
from effx.ir.values.refs import Reference
from effx.tree.mapping import flatten_with_path
from effx.tree.prefixes import keystr
from effx.tree.registry import PyTree, PyTreeDef, flatten, register_node

__all__ = ["VJP", "DidntWant", "DontWant", "GradRef", "GradValue", "NotNeeded", "NotSaveable"]


def flags_of(what: str, name: str, given: PyTree, tree: PyTreeDef) -> list[bool]:
    """Returns a bool for each leaf of the primals.

    Args:
        what, name: the transformation and its parameter, for errors.
        given: a bool, or a prefix of the primals, whose containers need only have as many children as theirs.
        tree: the structure of the primals, a tuple's.

    Raises:
        TransformError: a leaf is no bool.
        TreeError: it is no prefix.
    """
    if given is True:
        return [True] * tree.num_leaves
    flags, form = flatten(given, is_leaf=lambda x: x is None)
    for flag in flags:
        if type(flag) is not bool:
            raise TransformError(
                f"{what}: {name} must hold bools, got {flag!r} of type {type(flag).__name__}"
            )
    return list(_spread(what, name, form, iter(flags), tree))


def _spread(what: str, name: str, form: PyTreeDef, flags: Iterator[bool], tree: PyTreeDef) -> Iterator[bool]:
    if form.node_data() is None:
        flag = next(flags)
        yield from [flag] * tree.num_leaves
        return
    parts, children = form.children(), tree.children()
    if tree.node_data() is None or len(parts) != len(children):
        of = "an array" if tree.node_data() is None else f"a container of {len(children)}"
        raise TreeError(
            f"{what}: {name} must be a prefix of the primals, but has a container of {len(parts)} for {of}"
        )
    for part, child in zip(parts, children, strict=True):
        yield from _spread(what, name, part, flags, child)


def as_tree(tree: PyTreeDef, flags: Sequence[bool]) -> PyTree:
    """Returns bools in a structure, in which tuples stand for containers that are neither tuple, list nor dict."""
    return _built(tree, iter(flags))


def _built(tree: PyTreeDef, flags: Iterator[bool]) -> PyTree:
    data = tree.node_data()
    if data is None:
        return next(flags)
    parts = [_built(child, flags) for child in tree.children()]
    if data[0] is dict:
        return dict(zip(data[1], parts, strict=True))
    return parts if data[0] is list else tuple(parts)


@final
@attrs.frozen
class GradValue:
    """In `f_vjp.with_refs(...)`: the argument's cotangent is returned."""


@final
@attrs.frozen
class DontWant:
    """In `f_vjp.with_refs(...)`: the argument's cotangent is not asked for; compiled code does not compute it."""


@final
@attrs.frozen
class GradRef:
    """In the result of a `vjp` with references: the cotangent was added to one."""


@final
@attrs.frozen
class DidntWant:
    """In the result of a `vjp`: the cotangent was not asked for."""


@final
@attrs.frozen
class NotNeeded:
    """In `f_vjp.args_res`: going back does not need this argument's value."""


@final
@attrs.frozen
class NotSaveable:
    """In `f_vjp.args_res`: going back needs this argument's value, which `saveable_args` did not let it keep."""


Marker: TypeAlias = type[GradRef] | type[DidntWant] | type[NotNeeded] | type[NotSaveable]


def _register(marker: Marker) -> None:
    register_node(marker, lambda _: ((), None), lambda _, __: marker())


for _marker in (GradRef, DidntWant, NotNeeded, NotSaveable):
    _register(_marker)


def _is_wish(x: object) -> bool:
    return isinstance(x, GradValue | DontWant)


def _is_not_kept(x: object) -> bool:
    return isinstance(x, NotNeeded | NotSaveable)


@final
@attrs.frozen(eq=False)
class Form:
    """What of a pull-back is no array; equal only to itself.

    Attributes:
        name: of the function, for errors.
        pull: takes residuals and a cotangent of the result, and of what lent references held at the end; with axes the
            primals too. Gives the primals' cotangents.
        sums: whether `pull` takes the primals.
        kept: for each residual the number of the primal that it is; -1 for another value.
        in_types: the primals'.
        in_tree: their structure, in which references are leaves.
        lent: for each primal whether it is what a reference held.
        out_tree: the structure of the result; with lent references, of a pair of it and what they held at the end.
        dependent: for each of its leaves whether it depends on the primals.
    """

    name: str
    pull: Callable[..., PyTree]
    sums: bool
    kept: tuple[int, ...]
    in_types: tuple[ArrayType, ...]
    in_tree: PyTreeDef
    lent: tuple[bool, ...]
    out_tree: PyTreeDef
    dependent: tuple[bool, ...]

    def path(self, leaf: int) -> str:
        """Returns `args[0]['w']` for a primal."""
        whole = self.in_tree.unflatten(range(len(self.in_types)))
        return f"args{keystr(flatten_with_path(whole)[0][leaf][0])}"


@final
class VJP:
    """A cotangent of the result to a tuple with one for each primal. A pytree, so that jit can return it.

    Attributes:
        args_res: for each positional argument its pytree, with `NotNeeded()` for arrays that going back does not need.
            An array may be replaced by one of its type before the call, or taken out to free it. `NotSaveable()` stands
            for one that must be put back.
        opaque_residuals: the other values that going back needs.

    >>> import effx, effx.numpy as enp
    >>> y, f_vjp = effx.vjp(lambda w, x: enp.dot(w, x), enp.ones(2), enp.arange(2.0))
    >>> f_vjp.args_res
    [Array([1., 1.], dtype=float32), Array([0., 1.], dtype=float32)]
    >>> total = effx.new_ref(enp.zeros(2))
    >>> f_vjp.with_refs(total, effx.ad.DontWant())(2.0)
    (GradRef(), DidntWant())
    >>> total
    Ref([0., 2.], dtype=float32)
    """

    __slots__ = ("_bound", "_form", "args_res", "opaque_residuals")

    def __init__(
        self, form: Form, args_res: list[PyTree], opaque_residuals: list[Array], bound: Sequence[Any] = ()
    ) -> None:
        self._form, self._bound = form, tuple(bound)
        self.args_res, self.opaque_residuals = args_res, opaque_residuals

    def __repr__(self) -> str:
        return (
            f"VJP({self._form.name}, args_res={self.args_res!r}, opaque_residuals={self.opaque_residuals!r})"
        )

    @property
    def out_nzs(self) -> PyTree:
        """For each array of the result whether its cotangent matters: whether it depends on what is differentiated by.
        Tuples stand for containers that are neither tuple, list nor dict.

        >>> import effx
        >>> effx.vjp(lambda x, y: {"a": x * y, "b": 2 * y}, 1.0, 2.0, in_nzs=(True, False))[1].out_nzs
        {'a': True, 'b': False}
        """
        found = as_tree(self._form.out_tree, self._form.dependent)
        return found[0] if any(self._form.lent) else found

    def with_refs(self, *maybe_ct_refs: PyTree) -> VJP:
        """Says where cotangents go.

        Args:
            maybe_ct_refs: the structure of the primals, with a leaf for each array or reference among them: a `Ref` of its
                type, to which its cotangent is added; `effx.ad.GradValue()` to have it returned, as without
                this method; or `effx.ad.DontWant()`. For a primal that is a reference, the ref holds the cotangent
                of what that held at the end, and gets the one of what it held at the start.

        Returns:
            A function like this one.

        Raises:
            TreeError: the structure is another.
            TransformError: a leaf is none of these.
            DTypeError: a ref is not of its primal's type.
        """
        form = self._form
        leaves, tree = flatten(maybe_ct_refs, is_leaf=_is_wish)
        if tree != form.in_tree:
            raise TreeError(
                f"with_refs: the structure is {tree}, that of the primals of {form.name} {form.in_tree}"
            )
        for i, (x, t) in enumerate(zip(leaves, form.in_types, strict=True)):
            if isinstance(x, GradValue | DontWant):
                continue
            if not isinstance(x, Reference):
                raise TransformError(
                    f"with_refs: {form.path(i)} must be a Ref, GradValue() or DontWant(), got {x!r}"
                )
            if not x.type.matches(t) or t.kind not in "fc":
                raise DTypeError(
                    f"with_refs: {form.path(i)} of {form.name} is {t!r}, whose cotangent cannot be added to a Ref "
                    f"{x.type!r}"
                )
        return VJP(form, self.args_res, self.opaque_residuals, leaves)

    def __call__(self, cotangent: PyTree, /) -> PyTree:
        """Applies the transpose.

        Raises:
            RefError: a primal is a reference, and `with_refs` did not say where its cotangent goes.
            TransformError: an argument that is needed was taken out of `args_res`.
            TreeError, ShapeError, DTypeError: the cotangent does not fit the result.
        """
        form = self._form
        bound: Sequence[Any] = self._bound or [GradValue()] * len(form.in_types)
        ends: list[Array] = []
        for i, (ref, lent) in enumerate(zip(bound, form.lent, strict=True)):
            if lent and type(ref) is GradValue:
                raise RefError(
                    f"vjp: {form.path(i)} of {form.name} is a Ref, whose cotangent needs one too: "
                    f"f_vjp.with_refs(ref)(cotangent); or effx.ad.DontWant() for it"
                )
            if lent:
                ends.append(zeros(form.in_types[i]) if type(ref) is DontWant else ref[...])
        residuals, primals = self._residuals()
        whole = (cotangent, ends) if any(form.lent) else cotangent
        found = form.pull(residuals, primals, whole) if form.sums else form.pull(residuals, whole)
        if not self._bound:
            return found
        results: list[PyTree] = []
        for ct, ref, lent in zip(flatten(found)[0], bound, form.lent, strict=True):
            if type(ref) is GradValue:
                results.append(ct)
            elif type(ref) is DontWant:
                results.append(DidntWant())
            else:
                if lent:
                    ref[...] = ct
                else:
                    ref.addupdate(ct)
                results.append(GradRef())
        return form.in_tree.unflatten(results)

    def _residuals(self) -> tuple[tuple[Array, ...], tuple[PyTree, ...]]:
        form = self._form
        leaves = flatten(tuple(self.args_res), is_leaf=_is_not_kept)[0]
        if len(leaves) != len(form.in_types):
            raise TransformError(
                f"vjp: args_res of {form.name} must keep an entry for each array, got {len(leaves)} in place of "
                f"{len(form.in_types)}; an array that was taken out must be put back before the call"
            )
        needed = form.kept if not form.sums else (*form.kept, *range(len(leaves)))
        for k in needed:
            if k >= 0 and not (isinstance(leaves[k], Array) and leaves[k].type.matches(form.in_types[k])):
                raise TransformError(
                    f"vjp: going back needs {form.path(k)} of {form.name}, {form.in_types[k]!r}, but args_res has "
                    f"{leaves[k]!r} there"
                )
        others = iter(self.opaque_residuals)
        return tuple([leaves[k] if k >= 0 else next(others) for k in form.kept]), tuple(leaves)


def pull_back_of(
    form: Form, primals: Sequence[Array], residuals: Sequence[Array], saved: Sequence[bool]
) -> VJP:
    """Returns a pull-back with its residuals apart: those that are primals, if they may be saved, and the others."""
    needed = range(len(primals)) if form.sums else {*form.kept}
    shown = form.in_tree.unflatten(
        [
            NotNeeded() if i not in needed else x if save else NotSaveable()
            for i, (x, save) in enumerate(zip(primals, saved, strict=True))
        ]
    )
    return VJP(form, list(shown), [x for x, k in zip(residuals, form.kept, strict=True) if k < 0])


def places_of(primals: Sequence[Array], residuals: Sequence[Array]) -> tuple[int, ...]:
    """Returns for each residual the number of the primal that it is; -1 for another value."""
    known = {id(x): i for i, x in reversed(list(enumerate(primals)))}
    return tuple([known.get(id(x), -1) for x in residuals])


def _apart(f_vjp: VJP) -> tuple[tuple[PyTree, PyTree, PyTree], Form]:
    return (f_vjp.args_res, f_vjp.opaque_residuals, f_vjp._bound), f_vjp._form


def _together(form: Form, children: tuple[PyTree, PyTree, PyTree]) -> VJP:
    args_res, opaque, bound = children
    return VJP(form, args_res, opaque, bound)


register_node(VJP, _apart, _together)
