"""Signals: convolution, trends and spectra, named as in `jax.scipy.signal`."""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
