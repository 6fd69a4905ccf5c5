"""Functions for neural networks: activations, the softmax family, codes for inputs, initializers.

Never: keep parameters; they are arguments.
"""

# Each of these names would get lines of its own.
# fmt: off
# isort: off
from typing import TYPE_CHECKING

from effx.lazy import lazy

if TYPE_CHECKING:
    from effx.nn import initializers as initializers
    from effx.nn.activations import (
        celu as celu, elu as elu, gelu as gelu, glu as glu, hard_sigmoid as hard_sigmoid, hard_silu as
        hard_silu, hard_swish as hard_swish, hard_tanh as hard_tanh, leaky_relu as leaky_relu,
        log_sigmoid as log_sigmoid, mish as mish, relu as relu, relu6 as relu6, selu as selu, sigmoid as
        sigmoid, silu as silu, soft_sign as soft_sign, softplus as softplus, squareplus as squareplus,
        swish as swish, tanh as tanh,
    )
    from effx.nn.encoding import (
        one_hot as one_hot, standardize as standardize,
    )
    from effx.nn.exponentials import (
        log_softmax as log_softmax, logsumexp as logsumexp, softmax as softmax,
    )

__getattr__, __all__ = lazy(
    __name__,
    {
        "activations": (
            "celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid mish "
            "relu relu6 selu sigmoid silu soft_sign softplus squareplus swish tanh"
        ),
        "encoding": "one_hot standardize",
        "exponentials": "log_softmax logsumexp softmax",
    },
    public=("initializers",),
)
