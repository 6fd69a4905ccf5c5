from . import (
    ad,
    ad_checkpoint,
    checkpoint_policies,
    compat,
    custom_batching,
    custom_derivatives,
    debug,
    distributed,
    dlpack,
    dtypes,
    effects,
    errors,
    example_libraries,
    experimental,
    export,
    ffi,
    flatten_util,
    handlers,
    handling,
    image,
    ir,
    laws,
    lax,
    library,
    memory,
    monitoring,
    nn,
    numpy,
    ops,
    profiler,
    random,
    ref,
    scipy,
    sharding,
    stages,
    test_util,
    tree,
    tree_util,
    typing,
)
from effx.ir.values.parameters import Size as Size
from effx.ir.values.array import Array as Array, Scalar as Scalar
from effx.array.windows import ds as ds
from effx.callbacks import effects_barrier as effects_barrier, pure_callback as pure_callback
from effx.caching import clear_caches as clear_caches
from effx.dtypes import float0 as float0
from effx.flags import (
    allow_f16_reductions as allow_f16_reductions,
    array_garbage_collection_guard as array_garbage_collection_guard,
    check_static_indices as check_static_indices,
    check_tracer_leaks as check_tracer_leaks,
    checking_leaks as checking_leaks,
    config as config,
    debug_infs as debug_infs,
    debug_key_reuse as debug_key_reuse,
    debug_nans as debug_nans,
    default_device as default_device,
    default_matmul_precision as default_matmul_precision,
    default_prng_impl as default_prng_impl,
    disable_jit as disable_jit,
    enable_checks as enable_checks,
    enable_custom_prng as enable_custom_prng,
    enable_x64 as enable_x64,
    explain_cache_misses as explain_cache_misses,
    explicit_x64_dtypes as explicit_x64_dtypes,
    legacy_prng_key as legacy_prng_key,
    log_compiles as log_compiles,
    make_user_context as make_user_context,
    no_execution as no_execution,
    no_tracing as no_tracing,
    numpy_dtype_promotion as numpy_dtype_promotion,
    numpy_rank_promotion as numpy_rank_promotion,
    thread_guard as thread_guard,
    threefry_partitionable as threefry_partitionable,
    transfer_guard as transfer_guard,
    transfer_guard_device_to_device as transfer_guard_device_to_device,
    transfer_guard_device_to_host as transfer_guard_device_to_host,
    transfer_guard_host_to_device as transfer_guard_host_to_device,
)
from effx.lower.placement.backends import default_backend as default_backend
from effx.lower.compile_options import CompilerEffortLevel as CompilerEffortLevel
from effx.lower.placement.shardings import Device as Device
from effx.transforms.autodiff.core import *
from effx.transforms.autodiff.checkpoint import checkpoint as checkpoint, remat as remat
from effx.transforms.custom.closures import *
from effx.transforms.jit.xla_computation import *
from effx.transforms.custom.custom_derivatives import *
from effx.transforms.autodiff.forward_backward import *
from effx.transforms.autodiff.gradients import *
from effx.transforms.autodiff.jacobians import *
from effx.transforms.jit.function import Jitted as Jitted
from effx.transforms.jit.jit import jit as jit
from effx.transforms.jit.options import Inline as Inline
from effx.tracing.name_scopes import *
from effx.ir.meshes import PartitionSpec as _PartitionSpec
from effx.lower.placement.shardings import NamedSharding as NamedSharding
from effx.transforms.placement.meshes import (
    get_abstract_mesh as get_abstract_mesh,
    get_mesh as get_mesh,
    make_mesh as make_mesh,
    reshard as reshard,
    set_mesh as set_mesh,
    use_abstract_mesh as use_abstract_mesh,
)
from effx.lower.placement.shards import Shard as Shard
from effx.transforms.placement.global_arrays import *
from effx.transforms.placement.device_put import *
from effx.transforms.maps.pmap import *
from effx.transforms.placement.processes import *
from effx.transforms.refs.ref import (
    Ref as Ref,
    empty_ref as empty_ref,
    free_ref as free_ref,
    freeze as freeze,
    new_ref as new_ref,
)
from effx.transforms.maps.shard_map import *
from effx.transforms.jit.stages import ShapeDtypeStruct as ShapeDtypeStruct
from effx.transforms.jit.make_jaxpr import *
from effx.transforms.maps.vmap import *
from effx.library.padding import mask as mask, shapecheck as shapecheck

P = _PartitionSpec
__version__: str
