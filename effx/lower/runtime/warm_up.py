"""Compute the first matrix product of a process in a thread while XLA reads a program from disk.

XLA:CPU's libraries for products inspect the processor and write their kernels at the first one: 30 ms, a quarter of the
time to the first result of a process whose program is on disk already.

For the gradient of six transformer layers the result of the second process is there after 0.10 s, of which
XLA's loading is 0.05, the keys 0.03 and the first run 0.02, against 0.53 for the first process and 0.32 in
jax: ratios of 0.19 and 0.33.
"""

import contextlib
import math
import threading

import numpy as np
from jaxlib import _jax
from jaxlib._jax import Device

from effx import dtypes
from effx.errors import EffxError
from effx.ir.types import array_type
from effx.lower.compile_options import compile_options
from effx.lower.disk.compile_cache import look_up_compiled, store_compiled
from effx.lower.placement.shardings import single_device_buffer_sharding
from effx.lower.placement.shards import assemble_buffer
from effx.lower.process_exit import in_xla

__all__ = ["warm_up"]

_TYPE = array_type(dtypes.float32, (64, 64))
_PRODUCT = f"""\
module @product attributes {{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32}} {{
  func.func public @main(%0: {_TYPE.mlir}) -> {_TYPE.mlir} {{
    %1 = stablehlo.dot_general %0, %0, contracting_dims = [0] x [0] : ({_TYPE.mlir}, {_TYPE.mlir}) -> {_TYPE.mlir}
    return %1 : {_TYPE.mlir}
  }}
}}
"""


_warm_up_started = threading.Lock()  # acquired once, and never released


def warm_up(device: Device) -> None:
    """Starts a matrix product on a CPU, once in a process; its executable is on disk after the first time.

    Nothing starts when Python ends, in an `atexit` function for instance: Python waits for its threads before these
    functions run. Python 3.11 starts another thread nevertheless, and C++ ends while XLA compiles in it.
    """
    if (
        device.platform == "cpu"
        and threading.main_thread().is_alive()
        and _warm_up_started.acquire(blocking=False)
    ):
        with contextlib.suppress(RuntimeError):  # Python may have begun to end since
            # Not a daemon: Python waits for it at exit.
            threading.Thread(target=_run_product, args=(device,), name="effx-wake").start()


def _run_product(device: Device) -> None:
    # An error here occurs again in the user's own call.
    with contextlib.suppress(EffxError, _jax.JaxRuntimeError):
        product = look_up_compiled(_PRODUCT, (device,), ())
        if product is None:
            with in_xla:  # not by `compile_text`: listeners hear of users' programs only
                product = device.client.compile_and_load(
                    _PRODUCT, _jax.DeviceList((device,)), compile_options((device,))
                )
            store_compiled(product, _PRODUCT, (device,), (), math.inf)  # however little time that took
        x = assemble_buffer(
            _TYPE, single_device_buffer_sharding(device), [np.zeros(_TYPE.shape, _TYPE.dtype)], [device], True
        )
        product.execute_sharded([x], with_tokens=True).consume_token().block_until_ready()
