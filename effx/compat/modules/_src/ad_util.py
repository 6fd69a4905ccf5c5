"""`jax._src.ad_util`: lineax imports `stop_gradient_p`."""

from effx.compat.primitives import primitive_named
from effx.compat.symbolic import Zero
from effx.compat.symbolic import instantiate_zeros as instantiate

__all__ = ["Zero", "instantiate", "stop_gradient_p"]

stop_gradient_p = primitive_named("stop_gradient")
