from . import jet, ode, sparse
from effx.callbacks import io_callback as io_callback
