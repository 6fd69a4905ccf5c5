# The dialects that jaxlib's programs are made of.

from jaxlib.mlir.ir import DialectRegistry

def register_dialects(registry: DialectRegistry) -> None: ...
