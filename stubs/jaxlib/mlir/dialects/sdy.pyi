# Shardy: how arrays lie on devices.

from jaxlib.mlir.ir import Context

def register_dialect(context: Context, load: bool = True) -> None: ...
