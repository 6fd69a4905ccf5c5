"""Parameters of effx's operations by the names and in the form that JAX's primitives have them, and back.

What has no line here has the same parameters in both, or keeps effx's.

Interpreters of programs read them. There is a line only where an operation of effx's is one primitive of
JAX's; where they differ, as gathers do, there is no half of a form.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, final

import attrs

from effx.array.arithmetic import resolve_precision, resolve_preferred_dtype
from effx.compat.flat_trees import FlatTree, nones, pack
from effx.effects import Operation
from effx.errors import TransformError
from effx.ir.ops.control import Calling, While
from effx.ir.ops.custom import CustomCall
from effx.ir.ops.linalg import DotGeneral
from effx.ir.program import Equation, Program, Var
from effx.ir.types import ArrayType, array_type
from effx.lax.products import Precision
from effx.lower.placement.memories import MemorySpace

__all__ = ["made", "operands_of_effx", "operands_of_jax", "show_result_dtype", "shown"]

T = TypeVar("T")

Params = Mapping[str, Any]


def _unchanged_parameters(params: Params) -> Params:
    return params


@final
@attrs.frozen
class ParameterView:
    """How parameters are shown.

    Attributes:
        names: JAX's names by effx's, of those that are the same but for it.
        fixed: JAX's parameters that effx does not have, with the value that describes effx's behaviour.
        show: converts effx's other parameters to JAX's form. take: converts back; unknown ones are passed on.
    """

    names: Mapping[str, str] = attrs.field(factory=dict)
    fixed: Params = attrs.field(factory=dict)
    show: Callable[[Params], Params] = _unchanged_parameters
    take: Callable[[Params], Params] = _unchanged_parameters


def _drop_parameters(params: Params, *names: str) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name not in names}


def _show_unreduced(params: Params) -> Params:
    # Only where a sum is left to be taken, which JAX says by out_sharding.
    return params if params["unreduced"] else _drop_parameters(params, "unreduced")


def _show_product(params: Params) -> Params:
    precision = params["precision"]
    if precision == ("DEFAULT", "DEFAULT"):
        precision = None
    elif len(precision) == 2:
        precision = (Precision[precision[0]], Precision[precision[1]])
    contract = (params["lhs_contract"], params["rhs_contract"])
    return {
        "dimension_numbers": (contract, (params["lhs_batch"], params["rhs_batch"])),
        "precision": precision,
        "preferred_element_type": params["preferred"],
        **_show_unreduced({"unreduced": params["unreduced"]}),
    }


def _take_product(params: Params) -> Params:
    if "dimension_numbers" not in params:
        return params
    result = _drop_parameters(params, "dimension_numbers", "preferred_element_type")
    contract, batch = params["dimension_numbers"]
    result["lhs_contract"], result["rhs_contract"] = map(tuple, contract)
    result["lhs_batch"], result["rhs_batch"] = map(tuple, batch)
    result["precision"] = resolve_precision(params.get("precision"))
    result["preferred"] = resolve_preferred_dtype(params.get("preferred_element_type"))
    return result


def _show_padding(params: Params) -> Params:
    return {"padding_config": tuple(zip(params["low"], params["high"], params["interior"], strict=True))}


def _take_padding(params: Params) -> Params:
    if "padding_config" not in params:
        return params
    low, high, interior = (
        zip(*params["padding_config"], strict=True) if params["padding_config"] else ((), (), ())
    )
    return {**_drop_parameters(params, "padding_config"), "low": low, "high": high, "interior": interior}


def _show_slice(params: Params) -> Params:
    return {**params, "strides": None if set(params["strides"]) <= {1} else params["strides"]}


def _take_slice(params: Params) -> Params:
    starts = params.get("start", params.get("start_indices", ()))
    return {**params, "strides": (1,) * len(starts)} if params.get("strides") is None else params


def _show_count(params: Params) -> Params:
    return {"dtype": params["type"].dtype, "shape": params["type"].shape, "axis": params["axis"]}


def _take_count(params: Params) -> Params:
    if "shape" not in params:
        return params
    return {
        **_drop_parameters(params, "dtype", "shape"),
        "type": array_type(params["dtype"], tuple(params["shape"])),
    }


def _show_axis(params: Params) -> Params:
    return {**_drop_parameters(params, "axis"), "axes": (params["axis"],)}


def _take_axis(params: Params) -> Params:
    return {**_drop_parameters(params, "axes"), "axis": params["axes"][0]} if "axes" in params else params


def _show_scan(params: Params) -> Params:
    constants, carries, body = params["constants"], params["carries"], params["body"]
    sliced, stacked = len(body.inputs) - constants - carries, len(body.outputs) - carries
    return {
        **_drop_parameters(params, "constants", "carries"),
        "ft_in": pack((nones(constants), nones(carries), nones(sliced))),
        "ft_out": pack((nones(carries), nones(stacked))),
    }


def _take_scan(params: Params) -> Params:
    if "ft_in" not in params:
        return params
    for name, kind in (("ft_in", FlatTree), ("ft_out", FlatTree), ("reverse", bool), ("length", int)):
        if not isinstance(params[name], kind):
            raise TransformError(f"scan: {name} must be of type {kind.__name__}, got {params[name]!r}")
    constants, carries, _ = params["ft_in"].unpack()
    return {
        **_drop_parameters(params, "ft_in", "ft_out"),
        "constants": len(constants),
        "carries": len(carries),
    }


# JAX's loop has constants of its condition and constants of its body, effx's both together: they are shown twice.
def _show_while(params: Params) -> Params:
    n = params["constants"]
    return {
        **_drop_parameters(params, "constants"),
        "cond_nconsts": n,
        "body_nconsts": n,
    }


def _take_while(params: Params) -> Params:
    if "cond_nconsts" not in params:
        return params
    of_condition, of_body = params["cond_nconsts"], params["body_nconsts"]
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    if of_body:
        skipped = body.in_types[:of_body]
        condition = _insert_unused_inputs(condition, of_condition, skipped)
    if of_condition:
        body = _insert_unused_inputs(body, 0, params["cond_jaxpr"].in_types[:of_condition])
    return {
        **_drop_parameters(params, "cond_nconsts", "body_nconsts"),
        "cond_jaxpr": condition,
        "body_jaxpr": body,
        "constants": of_condition + of_body,
    }


@functools.lru_cache(maxsize=256)
def _insert_unused_inputs(program: Program, place: int, types: tuple[ArrayType, ...]) -> Program:
    unused = tuple([Var(t) for t in types])
    inputs = (*program.inputs[:place], *unused, *program.inputs[place:])
    return Program(inputs, program.equations, program.outputs, effects=program.effects, name=program.name)


def operands_of_jax(op: Operation[object], operands: tuple[T, ...]) -> tuple[T, ...]:
    """Returns the operands of an operation as JAX's primitive takes them."""
    return (*op.group_operands(operands).constants, *operands) if isinstance(op, While) else operands


def operands_of_effx(op: Operation[object], operands: tuple[T, ...]) -> tuple[T, ...]:
    """Returns the operands of an operation, from those of JAX's primitive."""
    n = op.constants if isinstance(op, While) else 0
    return operands[n:]


# A device's memories are two of JAX's spaces. What moves between others of its kinds keeps effx's form.
def _show_offload(params: Params) -> Params:
    if (params["src"], params["dst"]) != ("device", "pinned_host"):
        return params
    space = MemorySpace.Device if params["back"] else MemorySpace.Host
    return {"devices": (space,), "srcs": (None,)}


def _take_offload(params: Params) -> Params:
    if "devices" not in params:
        return params
    (space,) = params["devices"]
    if not isinstance(space, MemorySpace):
        raise TransformError(f"device_put: devices must be a memory space in programs, got {space!r}")
    return {"src": "device", "dst": "pinned_host", "back": space is MemorySpace.Device}


def _show_cond(params: Params) -> Params:
    return params if params["platforms"] else _drop_parameters(params, "platforms")


_ACCURATE = ParameterView(fixed={"accuracy": None})
_REDUCING = ParameterView(
    fixed={"out_sharding": None}, show=lambda params: _drop_parameters(params, "may_lose_nan")
)
_SUMMING = ParameterView(fixed={"out_sharding": None}, show=_show_unreduced)
_PICKING = ParameterView(show=_show_axis, take=_take_axis)
_WHOLE = {"sharding": None}

# By effx's names of the operations.
_VIEWS: Mapping[str, ParameterView] = {
    "argmax": _PICKING,
    "argmin": _PICKING,
    "bitcast": ParameterView({"dtype": "new_dtype"}),
    "broadcast_in_dim": ParameterView({"dims": "broadcast_dimensions"}, _WHOLE),
    "concatenate": ParameterView({"axis": "dimension"}),
    "convert": ParameterView({"dtype": "new_dtype", "weak": "weak_type"}, _WHOLE),
    "dot_general": ParameterView({}, {"out_sharding": None}, _show_product, _take_product),
    "dynamic_slice": ParameterView({"sizes": "slice_sizes"}),
    "integer_pow": ParameterView({"exponent": "y"}),
    "iota": ParameterView({"axis": "dimension"}, _WHOLE, _show_count, _take_count),
    "checkpoint_name": ParameterView({"label": "name"}),
    "offload": ParameterView({}, {}, _show_offload, _take_offload),
    "pad": ParameterView({}, {}, _show_padding, _take_padding),
    "qr": ParameterView({"full": "full_matrices"}, {"use_magma": None}),
    "reshape": ParameterView({"shape": "new_sizes"}, {"dimensions": None, "sharding": None}),
    "reverse": ParameterView({"axes": "dimensions"}),
    "scan": ParameterView({"body": "jaxpr"}, {}, _show_scan, _take_scan),
    "slice": ParameterView(
        {"start": "start_indices", "limit": "limit_indices"}, {}, _show_slice, _take_slice
    ),
    "sort": ParameterView({"axis": "dimension", "stable": "is_stable"}),
    "transpose": ParameterView({"perm": "permutation"}),
    "cond": ParameterView({"platforms": "branches_platforms"}, {}, _show_cond),
    "while": ParameterView({"body": "body_jaxpr", "condition": "cond_jaxpr"}, {}, _show_while, _take_while),
    "reduce_sum": _SUMMING,
    **dict.fromkeys(("reduce_max", "reduce_min"), _REDUCING),
    **dict.fromkeys(
        "cbrt cos exp exp2 expm1 log log1p logistic rsqrt sin sqrt tan tanh".split(),  # noqa: SIM905  read in one line
        _ACCURATE,
    ),
}
_CALL, _CUSTOM, _OTHER = (
    ParameterView({"program": "jaxpr"}),
    ParameterView({"program": "call_jaxpr"}),
    ParameterView(),
)


def _view(kind: type[Operation[object]]) -> ParameterView:
    if issubclass(kind, Calling):
        return _CUSTOM if kind is CustomCall else _CALL
    return _VIEWS.get(kind.name, _OTHER)


def shown(op: Operation[object]) -> dict[str, object]:
    """Returns the parameters of an operation of effx's as JAX has them.

    >>> from effx.handling.ops import Pad
    >>> shown(Pad((1,), (0,), (2,)))
    {'padding_config': ((1, 0, 2),)}
    """
    view = _view(type(op))
    own = {a.name: getattr(op, a.name) for a in getattr(type(op), "__attrs_attrs__", ())}
    return {**{view.names.get(name, name): value for name, value in view.show(own).items()}, **view.fixed}


def show_result_dtype(e: Equation, params: dict[str, object]) -> dict[str, object]:
    """Returns an equation's parameters with the dtype of a product's result, which JAX's products always name."""
    result_type = e.outputs[0].type if e.outputs else None
    if type(e.op) is not DotGeneral or e.op.preferred is not None or result_type is None or result_type.weak:
        return params
    return {**params, "preferred_element_type": result_type.dtype}


def made(kind: type[Operation[object]], params: Params) -> Any:
    """Returns the operation with parameters as JAX has them, or by effx's own names.

    Args:
        params: of programs, these and not views of them.

    Raises:
        TransformError: a parameter has a value that effx does not support.
        TypeError: the operation has no parameter of the name, or one is missing.

    >>> from effx.handling.ops import Pad
    >>> made(Pad, {"padding_config": ((1, 0, 2),)}) == made(Pad, {"low": (1,), "high": (0,), "interior": (2,)})
    True
    """
    view = _view(kind)
    for name, value in view.fixed.items():
        if params.get(name, value) is not value:
            raise TransformError(f"{kind.name}: {name} must be {value}, got {params[name]!r}")
    own = {as_shown: name for name, as_shown in view.names.items()}
    operation_parameters = view.take(_drop_parameters(params, *view.fixed))
    return kind(**{own.get(name, name): value for name, value in operation_parameters.items()})
