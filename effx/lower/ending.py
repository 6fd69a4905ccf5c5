"""The end of the process: it waits for what XLA is computing.

C++ takes down the objects that XLA's threads use, whether these are at work or not. A process that ended with a
computation in flight could end by a fault of memory: one of ten did whose last work was the first product of matrices.
"""

import atexit
import contextlib
import os

from jaxlib import _jax

from effx.lower.compile_options import compile_options

__all__ = ["wait_at_the_end"]

_NOTHING = """\
module @last attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main() -> tensor<i1> {
    %0 = stablehlo.constant dense<true> : tensor<i1>
    return %0 : tensor<i1>
  }
}
"""


def wait_at_the_end(client: _jax.Client) -> None:
    """Has the process wait before it ends for what a client has been asked to compute."""
    atexit.register(_wait, client, os.getpid())


def _wait(client: _jax.Client, process: int) -> None:
    if os.getpid() != process:
        return  # a forked one, in which XLA has no threads
    with contextlib.suppress(_jax.JaxRuntimeError):  # whoever reads a result is told why there is none
        for buffer in client.live_arrays():
            with contextlib.suppress(_jax.JaxRuntimeError):
                buffer.block_until_ready()
        if client.platform == "cpu":
            # And what nobody holds the results of: XLA runs what a thread asks for in order.
            devices = (client.local_devices()[0],)
            last = client.compile_and_load(_NOTHING, _jax.DeviceList(devices), compile_options(devices))
            # A token, since jaxlib would import jax to make an array of the result.
            last.execute_sharded([], with_tokens=True).consume_token().block_until_ready()
