"""The pullback that `vjp` returns (`VJP`): its residuals are visible, and it can add to mutable references."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, final

import attrs

from effx.array import Array
from effx.array.promotion import zeros
from effx.errors import DTypeError, RefError, TransformError, TreeError
from effx.ir.types import ArrayType
from effx.ir.values.refs import ReferenceBase
from effx.tree.mapping import flatten_with_path
from effx.tree.prefixes import keystr
from effx.tree.registry import PyTree, PyTreeDef, flatten, register_node

__all__ = ["VJP", "DidntWant", "DontWant", "GradRef", "GradValue", "NotNeeded", "NotSaveable"]


def flatten_flags(function_name: str, name: str, flag_tree: PyTree, tree: PyTreeDef) -> list[bool]:
    """Returns a bool for each leaf of the primals.

    Args:
        function_name, name: the transformation and its parameter, for errors.
        flag_tree: a bool, or a prefix of the primals, whose containers need only have the same number of children.
        tree: the structure of the tuple of primals.

    Raises:
        TransformError: a leaf is no bool.
        TreeError: `flag_tree` is no prefix.
    """
    if flag_tree is True:
        return [True] * tree.num_leaves
    flags, form = flatten(flag_tree, is_leaf=lambda x: x is None)
    for flag in flags:
        if type(flag) is not bool:
            raise TransformError(
                f"{function_name}: {name} must hold bools, got {flag!r} of type {type(flag).__name__}"
            )
    return list(_broadcast_flags(function_name, name, form, iter(flags), tree))


def _broadcast_flags(
    function_name: str, name: str, form: PyTreeDef, flags: Iterator[bool], tree: PyTreeDef
) -> Iterator[bool]:
    if form.node_data() is None:
        flag = next(flags)
        yield from [flag] * tree.num_leaves
        return
    parts, children = form.children(), tree.children()
    if tree.node_data() is None or len(parts) != len(children):
        container = "an array" if tree.node_data() is None else f"a container of {len(children)}"
        raise TreeError(
            f"{function_name}: {name} must be a prefix of the primals, but has a container of {len(parts)} for {container}"
        )
    for part, child in zip(parts, children, strict=True):
        yield from _broadcast_flags(function_name, name, part, flags, child)


def unflatten_flags(tree: PyTreeDef, flags: Sequence[bool]) -> PyTree:
    """Returns bools in a structure, in which tuples replace containers that are neither tuple, list nor dict."""
    return _unflatten_node(tree, iter(flags))


def _unflatten_node(tree: PyTreeDef, flags: Iterator[bool]) -> PyTree:
    data = tree.node_data()
    if data is None:
        return next(flags)
    parts = [_unflatten_node(child, flags) for child in tree.children()]
    if data[0] is dict:
        return dict(zip(data[1], parts, strict=True))
    return parts if data[0] is list else tuple(parts)


@final
@attrs.frozen
class GradValue:
    """In `f_vjp.with_refs(...)`: the argument's cotangent is returned.

    >>> import effx
    >>> from effx.ad import DontWant, GradValue
    >>> y, f_vjp = effx.vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> print(f_vjp.with_refs(GradValue(), DontWant())(1.0)[0])
    3.0
    """


@final
@attrs.frozen
class DontWant:
    """In `f_vjp.with_refs(...)`: the argument's cotangent is not wanted; compiled code does not compute it.

    >>> import effx
    >>> from effx.ad import DontWant, GradValue
    >>> y, f_vjp = effx.vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> print(*f_vjp.with_refs(DontWant(), GradValue())(1.0))
    DidntWant() 2.0
    """


@final
@attrs.frozen
class GradRef:
    """In the result of a `vjp` with references: the cotangent was added to a reference.

    >>> import effx, effx.numpy as enp
    >>> y, f_vjp = effx.vjp(lambda x: x * x, 3.0)
    >>> total = effx.new_ref(1.0)
    >>> print(*f_vjp.with_refs(total)(1.0), total[...])
    GradRef() 7.0
    """


@final
@attrs.frozen
class DidntWant:
    """In the result of a `vjp`: the cotangent was not wanted.

    >>> import effx
    >>> from effx.ad import DidntWant, DontWant
    >>> y, f_vjp = effx.vjp(lambda x: x * x, 3.0)
    >>> f_vjp.with_refs(DontWant())(1.0) == (DidntWant(),)
    True
    """


@final
@attrs.frozen
class NotNeeded:
    """In `f_vjp.args_res`: the backward pass does not need this argument's value.

    >>> import effx, effx.numpy as enp
    >>> y, f_vjp = effx.vjp(lambda x, y: 2.0 * x + y, enp.ones(2), enp.ones(2))
    >>> f_vjp.args_res
    [NotNeeded(), NotNeeded()]
    """


@final
@attrs.frozen
class NotSaveable:
    """In `f_vjp.args_res`: the backward pass needs this argument's value, which `saveable_args` excluded.

    >>> import effx, effx.numpy as enp
    >>> w, x = enp.ones(2), enp.arange(2.0)
    >>> y, f_vjp = effx.vjp(enp.dot, w, x, saveable_args=(False, True))
    >>> f_vjp.args_res
    [NotSaveable(), Array([0., 1.], dtype=float32)]
    >>> f_vjp.args_res[0] = w
    >>> print(*f_vjp(2.0))
    [0. 2.] [2. 2.]
    """


Marker: TypeAlias = type[GradRef] | type[DidntWant] | type[NotNeeded] | type[NotSaveable]


def _register(marker: Marker) -> None:
    register_node(marker, lambda _: ((), None), lambda _, __: marker())


for _marker in (GradRef, DidntWant, NotNeeded, NotSaveable):
    _register(_marker)


def _is_cotangent_request(x: object) -> bool:
    return isinstance(x, GradValue | DontWant)


def _is_unsaved_marker(x: object) -> bool:
    return isinstance(x, NotNeeded | NotSaveable)


@final
@attrs.frozen(eq=False)
class PullbackInfo:
    """The static part of a pullback; equal only to itself.

    Attributes:
        name: the function's name, for errors.
        apply: takes residuals and a cotangent of the result, and of lent references' final contents; with axes the
            primals too. Returns the primals' cotangents.
        needs_primals: whether `apply` takes the primals.
        residual_sources: for each residual the index of the primal that it is; -1 for another value.
        in_types: the primals' types.
        in_tree: their structure, in which references are leaves.
        is_ref: for each primal whether it is a reference's contents.
        out_tree: the structure of the result; with lent references, of a pair of it and their final contents.
        dependent: for each leaf of `out_tree` whether it depends on the primals.
    """

    name: str
    apply: Callable[..., PyTree]
    needs_primals: bool
    residual_sources: tuple[int, ...]
    in_types: tuple[ArrayType, ...]
    in_tree: PyTreeDef
    is_ref: tuple[bool, ...]
    out_tree: PyTreeDef
    dependent: tuple[bool, ...]

    def missing_ref_error(self, leaf: int) -> RefError:
        """Returns the error for a primal that is a reference without one for its cotangent."""
        return RefError(
            f"vjp: {self.primal_path(leaf)} of {self.name} is a Ref, whose cotangent needs one too: "
            f"f_vjp.with_refs(ref)(cotangent); or effx.ad.DontWant() for it"
        )

    def primal_path(self, leaf: int) -> str:
        """Returns `args[0]['w']` for a primal."""
        index_tree = self.in_tree.unflatten(range(len(self.in_types)))
        return f"args{keystr(flatten_with_path(index_tree)[0][leaf][0])}"


@final
class VJP:
    """A function from a cotangent of the result to a tuple of the primals' cotangents. A pytree, so that jit can return
    it.

    Attributes:
        args_res: for each positional argument its pytree, with `NotNeeded()` for arrays that the backward pass does not
            need. An array may be replaced by one of its type before the call, or taken out to free it. `NotSaveable()`
            marks one that must be put back.
        opaque_residuals: the other residuals.

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

    __slots__ = ("_bound", "_info", "_wants_logs", "args_res", "opaque_residuals")

    def __init__(
        self,
        info: PullbackInfo,
        args_res: list[PyTree],
        opaque_residuals: list[Array],
        bound: Sequence[Any] = (),
        wants_logs: bool = False,
    ) -> None:
        self._info, self._bound, self._wants_logs = info, tuple(bound), wants_logs
        self.args_res, self.opaque_residuals = args_res, opaque_residuals

    def __repr__(self) -> str:
        return (
            f"VJP({self._info.name}, args_res={self.args_res!r}, opaque_residuals={self.opaque_residuals!r})"
        )

    @property
    def out_nzs(self) -> PyTree:
        """For each array of the result, whether its cotangent matters: whether it depends on a differentiated primal.
        Tuples replace containers that are neither tuple, list nor dict.

        >>> import effx
        >>> effx.vjp(lambda x, y: {"a": x * y, "b": 2 * y}, 1.0, 2.0, in_nzs=(True, False))[1].out_nzs
        {'a': True, 'b': False}
        """
        tree = unflatten_flags(self._info.out_tree, self._info.dependent)
        return tree[0] if any(self._info.is_ref) else tree

    @property
    def with_logs(self) -> VJP:
        """This pullback, giving a pair of what it gives and a dict of what rules of `defvjp_with_logs` log.

        Values of one name that are logged several times are stacked by scan and vmap; else the last one counts. As the
        pullback itself it can be called, returned from jit, and given refs by `with_refs`.

        >>> import effx
        >>> f = effx.custom_vjp(lambda x: 2 * x)
        >>> f.defvjp_with_logs(lambda x: (f(x), None), lambda _, ct: ((2 * ct,), {"f": {"cotangent": ct}}))
        >>> cotangents, logs = effx.vjp(f, 1.0)[1].with_logs(3.0)
        >>> print(cotangents[0], logs["f"]["cotangent"])
        6.0 3.0
        """
        return VJP(self._info, self.args_res, self.opaque_residuals, self._bound, True)

    def with_refs(self, *maybe_ct_refs: PyTree) -> VJP:
        """Returns this pullback with a destination for each cotangent.

        Args:
            maybe_ct_refs: the structure of the primals, with a leaf for each array or reference among them: a `Ref` of its
                type, to which its cotangent is added; `effx.ad.GradValue()` to have it returned, as without
                this method; or `effx.ad.DontWant()`. For a primal that is a reference, the ref holds the cotangent
                of the final contents, and receives that of the initial contents.

        Returns:
            A function like this one.

        Raises:
            TreeError: the structure differs.
            TransformError: a leaf is none of these.
            RefError: `GradValue()` for a primal that is a reference.
            DTypeError: a ref does not have its primal's type.
        """
        info = self._info
        leaves, tree = flatten(maybe_ct_refs, is_leaf=_is_cotangent_request)
        if tree != info.in_tree:
            raise TreeError(
                f"with_refs: the structure is {tree}, that of the primals of {info.name} {info.in_tree}"
            )
        for i, (x, t, is_ref) in enumerate(zip(leaves, info.in_types, info.is_ref, strict=True)):
            if is_ref and isinstance(x, GradValue):
                raise info.missing_ref_error(i)
            if isinstance(x, GradValue | DontWant):
                continue
            if not isinstance(x, ReferenceBase):
                raise TransformError(
                    f"with_refs: {info.primal_path(i)} must be a Ref, GradValue() or DontWant(), got {x!r}"
                )
            if not x.type.matches(t) or t.kind not in "fc":
                raise DTypeError(
                    f"with_refs: {info.primal_path(i)} of {info.name} is {t!r}, whose cotangent cannot be added to a Ref "
                    f"{x.type!r}"
                )
        return VJP(info, self.args_res, self.opaque_residuals, leaves, self._wants_logs)

    def __call__(self, cotangent: PyTree, /) -> PyTree:
        """Applies the transpose.

        Raises:
            RefError: a primal is a reference, and `with_refs` gave no destination for its cotangent.
            TransformError: an argument that is needed was taken out of `args_res`.
            TreeError, ShapeError, DTypeError: the cotangent does not match the result.
        """
        if self._wants_logs:
            from effx.transforms.autodiff.backward_logs import collect_logs  # rare, and not loaded before

            return collect_logs(self._apply, cotangent)
        return self._apply(cotangent)

    def _apply(self, cotangent: PyTree) -> PyTree:
        info = self._info
        bound: Sequence[Any] = self._bound or [GradValue()] * len(info.in_types)
        ref_cts: list[Array] = []
        for i, (ref, is_ref) in enumerate(zip(bound, info.is_ref, strict=True)):
            if is_ref and type(ref) is GradValue:
                raise info.missing_ref_error(i)
            if is_ref:
                ref_cts.append(zeros(info.in_types[i]) if type(ref) is DontWant else ref[...])
        residuals, primals = self._residuals()
        full_cotangent = (cotangent, ref_cts) if any(info.is_ref) else cotangent
        cts = (
            info.apply(residuals, primals, full_cotangent)
            if info.needs_primals
            else info.apply(residuals, full_cotangent)
        )
        if not self._bound:
            return cts
        results: list[PyTree] = []
        for ct, ref, is_ref in zip(flatten(cts)[0], bound, info.is_ref, strict=True):
            if type(ref) is GradValue:
                results.append(ct)
            elif type(ref) is DontWant:
                results.append(DidntWant())
            else:
                if is_ref:
                    ref[...] = ct
                else:
                    ref.addupdate(ct)
                results.append(GradRef())
        return info.in_tree.unflatten(results)

    def _residuals(self) -> tuple[tuple[Array, ...], tuple[PyTree, ...]]:
        info = self._info
        leaves = flatten(tuple(self.args_res), is_leaf=_is_unsaved_marker)[0]
        if len(leaves) != len(info.in_types):
            raise TransformError(
                f"vjp: args_res of {info.name} must keep an entry for each array, got {len(leaves)} in place of "
                f"{len(info.in_types)}; an array that was taken out must be put back before the call"
            )
        needed = (
            info.residual_sources if not info.needs_primals else (*info.residual_sources, *range(len(leaves)))
        )
        for k in needed:
            if k >= 0 and not (isinstance(leaves[k], Array) and leaves[k].type.matches(info.in_types[k])):
                raise TransformError(
                    f"vjp: going back needs {info.primal_path(k)} of {info.name}, {info.in_types[k]!r}, but args_res has "
                    f"{leaves[k]!r} there"
                )
        others = iter(self.opaque_residuals)
        return tuple([leaves[k] if k >= 0 else next(others) for k in info.residual_sources]), tuple(leaves)


def make_pullback(
    info: PullbackInfo, primals: Sequence[Array], residuals: Sequence[Array], saveable: Sequence[bool]
) -> VJP:
    """Returns a pullback with its residuals split into saveable primals and other values."""
    needed = range(len(primals)) if info.needs_primals else {*info.residual_sources}
    args_res = info.in_tree.unflatten(
        [
            NotNeeded() if i not in needed else x if is_saveable else NotSaveable()
            for i, (x, is_saveable) in enumerate(zip(primals, saveable, strict=True))
        ]
    )
    return VJP(
        info, list(args_res), [x for x, k in zip(residuals, info.residual_sources, strict=True) if k < 0]
    )


def residual_sources(primals: Sequence[Array], residuals: Sequence[Array]) -> tuple[int, ...]:
    """Returns for each residual the index of the primal that it is; -1 for another value."""
    primal_numbers = {id(x): i for i, x in reversed(list(enumerate(primals)))}
    return tuple([primal_numbers.get(id(x), -1) for x in residuals])


def _flatten_vjp(f_vjp: VJP) -> tuple[tuple[PyTree, PyTree, PyTree], tuple[PullbackInfo, bool]]:
    return (f_vjp.args_res, f_vjp.opaque_residuals, f_vjp._bound), (f_vjp._info, f_vjp._wants_logs)


def _unflatten_vjp(data: tuple[PullbackInfo, bool], children: tuple[PyTree, PyTree, PyTree]) -> VJP:
    args_res, opaque, bound = children
    info, wants_logs = data
    return VJP(info, args_res, opaque, bound, wants_logs)


register_node(VJP, _flatten_vjp, _unflatten_vjp)
