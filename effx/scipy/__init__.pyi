from . import cluster, fft, integrate, interpolate, linalg, ndimage, optimize, sparse, spatial, special
