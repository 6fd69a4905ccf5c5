# MLIR's own Python binding. effx emits text, and needs it to read portable artifacts back and to
# compile programs that call Python.
