"""The StableHLO emission rules of all operations; importing this package registers them."""

from effx.lower.text.stablehlo import (
    checkpoint,
    collective,
    control,
    custom,
    elementwise,
    index,
    linalg,
    parallel,
    random,
    reduce,
    shape,
    sharding,
    solve,
)
