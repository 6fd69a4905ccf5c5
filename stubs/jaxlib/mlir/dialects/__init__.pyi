# Dialects of MLIR.
