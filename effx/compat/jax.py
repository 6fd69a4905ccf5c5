"""`import effx.compat.jax`: from here on `import jax` gives effx.

It must come before anything imports jax. The module is itself what `import jax` gives.
"""

import sys

from effx.compat.finder import install

install()

sys.modules[__name__] = __import__("jax")
