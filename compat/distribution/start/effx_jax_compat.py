"""What `EFFX_COMPAT=1` does when Python starts: `import effx` reads the variable and installs the hook.

A program that cannot have what it was started for does not start: site, which runs this, would only print an
exception, and the program would go on with another jax or none.
"""

import os
import sys

try:
    import effx  # noqa: F401
except (ImportError, ValueError) as error:
    print(f"EFFX_COMPAT={os.environ['EFFX_COMPAT']}: {error}", file=sys.stderr, flush=True)
    os._exit(1)  # sys.exit here would print Python's own frames of its start over the message
