from . import cluster, fft, integrate, interpolate, linalg, ndimage, sparse, special
