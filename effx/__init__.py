"""effx: an effect-handler functional core for numerical Python, fully typed, on XLA.

Never: load a submodule before it is used (PEP 562).
"""

import os

from effx import wiring as _wiring
from effx.lazy import lazy
from effx.version import __version__ as __version__

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # before anything loads jaxlib: no start-up chatter

__getattr__, __dir__ = lazy(__name__)

if os.environ.get("EFFX_COMPAT"):  # the user asks that `import jax` gives effx
    from effx.compat.start import start as _start

    _start()
