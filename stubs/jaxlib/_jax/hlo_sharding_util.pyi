# Arithmetic on HLO shardings.

from collections.abc import Sequence

from jaxlib import _hlo

def PartiallyReplicateTiledShardingOnDims(
    sharding: _hlo.HloSharding, dims: Sequence[int], /
) -> _hlo.HloSharding: ...
