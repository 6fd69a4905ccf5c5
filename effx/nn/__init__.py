"""Functions for neural networks: activations, the softmax family, codes for inputs, initializers.

Never: keep parameters; they are arguments.
"""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
