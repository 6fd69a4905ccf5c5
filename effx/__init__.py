"""effx: an effect-handler functional core for numerical Python, fully typed, on XLA.

Never: load a submodule before it is used (PEP 562).
"""

import importlib
import os
from typing import TYPE_CHECKING

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # before anything loads jaxlib: no start-up chatter

if TYPE_CHECKING:
    from effx import ad_checkpoint as ad_checkpoint
    from effx import checkpoint_policies as checkpoint_policies
    from effx import custom_batching as custom_batching
    from effx import custom_derivatives as custom_derivatives
    from effx import dlpack as dlpack
    from effx import dtypes as dtypes
    from effx import effects as effects
    from effx import errors as errors
    from effx import handling as handling
    from effx import lax as lax
    from effx import library as library
    from effx import nn as nn
    from effx import numpy as numpy
    from effx import random as random
    from effx import test_util as test_util
    from effx import tree as tree
    from effx import tree_util as tree_util
    from effx.array.parameters import Size as Size
    from effx.array.values import Array as Array
    from effx.array.values import Scalar as Scalar
    from effx.flags import config as config
    from effx.flags import default_matmul_precision as default_matmul_precision
    from effx.flags import disable_jit as disable_jit
    from effx.flags import enable_checks as enable_checks
    from effx.flags import enable_x64 as enable_x64
    from effx.flags import log_compiles as log_compiles
    from effx.flags import numpy_dtype_promotion as numpy_dtype_promotion
    from effx.flags import numpy_rank_promotion as numpy_rank_promotion
    from effx.flags import threefry_partitionable as threefry_partitionable
    from effx.lower.backends import default_backend as default_backend
    from effx.lower.sharding import Device as Device
    from effx.transforms.autodiff import jvp as jvp
    from effx.transforms.autodiff import linear_transpose as linear_transpose
    from effx.transforms.autodiff import linearize as linearize
    from effx.transforms.autodiff import vjp as vjp
    from effx.transforms.checkpoint import checkpoint as checkpoint
    from effx.transforms.checkpoint import remat as remat
    from effx.transforms.closures import closure_convert as closure_convert
    from effx.transforms.custom_derivatives import custom_gradient as custom_gradient
    from effx.transforms.custom_derivatives import custom_jvp as custom_jvp
    from effx.transforms.custom_derivatives import custom_vjp as custom_vjp
    from effx.transforms.forward_backward import fwd_and_bwd as fwd_and_bwd
    from effx.transforms.gradients import grad as grad
    from effx.transforms.gradients import value_and_grad as value_and_grad
    from effx.transforms.jacobians import hessian as hessian
    from effx.transforms.jacobians import jacfwd as jacfwd
    from effx.transforms.jacobians import jacobian as jacobian
    from effx.transforms.jacobians import jacrev as jacrev
    from effx.transforms.jit import Jitted as Jitted
    from effx.transforms.jit import jit as jit
    from effx.transforms.naming import named_call as named_call
    from effx.transforms.naming import named_scope as named_scope
    from effx.transforms.placement import block_until_ready as block_until_ready
    from effx.transforms.placement import device_count as device_count
    from effx.transforms.placement import device_get as device_get
    from effx.transforms.placement import device_put as device_put
    from effx.transforms.placement import device_put_replicated as device_put_replicated
    from effx.transforms.placement import device_put_sharded as device_put_sharded
    from effx.transforms.placement import devices as devices
    from effx.transforms.placement import local_device_count as local_device_count
    from effx.transforms.placement import local_devices as local_devices
    from effx.transforms.pmap import pmap as pmap
    from effx.transforms.stages import ShapeDtypeStruct as ShapeDtypeStruct
    from effx.transforms.staging import eval_shape as eval_shape
    from effx.transforms.staging import make_jaxpr as make_jaxpr
    from effx.transforms.staging import stage as stage
    from effx.transforms.vmap import vmap as vmap

__version__ = "0.1.0"

# Where each public name lives.
_HOME = {
    "Array": "effx.array.values",
    "Device": "effx.lower.sharding",
    "Jitted": "effx.transforms.jit",
    "Scalar": "effx.array.values",
    "ShapeDtypeStruct": "effx.transforms.stages",
    "Size": "effx.array.parameters",
    "block_until_ready": "effx.transforms.placement",
    "checkpoint": "effx.transforms.checkpoint",
    "closure_convert": "effx.transforms.closures",
    "config": "effx.flags",
    "custom_gradient": "effx.transforms.custom_derivatives",
    "custom_jvp": "effx.transforms.custom_derivatives",
    "custom_vjp": "effx.transforms.custom_derivatives",
    "default_backend": "effx.lower.backends",
    "default_matmul_precision": "effx.flags",
    "device_count": "effx.transforms.placement",
    "device_get": "effx.transforms.placement",
    "device_put": "effx.transforms.placement",
    "device_put_replicated": "effx.transforms.placement",
    "device_put_sharded": "effx.transforms.placement",
    "devices": "effx.transforms.placement",
    "disable_jit": "effx.flags",
    "enable_checks": "effx.flags",
    "enable_x64": "effx.flags",
    "eval_shape": "effx.transforms.staging",
    "fwd_and_bwd": "effx.transforms.forward_backward",
    "grad": "effx.transforms.gradients",
    "hessian": "effx.transforms.jacobians",
    "jacfwd": "effx.transforms.jacobians",
    "jacobian": "effx.transforms.jacobians",
    "jacrev": "effx.transforms.jacobians",
    "jit": "effx.transforms.jit",
    "jvp": "effx.transforms.autodiff",
    "linear_transpose": "effx.transforms.autodiff",
    "linearize": "effx.transforms.autodiff",
    "local_device_count": "effx.transforms.placement",
    "local_devices": "effx.transforms.placement",
    "log_compiles": "effx.flags",
    "make_jaxpr": "effx.transforms.staging",
    "named_call": "effx.transforms.naming",
    "named_scope": "effx.transforms.naming",
    "numpy_dtype_promotion": "effx.flags",
    "numpy_rank_promotion": "effx.flags",
    "pmap": "effx.transforms.pmap",
    "remat": "effx.transforms.checkpoint",
    "stage": "effx.transforms.staging",
    "threefry_partitionable": "effx.flags",
    "value_and_grad": "effx.transforms.gradients",
    "vjp": "effx.transforms.autodiff",
    "vmap": "effx.transforms.vmap",
}
_MODULES = {
    "custom_batching",
    "custom_derivatives",
    "ad_checkpoint",
    "checkpoint_policies",
    "dlpack",
    "dtypes",
    "effects",
    "errors",
    "handlers",
    "handling",
    "ir",
    "laws",
    "lax",
    "library",
    "nn",
    "numpy",
    "random",
    "test_util",
    "tree",
    "tree_util",
}
_PERFORMING = {
    "custom_batching",
    "custom_derivatives",
    "handling",
    "laws",
    "lax",
    "library",
    "nn",
    "numpy",
    "random",
    "test_util",
}

__all__ = sorted([*_HOME, *_MODULES, "__version__"])  # noqa: PLE0605 - a list of strings, computed


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is not None:
        # The outermost handler must be in place before anything can be performed.
        importlib.import_module("effx.handlers.evaluate")
        value = globals()[name] = getattr(importlib.import_module(home), name)
        return value
    if name in _MODULES:
        # The layers below the handlers are imported by them, so they must not wait for them.
        if name in _PERFORMING:
            importlib.import_module("effx.handlers.evaluate")
        return importlib.import_module(f"effx.{name}")
    raise AttributeError(f"module 'effx' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
