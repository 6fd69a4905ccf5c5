"""The Threefry cipher in NumPy."""

import numpy as np

from effx.handlers.oracle.handler import Data, rule
from effx.ir.ops.random import Threefry2x32

# Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011:
# the rotation distances of round d mod 8 (table 2), and the constant C240 for 32-bit words.
ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
C240 = np.uint32(0x1BD11BDA)


@rule(Threefry2x32)
def threefry2x32(op: Threefry2x32, k0: Data, k1: Data, x0: Data, x1: Data) -> tuple[Data, Data]:
    k0, k1, x0, x1 = np.broadcast_arrays(k0, k1, x0, x1)
    key = [k0, k1, k0 ^ k1 ^ C240]
    x0, x1 = x0 + key[0], x1 + key[1]
    for d in range(20):
        x0 = x0 + x1
        by = np.uint32(ROTATIONS[d % 8])
        x1 = (x1 << by | x1 >> (np.uint32(32) - by)) ^ x0
        if d % 4 == 3:
            s = d // 4 + 1
            x0 = x0 + key[s % 3]
            x1 = x1 + key[(s + 1) % 3] + np.uint32(s)
    return np.asarray(x0), np.asarray(x1)
