from effx.distributed.group import (
    initialize as initialize,
    is_initialized as is_initialized,
    shutdown as shutdown,
)
