"""Policies of `checkpoint`: which operations' results differentiation saves as residuals.

A policy is called with an operation and its operands' types, and returns whether the results are saved. The policies
of this module compare by value, so that equal policies share cached programs.
"""

from typing import Protocol, final

import attrs

from effx.effects import Operation
from effx.errors import TransformError
from effx.ir.ops.checkpoint import CheckpointName, Offload, Policy, ask_policy, is_named
from effx.ir.ops.linalg import DotGeneral
from effx.ir.types import ArrayType

__all__ = [
    "checkpoint_dots",
    "checkpoint_dots_with_no_batch_dims",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    "everything_saveable",
    "nothing_saveable",
    "offload_dot_with_no_batch_dims",
    "save_and_offload_only_these_names",
    "save_any_names_but_these",
    "save_anything_except_these_names",
    "save_from_both_policies",
    "save_only_these_names",
]


class CheckpointPolicy(Protocol):
    """A policy."""

    def __call__(self, op: Operation[object], *types: ArrayType) -> "bool | Offload":
        """Returns whether the results of an operation are saved, and in which memory."""
        ...


def everything_saveable(op: Operation[object], *types: ArrayType) -> bool:
    """Saves everything, as without checkpoint.

    >>> import effx, effx.numpy as enp
    >>> from effx.ad_checkpoint import print_saved_residuals
    >>> f = effx.checkpoint(lambda x: enp.sin(enp.exp(x)), policy=effx.checkpoint_policies.everything_saveable)
    >>> print_saved_residuals(f, 2.0)
    f32[]~ output of exp from ...
    f32[]~ output of cos from ...
    """
    return True


def nothing_saveable(op: Operation[object], *types: ArrayType) -> bool:
    """Saves only the arguments: checkpoint's default.

    >>> import effx, effx.numpy as enp
    >>> from effx.ad_checkpoint import print_saved_residuals
    >>> f = effx.checkpoint(lambda x: enp.sin(enp.exp(x)), policy=effx.checkpoint_policies.nothing_saveable)
    >>> print_saved_residuals(f, 2.0)
    f32[]~ from the argument x
    """
    return False


def dots_saveable(op: Operation[object], *types: ArrayType) -> bool:
    """Saves the results of matrix products.

    `checkpoint_dots` is another name of it.

    >>> import effx, effx.numpy as enp
    >>> from effx.ad_checkpoint import print_saved_residuals
    >>> f = effx.checkpoint(lambda x: enp.sin(enp.exp(x) @ x), policy=effx.checkpoint_policies.dots_saveable)
    >>> print_saved_residuals(f, enp.ones(3))
    f32[3] from the argument x
    f32[] output of dot_general from ...
    """
    return isinstance(op, DotGeneral)


def dots_with_no_batch_dims_saveable(op: Operation[object], *types: ArrayType) -> bool:
    """Saves the results of matrix products without batch dimensions: with weights, not of attention.

    `checkpoint_dots_with_no_batch_dims` is another name of it.

    >>> import effx, effx.numpy as enp
    >>> from effx.ad_checkpoint import print_saved_residuals
    >>> policy = effx.checkpoint_policies.dots_with_no_batch_dims_saveable
    >>> print_saved_residuals(effx.checkpoint(lambda x: enp.sin(x @ x.T), policy=policy), enp.ones((2, 3)))
    f32[2,3] from the argument x
    f32[2,2] output of dot_general from ...
    >>> print_saved_residuals(effx.checkpoint(lambda x: enp.sin(x @ x.mT), policy=policy), enp.ones((5, 2, 3)))
    f32[5,2,3] from the argument x
    """
    return isinstance(op, DotGeneral) and not op.lhs_batch


checkpoint_dots = dots_saveable
checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


@final
@attrs.frozen
class _OnlyNames:
    labels: frozenset[str]

    def __call__(self, op: Operation[object], *types: ArrayType) -> bool:
        return is_named(op, self.labels)


@final
@attrs.frozen
class _NamesExcept:
    labels: frozenset[str]

    def __call__(self, op: Operation[object], *types: ArrayType) -> bool:
        return type(op) is CheckpointName and op.label not in self.labels


@final
@attrs.frozen
class _AnythingExcept:
    labels: frozenset[str]

    def __call__(self, op: Operation[object], *types: ArrayType) -> bool:
        return not is_named(op, self.labels)


@final
@attrs.frozen
class _EitherPolicy:
    first: Policy
    second: Policy

    def __call__(self, op: Operation[object], *types: ArrayType) -> "bool | Offload":
        ask = ask_policy[-1]
        answer = ask(self.first, op, types) or ask(self.second, op, types)
        return answer if isinstance(answer, Offload) else bool(answer)


@final
@attrs.frozen
class _OffloadDots:
    offload: Offload

    def __call__(self, op: Operation[object], *types: ArrayType) -> "bool | Offload":
        return self.offload if dots_with_no_batch_dims_saveable(op, *types) else False


@final
@attrs.frozen
class _OffloadNames:
    saved: frozenset[str]
    offloaded: frozenset[str]
    offload: Offload

    def __call__(self, op: Operation[object], *types: ArrayType) -> "bool | Offload":
        return self.offload if is_named(op, self.offloaded) else is_named(op, self.saved)


def _check_labels(what: str, names: tuple[object, ...]) -> frozenset[str]:
    for name in names:
        if not isinstance(name, str):
            raise TransformError(f"{what}: names must be strings, got {name!r}")
    return frozenset([str(name) for name in names])


def save_only_these_names(*names: str) -> CheckpointPolicy:
    """Saves values that `checkpoint_name` gave one of these names.

    >>> import effx, effx.numpy as enp
    >>> from effx.ad_checkpoint import checkpoint_name, print_saved_residuals
    >>> policy = effx.checkpoint_policies.save_only_these_names("hidden")
    >>> f = effx.checkpoint(lambda x: enp.sin(checkpoint_name(enp.exp(x), "hidden")), policy=policy)
    >>> print_saved_residuals(f, 2.0)
    f32[]~ named 'hidden' from ...
    """
    return _OnlyNames(_check_labels("save_only_these_names", names))


def save_any_names_but_these(*names: str) -> CheckpointPolicy:
    """Saves named values, except those with one of these names.

    >>> import effx, effx.numpy as enp
    >>> from effx.ad_checkpoint import checkpoint_name, print_saved_residuals
    >>> policy = effx.checkpoint_policies.save_any_names_but_these("a")
    >>> f = lambda x: enp.sin(checkpoint_name(enp.sin(checkpoint_name(enp.exp(x), "a")), "b"))
    >>> print_saved_residuals(effx.checkpoint(f, policy=policy), 2.0)
    f32[]~ from the argument x
    f32[]~ named 'b' from ...
    """
    return _NamesExcept(_check_labels("save_any_names_but_these", names))


def save_anything_except_these_names(*names: str) -> CheckpointPolicy:
    """Saves all values, named or not, except those with one of these names.

    A named value is also the result of the operation before it, which has no name and is saved: to recompute
    a value, combine names with a policy that does not save it.

    >>> import effx, effx.numpy as enp
    >>> from effx.ad_checkpoint import checkpoint_name, print_saved_residuals
    >>> policy = effx.checkpoint_policies.save_anything_except_these_names("hidden")
    >>> f = effx.checkpoint(lambda x: enp.sin(checkpoint_name(enp.exp(x), "hidden")), policy=policy)
    >>> print_saved_residuals(f, 2.0)
    f32[]~ output of exp from ...
    f32[]~ output of cos from ...
    """
    return _AnythingExcept(_check_labels("save_anything_except_these_names", names))


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> CheckpointPolicy:
    """Saves what either policy saves.

    >>> import effx, effx.numpy as enp
    >>> from effx.ad_checkpoint import checkpoint_name, print_saved_residuals
    >>> from effx.checkpoint_policies import dots_saveable, save_from_both_policies, save_only_these_names
    >>> policy = save_from_both_policies(dots_saveable, save_only_these_names("hidden"))
    >>> f = effx.checkpoint(lambda x: enp.sin(checkpoint_name(enp.exp(x), "hidden") @ x), policy=policy)
    >>> print_saved_residuals(f, enp.ones(3))
    f32[3] from the argument x
    f32[3] named 'hidden' from ...
    f32[] output of dot_general from ...
    """
    return _EitherPolicy(policy_1, policy_2)


def offload_dot_with_no_batch_dims(
    offload_src: str = "device", offload_dst: str = "pinned_host"
) -> CheckpointPolicy:
    """Saves the results of matrix products without batch dimensions in another memory, such as the host's.

    >>> import effx, effx.numpy as enp
    >>> from effx.ad_checkpoint import print_saved_residuals
    >>> policy = effx.checkpoint_policies.offload_dot_with_no_batch_dims()
    >>> f = effx.checkpoint(lambda x: enp.sin(enp.exp(x) @ x), policy=policy)
    >>> print_saved_residuals(f, enp.ones(3))
    f32[3] from the argument x
    f32[] output of offload
    """
    return _OffloadDots(Offload(offload_src, offload_dst))


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: "tuple[str, ...] | list[str]",
    names_which_can_be_offloaded: "tuple[str, ...] | list[str]",
    offload_src: str = "device",
    offload_dst: str = "pinned_host",
) -> CheckpointPolicy:
    """Saves values with some names in device memory, and values with other names in another memory.

    Raises:
        TransformError: a name is in both lists.

    >>> import effx, effx.numpy as enp
    >>> from effx.ad_checkpoint import checkpoint_name, print_saved_residuals
    >>> policy = effx.checkpoint_policies.save_and_offload_only_these_names(
    ...     names_which_can_be_saved=["a"], names_which_can_be_offloaded=["b"])
    >>> f = lambda x: enp.sin(checkpoint_name(enp.sin(checkpoint_name(enp.exp(x), "a")), "b"))
    >>> print_saved_residuals(effx.checkpoint(f, policy=policy), 2.0)
    f32[]~ named 'a' from ...
    f32[]~ output of offload
    """
    saved = _check_labels("save_and_offload_only_these_names", tuple(names_which_can_be_saved))
    offloaded = _check_labels("save_and_offload_only_these_names", tuple(names_which_can_be_offloaded))
    both = saved & offloaded
    if both:
        raise TransformError(
            f"save_and_offload_only_these_names: names cannot be both saved and offloaded: {sorted(both)}"
        )
    return _OffloadNames(saved, offloaded, Offload(offload_src, offload_dst))


def __dir__() -> list[str]:
    return sorted(__all__)
