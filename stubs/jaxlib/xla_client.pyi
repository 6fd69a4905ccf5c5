# The older door to jaxlib: names of jaxlib._jax and jaxlib._hlo, and a registry of custom calls.

import enum
from collections.abc import Callable, Mapping
from typing import Protocol

from jaxlib._hlo import HloSharding as HloSharding
from jaxlib._hlo import Layout as Layout
from jaxlib._hlo import OpSharding as OpSharding
from jaxlib._hlo import PrimitiveType as PrimitiveType
from jaxlib._hlo import ProgramShape as ProgramShape
from jaxlib._hlo import Shape as Shape
from jaxlib._hlo import XlaComputation as XlaComputation
from jaxlib._jax import Array as Array
from jaxlib._jax import ArrayCopySemantics as ArrayCopySemantics
from jaxlib._jax import ArrayImpl as ArrayImpl
from jaxlib._jax import Client as Client
from jaxlib._jax import CompileOptions as CompileOptions
from jaxlib._jax import CpuCollectives as _CpuCollectives
from jaxlib._jax import Device as Device
from jaxlib._jax import DeviceAssignment as DeviceAssignment
from jaxlib._jax import DeviceList as DeviceList
from jaxlib._jax import DeviceTopology as DeviceTopology
from jaxlib._jax import DistributedRuntimeClient as _DistributedRuntimeClient
from jaxlib._jax import Executable as Executable
from jaxlib._jax import Frame as Frame
from jaxlib._jax import GSPMDSharding as GSPMDSharding
from jaxlib._jax import HostBufferSemantics as HostBufferSemantics
from jaxlib._jax import JaxRuntimeError as _JaxRuntimeError
from jaxlib._jax import LoadedExecutable as LoadedExecutable
from jaxlib._jax import Memory as Memory
from jaxlib._jax import PjRtLayout as PjRtLayout
from jaxlib._jax import Sharding as Sharding
from jaxlib._jax import SingleDeviceSharding as SingleDeviceSharding
from jaxlib._jax import Traceback as Traceback
from jaxlib._jax import TransferServerInterfaceFactory as _TransferServerInterfaceFactory
from jaxlib._jax import array_result_handler as array_result_handler
from jaxlib._jax import batched_block_until_ready as batched_block_until_ready
from jaxlib._jax import (
    batched_copy_array_to_devices_with_sharding as batched_copy_array_to_devices_with_sharding,
)
from jaxlib._jax import batched_device_put as batched_device_put
from jaxlib._jax import check_and_canonicalize_memory_kind as check_and_canonicalize_memory_kind
from jaxlib._jax import custom_call_targets as custom_call_targets
from jaxlib._jax import get_topology_for_devices as get_topology_for_devices
from jaxlib._jax import hlo_sharding_util as hlo_sharding_util
from jaxlib._jax import ifrt_programs as ifrt_programs
from jaxlib._jax import register_custom_call_partitioner as register_custom_call_partitioner
from jaxlib._jax import reorder_shards as reorder_shards
from typing_extensions import CapsuleType

XlaRuntimeError = _JaxRuntimeError

_version: int
_ifrt_version: int
xla_platform_names: dict[str, str]

class CustomCallTargetTraits(enum.IntFlag):
    DEFAULT = 0
    COMMAND_BUFFER_COMPATIBLE = 1

class CustomCallHandler(Protocol):
    def __call__(
        self,
        name: str,
        fn: CapsuleType | dict[str, CapsuleType] | Callable[..., object],
        platform: str,
        /,
        api_version: int = ...,
        traits: CustomCallTargetTraits = ...,
    ) -> None: ...

def make_cpu_client(
    asynchronous: bool = True,
    distributed_client: _DistributedRuntimeClient | None = None,
    node_id: int = 0,
    num_nodes: int = 1,
    collectives: _CpuCollectives | None = None,
    num_devices: int | None = None,
    get_local_topology_timeout_minutes: int | None = None,
    get_global_topology_timeout_minutes: int | None = None,
    transfer_server_factory: _TransferServerInterfaceFactory | None = None,
) -> Client: ...
def make_c_api_client(
    plugin_name: str,
    options: Mapping[str, str | int | list[int] | float | bool] | None = None,
    distributed_client: _DistributedRuntimeClient | None = None,
    transfer_server_factory: _TransferServerInterfaceFactory | None = None,
    force_dcn_cross_host_transfers: bool = False,
    sort_devices_by_process_index: bool = True,
) -> Client: ...
def make_c_api_device_topology(
    c_api: CapsuleType, topology_name: str = "", **kwargs: object
) -> DeviceTopology: ...
def make_tfrt_tpu_c_api_device_topology(topology_name: str = "", **kwargs: object) -> DeviceTopology: ...
def pjrt_plugin_loaded(plugin_name: str) -> bool: ...
def pjrt_plugin_initialized(plugin_name: str) -> bool: ...
def initialize_pjrt_plugin(plugin_name: str) -> None: ...
def load_pjrt_plugin_dynamically(plugin_name: str, library_path: str) -> CapsuleType: ...
def load_pjrt_plugin_with_c_api(plugin_name: str, c_api: CapsuleType) -> None: ...
def generate_pjrt_gpu_plugin_options() -> Mapping[str, str | int | list[int] | float | bool]: ...
def register_custom_call_target(
    name: str,
    fn: CapsuleType | dict[str, CapsuleType] | Callable[..., object],
    platform: str = "cpu",
    api_version: int = 0,
    traits: CustomCallTargetTraits = ...,
) -> None: ...
def register_custom_call_handler(platform: str, handler: CustomCallHandler) -> None: ...
def register_custom_type(
    type_name: str, type_id: CapsuleType | dict[str, CapsuleType], platform: str = "cpu"
) -> None: ...
def execution_stream_id(new_id: int) -> _ExecutionStream: ...

class _ExecutionStream(Protocol):
    def __enter__(self) -> None: ...
    def __exit__(self, *args: object) -> bool | None: ...
