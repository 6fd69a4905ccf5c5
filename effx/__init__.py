"""effx: an effect-handler functional core for numerical Python, fully typed, on XLA.

Never: load a submodule before it is used (PEP 562).
"""

import os
from importlib import import_module

from effx.lazy import lazy

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # before anything loads jaxlib: no start-up chatter

__version__ = "0.1.0"
__getattr__, __dir__ = lazy(__name__)

if os.environ.get("EFFX_COMPAT"):  # the user asks that `import jax` gives effx
    import_module("effx.compat.start").start()
