"""Expressions of functions of effx.numpy, by the module of the function: what NumPy gives too, and what is refused."""

from __future__ import annotations

from tests.numpy.expressions import rows

VALUES = [
    # applying
    *rows(
        "xp.apply_along_axis(xp.sum, 0, T); xp.apply_along_axis(xp.cumsum, 1, T); "
        "xp.apply_along_axis(lambda v: xp.outer(v, v), -2, T); "
        "xp.apply_along_axis(lambda v, k: v[:k], 2, T, 2); xp.apply_over_axes(xp.sum, T, (0, 2)); "
        "xp.apply_over_axes(xp.sum, T, [1]); xp.apply_over_axes(xp.cumsum, T, [1]); "
        "xp.piecewise(A, [A<0, A>=1], [lambda v:-v, 10.0]); "
        "xp.piecewise(A, [A<0, A>=1], [lambda v:-v, 10.0, lambda v: v*2]); xp.piecewise(V, V>2, [1, 2]); "
        "xp.piecewise(J, [J<2], [2.7]); xp.piecewise(A, [A<0], [lambda v, k:v*k], 5); "
        "xp.piecewise(V, [V>2, V>4], [1, 2, 3])"
    ),
    # fft
    *rows(
        "xp.fft.fft(V); xp.fft.fft(A); xp.fft.fft(A, axis=0); xp.fft.fft(A, 2); "
        "xp.fft.fft(A, 7, 0, 'ortho'); xp.fft.fft(C, norm='forward'); xp.fft.fft(J); xp.fft.ifft(C); "
        "xp.fft.ifft(V, 4, norm='forward'); xp.fft.rfft(V); xp.fft.rfft(T, axis=1); "
        "xp.fft.rfft(V, 8, norm='ortho'); xp.fft.irfft(C); xp.fft.irfft(C, 5); xp.fft.irfft(C, 3, 0); "
        "xp.fft.irfft(C, norm='ortho'); xp.fft.irfft(V); xp.fft.hfft(C); xp.fft.hfft(C, 5, norm='ortho'); "
        "xp.fft.ihfft(V); xp.fft.ihfft(A, 4, norm='forward'); xp.fft.fft2(T); xp.fft.fft2(T, (3, 5)); "
        "xp.fft.fft2(T, axes=(0, 1), norm='ortho'); xp.fft.ifft2(T); xp.fft.rfft2(T); xp.fft.irfft2(T); "
        "xp.fft.irfft2(C, (2, 5)); xp.fft.fftn(T); xp.fft.fftn(T, axes=(0, 2)); xp.fft.ifftn(T, (2, 2, 2)); "
        "xp.fft.rfftn(T); xp.fft.rfftn(T, (2, 3)); xp.fft.irfftn(T); xp.fft.irfftn(T, axes=(1, 0)); "
        "xp.fft.fftn(T.reshape(1, 2, 3, 2, 2)); xp.fft.rfftn(T.reshape(1, 2, 3, 2, 2)); "
        "xp.fft.irfftn(T.reshape(1, 2, 3, 2, 2)); xp.fft.rfft2(T, axes=(2, 0)); xp.fft.fftfreq(5); "
        "xp.fft.fftfreq(4, 0.5); xp.fft.rfftfreq(5); xp.fft.rfftfreq(6, 2.); xp.fft.fftshift(V); "
        "xp.fft.fftshift(T, (0, 2)); xp.fft.ifftshift(V); xp.fft.ifftshift(T); xp.fft.fftshift(T, 1); "
        "xp.fft.fft(np.zeros((0, 4))); xp.fft.fft(np.float16([1, 2])); xp.fft.fft(np.zeros((3, 1))); "
        "xp.fft.irfft(np.zeros((3, 1)), 1)"
    ),
    # logic
    *rows("xp.iscomplex(C); xp.isreal(C); xp.iscomplex(x=A); xp.isreal(x=I)"),
    # padding
    *rows(
        "xp.pad(J, (7, 9), 'reflect', reflect_type='odd'); xp.pad(A, 2, 'symmetric', reflect_type='odd'); "
        "xp.pad(A, (9, 8), 'symmetric', reflect_type='odd'); xp.pad(V[:1], 2, 'reflect', reflect_type='odd'); "
        "xp.pad(A, 2, 'linear_ramp'); xp.pad(A, (0, 3), 'linear_ramp', end_values=(2, 7)); "
        "xp.pad(J, 2, 'linear_ramp', end_values=9); xp.pad(A, 2, 'maximum'); xp.pad(A, 1, 'minimum', stat_length=2); "
        "xp.pad(J, 2, 'mean'); xp.pad(A, (1, 2), 'mean', stat_length=((1, 2), (2, 9))); xp.pad(A, 1, 'median'); "
        "xp.pad(A, 0, 'mean')"
    ),
    # files
    *rows(
        r'xp.frombuffer(b"\x01\x02\x03\x04", dtype=np.uint8); '
        r'xp.frombuffer(b"\x01\x02\x03\x04", np.int16, 1, 2); xp.fromstring("1 2 3", dtype=int, sep=" ")'
    ),
    # filtering
    *rows(
        "xp.convolve(V, B); xp.convolve(B, V); xp.convolve(V, B, 'same'); xp.convolve(B, V, 'same'); "
        "xp.convolve(V, B[:2], 'same'); xp.convolve(B[:2], V, 'same'); xp.convolve(B, V, 'valid'); "
        "xp.convolve(V, B, 'valid'); xp.convolve(C[0], C[1]); xp.convolve(J, J); xp.convolve(J, B); "
        "xp.correlate(V, B); xp.correlate(B, V); xp.correlate(V, B, 'full'); xp.correlate(B, V, 'full'); "
        "xp.correlate(V, B, 'same'); xp.correlate(B, V, 'same'); xp.correlate(V, B[:2], 'same'); "
        "xp.correlate(B[:2], V, 'same'); xp.correlate(C[0], C[1], 'full'); "
        "xp.correlate(C[0, :2], C[1], 'full'); xp.bartlett(7); xp.bartlett(1); xp.bartlett(0); "
        "xp.blackman(7); xp.blackman(1); xp.hamming(6); xp.hamming(0); xp.hanning(5); xp.hanning(2)"
    ),
    # floats
    *rows(
        "xp.frexp(A); xp.frexp(I); xp.ldexp(A, 3); xp.ldexp(B, J); "
        "xp.ldexp(np.float32([1e30, 1e-30, 1]), np.int32([100, -100, 0])); xp.ldexp(I, 2); "
        "xp.ldexp(np.float32(1), -149); xp.ldexp(np.float32(3e38), -270); xp.ldexp(np.float32(1), 500); "
        "xp.frexp(np.float16([1, 2.5, 6e-8])); xp.modf(A); "
        "xp.modf(np.float32([np.inf, -np.inf, np.nan, -0., -2])); xp.modf(I); xp.spacing(A); "
        "xp.spacing(np.float32([0, -0., 1e38, np.inf, np.nan])); xp.modf(2.5); xp.ldexp(2.5, 2)"
    ),
    # grids
    *rows(
        "xp.ix_(J, J[:2]); xp.ix_(np.array([True, False, True]), J); xp.diag_indices_from(np.zeros((3, 3))); "
        "xp.mask_indices(3, xp.tril); xp.mask_indices(3, xp.triu, 1); "
        "xp.r_[np.array([1, 2, 3]), 0, 0, np.array([4, 5])]; xp.r_[-1:1:3j, [0]*3, 5]; "
        "xp.r_['0, 2, 0', [1, 2], [3, 4]]; xp.r_['1, 2, 0', [1, 2], [3, 4]]; xp.r_['0, 2', [1, 2], [3, 4]]; "
        "xp.r_['r', [1, 2], [3]]; xp.r_['c', [1, 2], [3]]; xp.c_[[1, 2], [3, 4]]; "
        "xp.c_[np.ones((2, 2)), np.zeros((2, 1))]; xp.mgrid[0:2, 0:3:2j]; xp.ogrid[0:2, 0:3]; xp.r_[0:3, 7]; "
        "xp.c_[1:3]; xp.r_['-1', [[1, 2]], [[3, 4]]]; xp.r_['0, 3, -1', [1, 2]]; xp.r_['0, 3, 1', [1, 2]]; "
        "xp.mgrid[:3, 1:4]; xp.ogrid[0:3]; xp.mgrid[0:3:4j]; xp.r_[V, J]; xp.ogrid[0:3:2j, 1:2:4j]"
    ),
    # histograms
    *rows(
        "xp.histogram_bin_edges(V); xp.histogram_bin_edges(V, 4, (0, 9)); xp.histogram_bin_edges(J); "
        "xp.histogram_bin_edges(V[:0]); xp.histogram_bin_edges(V[:1], 3); xp.histogram(V); "
        "xp.histogram(V, 3); xp.histogram(V, np.float32([0, 1, 3, 9])); xp.histogram(V, 3, (1, 4)); "
        "xp.histogram(A, 4, weights=A); xp.histogram(V, 3, density=True); xp.histogram(J, 2); "
        "xp.histogram(N, 3, (0, 5)); xp.histogram(V, 5, weights=np.arange(5)); "
        "xp.histogram(V, np.array([0, 2, 9]), weights=V, density=True); xp.histogram(V[:0], 2); "
        "xp.histogram2d(V, V[::-1]); xp.histogram2d(V, V[::-1], 3); xp.histogram2d(V, V, [2, 3]); "
        "xp.histogram2d(V, V, [np.float32([0, 2, 9]), 3], [[0, 9], [0, 5]]); "
        "xp.histogram2d(V, V, np.float32([0, 2, 9])); "
        "xp.histogram2d(V, V[::-1], 3, density=True, weights=V); xp.histogramdd(T.reshape(-1, 3), 2); "
        "xp.histogramdd(T.reshape(-1, 3), [2, 3, 4], density=True); "
        "xp.histogramdd(T.reshape(-1, 3), 2, weights=np.arange(8.))"
    ),
    # interpolating
    *rows(
        "xp.interp(A, np.float32([-1, 0, 2]), np.float32([3, 4, 1])); "
        "xp.interp(A, np.float32([-1, 0, 2]), np.float32([3, 4, 1]), left=-9, right=9); "
        "xp.interp(A, np.float32([0.5, 0.1, 2.5]), np.float32([3, 4, 1]), period=3.); "
        "xp.interp(A, np.float32([1]), np.float32([3])); xp.interp(0.5, J, I[0]); "
        "xp.interp(A, np.float32([-1, 0, 2]), C[0]); "
        "xp.interp(np.float32([0, 1, 1, 2]), np.float32([0, 1, 1, 2]), np.float32([0, 1, 5, 6])); "
        "xp.interp(N, np.float32([-1, 0, 2]), np.float32([3, 4, 1])); xp.gradient(V); xp.gradient(A); "
        "xp.gradient(V, 2.0); xp.gradient(V, np.float32([0, 1, 3, 4, 7])); xp.gradient(A, axis=1); "
        "xp.gradient(T); xp.gradient(T, axis=(0, 2)); xp.gradient(T, 1., 2., np.float32([0, 1, 2, 5])); "
        "xp.gradient(A, axis=(1, )); xp.gradient(J); xp.gradient(C); xp.ediff1d(V); "
        "xp.ediff1d(A, to_end=B, to_begin=1.); xp.ediff1d(V[:1]); xp.ediff1d(J, to_end=7); xp.unwrap(V*2); "
        "xp.unwrap(A*9, axis=0); xp.unwrap(J*5, period=7); xp.unwrap(V*2, discont=5.); xp.unwrap(V[:1]); "
        "xp.unwrap(np.float32([0, np.pi, 0, -np.pi])); xp.unwrap(V, period=4.)"
    ),
    # numbertheory
    *rows(
        "xp.gcd(I, J); xp.gcd(I, 0); xp.gcd(U, np.uint8(12)); xp.lcm(I, J); xp.lcm(J, 4); "
        "xp.lcm(U, np.uint8(2)); xp.gcd(12, 18); xp.lcm(4, 6); xp.packbits(M); xp.packbits(M, 0); "
        "xp.packbits(M, 1); xp.packbits(M, -1, 'little'); xp.packbits(I); "
        "xp.packbits(np.ones((2, 0), bool), axis=1); xp.unpackbits(U); xp.unpackbits(U, 0); "
        "xp.unpackbits(U, 1, count=5); xp.unpackbits(U, 1, count=-3); xp.unpackbits(U, 1, count=30); "
        "xp.unpackbits(U, None, None, 'little')"
    ),
    # placing
    *rows(
        "xp.insert(A, 1, 9, axis=0); xp.insert(A, 1, B, axis=0); "
        "xp.insert(A, np.array([1]), np.array([[1], [2]]), axis=1); "
        "xp.insert(A, 1, np.array([[1], [2]]), axis=1); "
        "xp.insert(A, np.array([1, 3]), np.array([[1, 2], [3, 4]]), axis=1); xp.insert(A, 1, B); "
        "xp.insert(A, slice(0, 2), 9, axis=1); xp.insert(V, np.array([0, 0]), np.array([7, 8])); "
        "xp.insert(A, -1, 9, 1); xp.insert(J, 1, 2.5); xp.choose(np.array([1, 0, 1]), [B, J]); "
        "xp.choose(np.array([[1], [0]]), [B, J]); xp.choose(np.array([1, 5, -1]), [B, J], mode='clip'); "
        "xp.choose(np.array([1, 5, -1]), [B, J], mode='wrap'); xp.choose(np.array([1, 0, 1]), A); "
        "xp.trim_zeros(np.array([0, 0, 1, 0, 2, 0])); xp.trim_zeros(np.array([0, 0, 1, 0, 2, 0]), 'f'); "
        "xp.trim_zeros(np.array([0, 0, 1, 0, 2, 0]), 'b'); xp.trim_zeros(np.zeros(3)); "
        "xp.trim_zeros(np.zeros(3), 'f'); xp.trim_zeros(np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]])); "
        "xp.trim_zeros(np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]]), axis=1); xp.block([[A, A], [B, B]]); "
        "xp.block([A, A]); xp.block(A); xp.block([1, 2, 3]); xp.block([[A], [B]]); xp.block([B, 1.]); "
        "xp.block([[T, T], [T, T]])"
    ),
    # polynomials
    *rows(
        "xp.polyadd(V, B); xp.polyadd(B, V); xp.polysub(J, B); xp.polymul(V, B); xp.polymul(J, J); "
        "xp.polydiv(B, V); xp.polyder(V); xp.polyder(J); xp.polyder(V, 2); xp.polyder(V, 7); "
        "xp.polyder(V, 0); xp.polyint(V); xp.polyint(J, 2); xp.polyint(V, 2, 3.0); xp.polyint(V, 0); "
        "xp.polyval(V, A); xp.polyval(J, I); xp.polyval(J, 1.5); xp.polyval(C[0], A); xp.poly(B); "
        "xp.poly(J); xp.poly(C[1]); xp.polymul(V, 3.0); xp.polyadd(3.0, V); xp.poly(V[:0]); "
        "xp.polyval(V[:0], A)"
    ),
    # sorting
    *rows(
        "xp.partition(V, 2); xp.partition(A, 1, 0); xp.argpartition(V, 2); xp.argpartition(A, 1, 0); "
        "xp.argpartition(N, 2); xp.partition(N, 1); xp.partition(V, -1); xp.sort_complex(V); "
        "xp.sort_complex(C); xp.sort_complex(J)"
    ),
    # fitting
    *rows(
        "xp.i0(A); xp.i0(B * 3); xp.kaiser(7, 5.0); xp.kaiser(1, 2.0); xp.kaiser(0, 1.0); xp.kaiser(4, 0.0)"
    ),
    *rows(
        "xp.poly(B); xp.sort(xp.roots(V)); xp.sort(xp.roots(np.float32([0, 1, -3, 2, 0]))); "
        "xp.polyfit(V, V[::-1], 2); xp.polyfit(np.arange(6.0), T.reshape(6, 4), 2); "
        "xp.polyfit(V[:4], T[0, 0], 1, w=V[:4]); xp.polyfit(V, V**2, 1, cov=True); "
        "xp.polyfit(V, V**2, 1, cov='unscaled'); xp.roots(np.float32([2]))"
    ),
    # parameters
    *rows(
        "xp.quantile(V,0.4,method='inverted_cdf'); "
        "xp.quantile(A,np.float32([0.,.3,1.]),axis=1,method='inverted_cdf',weights=np.abs(A)); "
        "xp.percentile(A,40,method='inverted_cdf',weights=np.float32([1,2,0]),axis=1,keepdims=True); "
        "xp.var(A,axis=1,mean=np.float32([[1],[2]])); xp.std(A,mean=np.float32(0)); "
        "xp.nanvar(N,mean=np.float32(0)); xp.sum(U); xp.compress(np.array([True,False,True]),A,axis=1); "
        "xp.ravel_multi_index((J,J),(4,5)); xp.ravel_multi_index((J,J),(3,3),'wrap'); "
        "xp.ravel_multi_index((J,J),(4,5),order='F'); xp.delete(A,1,axis=1); xp.cov(A,dtype=np.float32); "
        "xp.corrcoef(A,dtype=np.float32); xp.round(A,1); xp.eye(2,M=3); xp.tri(N=3); xp.vander(J,N=2); "
        "xp.array_equal(a1=A,a2=A); xp.reshape(A,(3,2),copy=True); xp.isneginf(A)"
    ),
]

REFUSED: list[tuple[str, str, str]] = [
    (
        "xp.convolve(V, V, 'nope')",
        "OptionError",
        "convolve: mode must be 'full', 'same' or 'valid', got 'nope'",
    ),
    ("xp.convolve(A, B)", "ShapeError", "convolve: takes two vectors with elements, got f32[2,3] and f32[3]"),
    ("xp.polyder(V, -1)", "ShapeError", "polyder: the order m must not be negative, got -1"),
    ("xp.gcd(A, B)", "DTypeError", "gcd: takes integers, got f32[2,3] and f32[3]"),
    ("xp.packbits(A)", "DTypeError", "packbits: takes booleans or integers, got f32[2,3]"),
    ("xp.unpackbits(I)", "DTypeError", "unpackbits: takes uint8, got i32[2,3]"),
    ("xp.packbits(M, 0, 'x')", "OptionError", "packbits: bitorder must be 'big' or 'little', got 'x'"),
    ("xp.ix_(A)", "ShapeError", "ix_: takes vectors, argument 0 is f32[2,3]"),
    (
        "xp.diag_indices_from(A)",
        "ShapeError",
        "diag_indices_from: takes an array of at least two axes of one size, got f32[2,3]",
    ),
    (
        "xp.r_['x', 1]",
        "OptionError",
        "r_: the string must be 'r', 'c', 'axis', 'axis,ndim' or 'axis,ndim,first', got 'x'",
    ),
    ("xp.mgrid[1:, :2]", "IndexingError", "mgrid: a slice must have an end, got slice(1, None, None)"),
    (
        "xp.fill_diagonal(A, 7)",
        "TypeError",
        "fill_diagonal: arrays are immutable; pass inplace=False and use the array that is returned",
    ),
    (
        "xp.fill_diagonal(V, 7, inplace=False)",
        "ShapeError",
        "fill_diagonal: takes a matrix, or axes of one size, got f32[5]",
    ),
    (
        "xp.put(V, J, B)",
        "TypeError",
        "put: arrays are immutable; pass inplace=False and use the array that is returned",
    ),
    (
        "xp.put_along_axis(A, J, 1., 0, inplace=False)",
        "ShapeError",
        "put_along_axis: indices i32[3] must have as many axes as f32[2,3]",
    ),
    ("xp.place(A, M[0], B, inplace=False)", "ShapeError", "place: a mask bool[3] does not fit f32[2,3]"),
    ("xp.insert(A, 5, 9, 1)", "IndexingError", "insert: index 5 is outside axis 1 of f32[2,3]"),
    (
        "xp.choose(np.array([1, 5, -1]), [B, J])",
        "IndexingError",
        "invalid entry in choice array: choose: an index is outside the 2 choices",
    ),
    ("xp.trim_zeros(V, 'x')", "OptionError", "trim_zeros: trim must be 'f', 'b' or 'fb', got 'x'"),
    ("xp.block([[1, 2], 3])", "ShapeError", "block: lists must be nested to one depth"),
    ("xp.block([])", "ShapeError", "block: a list must not be empty"),
    ("xp.ldexp(A, B)", "DTypeError", "ldexp: exponents must be integers, got f32[3]"),
    ("xp.frexp(C)", "DTypeError", "frexp: takes real numbers of at least 16 bits, got c64[2,3]"),
    (
        "xp.interp(A, J, A)",
        "ShapeError",
        "interp: xp and fp must be vectors of one size, got f32[3] and f32[2,3]",
    ),
    ("xp.gradient(V[:1])", "ShapeError", "gradient: axis 0 of f32[1] must have at least 2 samples"),
    ("xp.gradient(A, 1., 2., 3.)", "ShapeError", "gradient: 3 distances for 2 axes"),
    ("xp.unwrap(C)", "DTypeError", "unwrap: takes real numbers, got c64[2,3]"),
    (
        "xp.histogram_bin_edges(V, 'auto')",
        "DTypeError",
        "histogram_bin_edges: bins must be an int or edges, got 'auto': its number would depend on values",
    ),
    (
        "xp.histogram(V, 3, weights=B)",
        "ShapeError",
        "histogram: weights f32[3] must have the shape of f32[5]",
    ),
    (
        "xp.histogram2d(V, V[:2])",
        "ShapeError",
        "histogram2d: x and y must be vectors of one size, got f32[5] and f32[2]",
    ),
    (
        "xp.histogramdd(T.reshape(-1, 3), [2, 3])",
        "ShapeError",
        "histogramdd: 3 axes need 3 bins and ranges, got 2 and 3",
    ),
    ("xp.histogramdd(V)", "ShapeError", "histogramdd: takes [n, d] points, got f32[5]"),
    (
        "xp.apply_along_axis(xp.sum, 3, T)",
        "ShapeError",
        "apply_along_axis: axis 3 is out of range for the 3 axes of f32[2,3,4]",
    ),
    (
        "xp.apply_over_axes(lambda x, i: x.sum(), T, [1])",
        "ShapeError",
        "apply_over_axes: the function must keep the 3 axes of f32[2,3,4], got f32[]",
    ),
    (
        "xp.piecewise(A, [A<0], [1, 2, 3])",
        "ShapeError",
        "piecewise: 1 conditions need 1 or 2 functions, got 3",
    ),
    ("xp.partition(V, 9)", "IndexingError", "partition: kth 9 is out of range for axis -1 of f32[5]"),
    ("xp.top_k(V, 9)", "ShapeError", "top_k: k must be from 0 to 5, the size of axis 0 of f32[5], got 9"),
    ("xp.partition(C, 1)", "DTypeError", "partition: takes real numbers, got c64[2,3]"),
    (
        "xp.fft.rfft(C)",
        "DTypeError",
        "rfft: takes real numbers, got c64[2,3]; use the transform of complex numbers",
    ),
    ("xp.fft.fft(V, 0)", "ShapeError", "fft: axis 0 of c64[5] must have at least one point, got 0"),
    ("xp.fft.fft(V, norm='x')", "ValueError", "fft: norm must be one of backward, ortho, forward, got 'x'"),
    ("xp.fft.fft(V, axis=2)", "ShapeError", "fft: axis 2 is out of range for the 1 axes of f32[5]"),
    ("xp.fft.fftn(T, axes=(0, 0))", "ShapeError", "fftn: axes (0, 0) repeat an axis"),
    ("xp.fft.fft(1.)", "ShapeError", "fft: axis -1 is out of range for the 0 axes of f32[]~"),
    (
        "xp.quantile(A,.5,weights=A)",
        "DTypeError",
        "quantile: weights need method 'inverted_cdf', got 'linear'",
    ),
    (
        "xp.ravel_multi_index((J,J),(3,3))",
        "IndexingError",
        "invalid entry in coordinates array: ravel_multi_index: an index is out of bounds for axis 0 of size 3",
    ),
    (
        "xp.searchsorted(V,V,method='x')",
        "OptionError",
        "searchsorted: method must be one of scan, scan_unrolled, sort, compare_all, default, got 'x'",
    ),
]

# What NumPy says otherwise, or cannot say: the expression here, and one there.
PAIRS = [
    ("xp.minmax(A, 1, keepdims=True)", "[A.min(1, keepdims=True), A.max(1, keepdims=True)]"),
    ("xp.minmax(A, initial=(-9, 9))", "[np.float32(-9), np.float32(9)]"),
    ("xp.minmax(A, 0, initial=0, where=M)", "[A.min(0, initial=0, where=M), A.max(0, initial=0, where=M)]"),
    ("xp.poly(A[:, :2])", "np.poly(A[:, :2])"),
    ("xp.sort(xp.roots(V, strip_zeros=False))", "np.sort(np.roots(V))"),
    ("xp.polyfit(B, B**2, 1, full=True)[:4]", "np.polyfit(B, B**2, 1, full=True)[:4]"),
    ("xp.sum(U, promote_integers=False)", "np.sum(U, dtype='uint8')"),
    ("xp.prod(U, promote_integers=False)", "np.prod(U, dtype='uint8')"),
    ("xp.argsort(V, dtype=np.int16)", "np.argsort(V, kind='stable')"),
    ("xp.compress(M[0], A, axis=1, size=3, fill_value=7)", "np.c_[A[:, [0, 2]], [[7], [7]]]"),
    ("xp.compress(M[0], A, axis=1, size=1)", "A[:, :1]"),
    ("xp.extract(A > 0, A, size=8, fill_value=-1)", "np.r_[A[A > 0], [-1] * (8 - (A > 0).sum())]"),
    ("xp.take_along_axis(A, np.array([[0], [7]]), 1, mode='one_hot')", "np.array([[A[0, 0]], [0]])"),
    ("xp.take_along_axis(A, np.array([[0], [7]]), 1, fill_value=9.0)", "np.array([[A[0, 0]], [9]])"),
    (
        "xp.take_along_axis(A, np.array([[0], [-1]]), 1, fill_value=9.0, wrap_negative_indices=False)",
        "np.array([[A[0, 0]], [9]])",
    ),
    *[
        (
            f"xp.searchsorted(np.sort(V), V, {side!r}, method={method!r})",
            f"np.searchsorted(np.sort(V), V, {side!r})",
        )
        for side in ("left", "right")
        for method in ("scan", "scan_unrolled", "sort", "compare_all", "default")
    ],
    ("xp.searchsorted(np.sort(N[0]), N, method='sort')", "np.searchsorted(np.sort(N[0]), N)"),
    (
        "xp.searchsorted(np.sort(N[0]), N, 'right', method='sort')",
        "np.searchsorted(np.sort(N[0]), N, 'right')",
    ),
    ("xp.digitize(A, np.sort(B), method='sort')", "np.digitize(A, np.sort(B))"),
    ("xp.digitize(A, np.sort(B)[::-1], method='compare_all')", "np.digitize(A, np.sort(B)[::-1])"),
    *[
        (
            f"xp.digitize(np.arange(5), np.array([3, 2, 2, 1]), {right}, method={method!r})",
            f"np.digitize(np.arange(5), np.array([3, 2, 2, 1]), {right})",
        )
        for right in (False, True)
        for method in ("scan", "scan_unrolled", "sort", "compare_all")
    ],
    ("xp.take(V, xp.array([-1, 1, 99]), mode='clip')", "np.take(V, [-1, 1, 99], mode='clip')"),
    ("xp.delete(V, xp.array([0, -1]), assume_unique_indices=True)", "np.delete(V, [0, -1])"),
    ("xp.delete(A, xp.array(1), 1)", "np.delete(A, 1, 1)"),
    ("xp.stack([A, A], 0, None, np.int32)", "np.stack([A, A]).astype(np.int32)"),
    ("xp.fmax(x1=A, x2=0.0)", "np.fmax(A, 0)"),
    ("xp.array_equiv(a1=A, a2=A[0])", "False"),
    ("xp.empty_like(prototype=A)", "np.zeros_like(A)"),
    (
        "xp.quantile(A, 0.3, method='inverted_cdf', weights=B + 2)",
        "np.quantile(A, 0.3, method='inverted_cdf', weights=np.broadcast_to(B + 2, A.shape))",
    ),
    (
        "xp.nanquantile(N, 0.3, axis=1, method='inverted_cdf', weights=B + 2)",
        "np.nanquantile(N, 0.3, axis=1, method='inverted_cdf', weights=np.broadcast_to(B + 2, N.shape))",
    ),
    (
        "xp.interp(A, np.float32([-1, 0, 2]), B, 'extrapolate', 'extrapolate')",
        (
            "np.where(A < -1, B[0] + (A + 1) * (B[1] - B[0]), "
            "np.where(A > 2, B[2] + (A - 2) * (B[2] - B[1]) / 2, np.interp(A, [-1, 0, 2], B)))"
        ),
    ),
    ("xp.polyval(V, A, unroll=2)", "np.polyval(V, A)"),
    ("xp.polydiv(V, B)[1]", "np.r_[0, 0, 0, np.polydiv(V, B)[1][-2:]]"),
    ("xp.polydiv(V, B, trim_leading_zeros=True)", "[np.polydiv(V, B)[0], np.polydiv(V, B)[1][-2:]]"),
    ("xp.polymul(V, xp.array([0.0, 0.0, 1.0]), trim_leading_zeros=True)", "V"),
    (
        "xp.mask_indices(3, xp.triu, 1, size=4)",
        "[np.r_[np.mask_indices(3, np.triu, 1)[0], 0], np.r_[np.mask_indices(3, np.triu, 1)[1], 0]]",
    ),
]
