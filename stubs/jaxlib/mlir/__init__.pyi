# MLIR's own Python binding. effx emits text and needs it only to read portable artifacts back.
