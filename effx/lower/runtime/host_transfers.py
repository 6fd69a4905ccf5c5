"""Calls of Python functions from programs for TPUs, which send operands to the host and receive results from it.

Each array has a channel of its own. A token orders the transfers within one function or region of the text; between
them what effects depend on does.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from jaxlib import _jax
from jaxlib._hlo import Shape

from effx import dtypes
from effx.ir.ops.host import Hosted
from effx.ir.types import ArrayType, array_type
from effx.ir.values.described import HostData
from effx.lower.text.emit import HostedCall

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

    from effx.lower.text.emit import Body

__all__ = ["emit_transfers", "make_receiver"]

# Collectives have channel 1; XLA's kinds of channels from a device to the host, and back.
FIRST_CHANNEL = 2
TO_HOST, FROM_HOST = 2, 3
TOKEN = "!stablehlo.token"
# A call sends and receives something at least: this number where there are no operands, or no results.
PLACEHOLDER = array_type(dtypes.float32)


def emit_transfers(
    body: "Body", op: Hosted, names: Sequence[str], types: Sequence[ArrayType], results: Sequence[ArrayType]
) -> tuple[str, ...]:
    """Writes the transfers of a call of the host; returns the names of its results.

    Args:
        body: the function under construction.
        op: the operation that runs on the host.
        names, types: of its operands.
        results: the types of its results.
    """
    module = body.module
    sent = list(zip(names, types, strict=True)) or [(body.constant(0, PLACEHOLDER), PLACEHOLDER)]
    received = list(results) or [PLACEHOLDER]
    first = FIRST_CHANNEL + sum([sum(map(len, call.channels)) for call in module.hosted])
    to_host = tuple(range(first, first + len(sent)))
    from_host = tuple(range(first + len(sent), first + len(sent) + len(received)))
    module.hosted.append(HostedCall(op, tuple(types), tuple(results), (to_host, from_host)))
    token = body.token or body.line(f"stablehlo.create_token : {TOKEN}")
    for channel, (name, t) in zip(to_host, sent, strict=True):
        token = body.line(
            f'"stablehlo.send"({name}, {token}) {_attributes(body, channel, TO_HOST, 1)} : '
            f"({t.mlir}, {TOKEN}) -> {TOKEN}"
        )
    names_of_results: list[str] = []
    for channel, t in zip(from_host, received, strict=True):
        name, token = body.block(
            f'"stablehlo.recv"({token}) {_attributes(body, channel, FROM_HOST, 2)} : ({TOKEN}) -> ({t.mlir}, {TOKEN})',
            2,
        )
        names_of_results.append(name)
    body.token = token
    return tuple(names_of_results[: len(results)])


def _attributes(body: "Body", channel: int, kind: int, results: int) -> str:
    """Returns the attributes of a transfer; the first of several devices does it, outside of parallel maps."""
    module = body.module
    sharding = ""
    if module.devices > 1 and not module.axes:
        module.on_first = True
        shardings = ", ".join(["<@one, []>"] * results)
        sharding = f", sdy.sharding = #sdy.sharding_per_value<[{shardings}]>"
    return (
        f"<{{channel_handle = #stablehlo.channel_handle<handle = {channel}, type = {kind}>, is_host_transfer = true}}> "
        f'{{mhlo.frontend_attributes = {{_xla_host_transfer_handler_name = "pjrt_rendezvous", '
        f'_xla_host_transfer_rendezvous = "{channel}"}}{sharding}}}'
    )


def make_receiver(
    client: _jax.Client, call: HostedCall, function: Callable[..., tuple[HostData, ...]]
) -> "CapsuleType":
    """Returns what a TPU's client runs at the transfers of a call.

    Args:
        client: the TPU's.
        call: with the channels.
        function: of what is sent; it returns what is received.
    """
    operands, results = [
        [Shape.array_shape(np.dtype(t.dtype), t.shape) for t in types or (PLACEHOLDER,)]
        for types in (call.in_types, call.out_types)
    ]
    receiver = client.make_python_callback_from_host_send_and_recv(
        function, operands, results, *call.channels
    )
    return cast("CapsuleType", receiver)  # nanobind says object
