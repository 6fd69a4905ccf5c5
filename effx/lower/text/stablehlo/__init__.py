"""How each operation looks in StableHLO text; importing this package registers all rules."""

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
