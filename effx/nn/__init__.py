"""Functions for neural networks: activations, the softmax family, encodings of inputs, initializers."""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
