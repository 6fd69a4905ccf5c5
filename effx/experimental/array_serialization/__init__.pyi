from . import pytree_serialization, serialization
from effx.experimental.array_serialization.pytree_serialization import *
