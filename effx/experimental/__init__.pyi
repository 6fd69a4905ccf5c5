from . import (
    array_serialization,
    checkify,
    jet,
    layout,
    multihost_utils,
    ode,
    rnn,
    serialize_executable,
    sparse,
    topologies,
)
from effx.callbacks import io_callback as io_callback
