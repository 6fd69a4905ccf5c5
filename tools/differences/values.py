"""What the expressions of `expressions.py` are made of: arrays of NumPy, the same for both libraries.

Never: import effx or jax.
"""

import numpy as np

RNG = np.random.default_rng(7)

# Numbers at which functions have poles, ties and signs of zero.
F = np.array([-np.inf, -2.5, -1.0, -0.5, -0.0, 0.0, 1e-3, 0.5, 1.0, 2.0, 2.5, np.inf, np.nan], "f4")
F2 = np.array([1.0, -1.0, 2.0, 0.0, 0.0, -0.0, 1.0, 3.0, 1.0, -2.0, np.inf, np.inf, 1.0], "f4")
D = F.astype("f8")
H = np.array([-2.0, -0.5, 0.0, 0.25, 1.0, 3.0], "f2")
I = np.array([-7, -2, -1, 0, 1, 2, 3, 8], "i4")  # noqa: E741 - integers
I2 = np.array([2, 3, -4, 5, 1, -2, 3, 7], "i4")
I8 = np.array([-128, -3, 0, 1, 100, 127], "i1")
U = np.array([0, 1, 2, 3, 100, 200, 254, 255], "u1")
B = np.array([True, False, True, True, False, False, True, False])
B2 = np.array([True, True, False, True, False, True, False, False])
C = np.array([1 + 2j, -1.5j, 2.0, 0.5 - 0.25j, -3 + 0j, 1e-3j], "c8")
C2 = np.array([2 - 1j, 1.5, 1j, -0.5 - 0.25j, 1 + 0j, 2.0], "c8")
# Ordinary numbers.
G = np.array([0.1, 0.3, 0.45, 0.6, 0.9], "f4")
G2 = np.array([0.7, 0.2, 0.35, 0.8, 0.4], "f4")
P = np.array([0.5, 1.5, 2.25, 3.0, 7.5], "f4")
P2 = np.array([2.0, 0.75, 1.5, 4.0, 3.0], "f4")
Z = np.float32(1.5)
N = np.int32(3)
# Matrices, higher ranks, and arrays of size 0 and 1.
M = RNG.normal(size=(3, 4)).astype("f4").round(3)
M2 = RNG.normal(size=(3, 4)).astype("f4").round(3)
MI = RNG.integers(-5, 6, (3, 4)).astype("i4")
MB = RNG.random((3, 4)) > 0.4
MC = (RNG.normal(size=(3, 4)) + 1j * RNG.normal(size=(3, 4))).astype("c8").round(3)
MN = np.where(MB, M, np.nan).astype("f4")
T = RNG.normal(size=(2, 3, 4)).astype("f4").round(3)
A = RNG.normal(size=(4, 4)).astype("f4").round(3)
S = (A @ A.T + 4 * np.eye(4)).astype("f4")
AC = (RNG.normal(size=(4, 4)) + 1j * RNG.normal(size=(4, 4))).astype("c8").round(3)
E = np.zeros((0, 3), "f4")
E1 = np.zeros(0, "f4")
EI = np.zeros(0, "i4")
O = np.ones((1, 1), "f4")  # noqa: E741 - one element
V = np.arange(24.0, dtype="f4").reshape(2, 3, 4)
X = np.array([3, 1, 4, 1, 5, 9, 2, 6], "i4")
W = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0], "f4")
