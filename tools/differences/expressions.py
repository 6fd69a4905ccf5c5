"""The expressions that effx and JAX are compared on: a list of texts, the same for both.

`np` is the library's NumPy, `jax` the library, `onp` NumPy itself; capitals are the arrays of `values.py`.

Never: import effx or jax.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product


def split_calls(text: str) -> list[str]:
    """Splits a text at spaces and lines that are in no brackets."""
    calls, depth = [""], 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c.isspace() and depth == 0:
            calls.append("")
        else:
            calls[-1] += " " if c.isspace() else c
    return [part for part in calls if part]


UNARY = """abs absolute acos acosh angle arccos arccosh arcsin arcsinh arctan arctanh around asin asinh atan atanh
bitwise_count bitwise_invert bitwise_not cbrt ceil conj conjugate cos cosh deg2rad degrees exp exp2 expm1 fabs fix floor
frexp i0 imag invert iscomplex isfinite isinf isnan isneginf isposinf isreal log log10 log1p log2 logical_not modf
nan_to_num negative positive rad2deg radians real reciprocal rint round sign signbit sin sinc sinh spacing sqrt square
tan tanh trunc""".split()
BINARY = """add arctan2 atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide
divmod equal float_power floor_divide fmax fmin fmod gcd greater greater_equal heaviside hypot isclose lcm ldexp
left_shift less less_equal logaddexp logaddexp2 logical_and logical_or logical_xor maximum minimum mod multiply nextafter
not_equal pow power remainder right_shift subtract true_divide""".split()
REDUCTIONS = """all amax amin any argmax argmin average count_nonzero cumprod cumsum max mean median min nanargmax
nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanprod nanstd nansum nanvar prod ptp std sum var
cumulative_sum cumulative_prod""".split()
LAX_UNARY = """abs acos acosh asin asinh atan atanh bessel_i0e bessel_i1e bitwise_not cbrt ceil clz conj cos cosh digamma
erf erf_inv erfc exp exp2 expm1 floor imag is_finite lgamma log log1p logistic neg population_count real reciprocal round
rsqrt sign sin sinh sqrt square stop_gradient tan tanh""".split()
LAX_BINARY = """add atan2 bitwise_and bitwise_or bitwise_xor div eq ge gt igamma igammac le lt max min mul ne nextafter
pow rem shift_left shift_right_arithmetic shift_right_logical sub complex""".split()
SPECIAL_1 = """bessel_i0e dawsn digamma entr erf erfc erfcx erfinv exp1 expi expit factorial fresnel gamma gammaln gammasgn
i0 i0e i1 i1e log_ndtr log_softmax logit logsumexp ndtr ndtri sici softmax spence""".split()
SPECIAL_2 = (
    "beta betaln boxcox boxcox1p gammainc gammaincc kl_div poch rel_entr xlog1py xlogy zeta owens_t".split()
)
NN = """celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu log_sigmoid log_softmax logsumexp
mish relu relu6 selu sigmoid silu soft_sign softmax softplus sparse_plus sparse_sigmoid squareplus standardize swish
tanh""".split()
DISTRIBUTIONS = {
    "beta": "2.0, 3.0", "cauchy": "", "chi2": "3.0", "expon": "", "gamma": "2.0", "gumbel_l": "", "gumbel_r": "",
    "laplace": "", "logistic": "", "norm": "", "pareto": "2.5", "t": "3.0", "truncnorm": "-1.0, 2.0", "uniform": "",
    "vonmises": "1.5", "wrapcauchy": "0.4", "gennorm": "1.5",
}  # fmt: skip
DISCRETE = {
    "bernoulli": "0.3", "binom": "5, 0.3", "geom": "0.3", "nbinom": "4, 0.3", "poisson": "2.5", "betabinom": "5, 2.0, 3.0",
}  # fmt: skip
SAMPLERS = {
    "ball": "d=3", "bernoulli": "p=0.3", "beta": "2.0, 3.0", "binomial": "5, 0.3", "bits": "", "categorical": "onp.log(G)",
    "cauchy": "", "chisquare": "3.0", "choice": "5", "dirichlet": "P", "double_sided_maxwell": "1.0, 2.0",
    "exponential": "", "f": "2.0, 3.0", "gamma": "2.0", "generalized_normal": "1.5", "geometric": "0.3", "gumbel": "",
    "laplace": "", "loggamma": "2.0", "logistic": "", "lognormal": "", "maxwell": "", "multinomial": "5, G",
    "multivariate_normal": "onp.zeros(4, 'f4'), S", "normal": "", "orthogonal": "3", "pareto": "2.0",
    "permutation": "8", "poisson": "2.5", "rademacher": "", "randint": "(4,), 0, 10", "rayleigh": "1.5", "t": "3.0",
    "triangular": "0.0, 0.5, 1.0", "truncated_normal": "-1.0, 2.0", "uniform": "", "wald": "1.5", "weibull_min": "1.0, 2.0",
}  # fmt: skip
FOURIER = "fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn".split()


def call(function: str, *arguments: str) -> str:
    """Returns the text of a call; empty arguments are left out."""
    return f"{function}({', '.join([a for a in arguments if a])})"


def combine(functions: Iterable[str], prefix: str, *choices: Sequence[str]) -> Iterator[str]:
    """Lists calls of functions with all combinations of arguments."""
    for name, *arguments in product(functions, *choices):
        yield call(f"{prefix}{name}", *arguments)


def elementwise() -> Iterator[str]:
    """Values of elementwise functions, at edges and for all kinds of dtypes."""
    yield from combine(UNARY, "np.", ["F", "H", "I", "U", "B", "C", "E", "Z", "I8"])
    pairs = [
        "F, F2",
        "F2, F",
        "I, I2",
        "U, X",
        "B, B2",
        "C, C2",
        "F, 2",
        "I, 2.5",
        "I, U",
        "M, M[0]",
        "E, 1.0",
        "H, Z",
    ]
    yield from combine(BINARY, "np.", pairs)
    yield from combine(LAX_UNARY, "lax.", ["F", "H", "I", "U", "C"])
    yield from combine(LAX_BINARY, "lax.", ["F, F2", "I, I2", "C, C2", "P, P2", "F, 2.0"])
    yield from combine(SPECIAL_1, "jax.scipy.special.", ["F", "G", "P", "I", "E1"])
    yield from combine(SPECIAL_2, "jax.scipy.special.", ["P, P2", "F, F2", "G, G2", "I, 2.0"])
    yield from combine(["betainc"], "jax.scipy.special.", ["P, P2, G", "P, 2.0, F"])
    yield from combine(["polygamma", "multigammaln"], "jax.scipy.special.", ["1, P"])
    yield from combine(NN, "jax.nn.", ["F", "H", "I", "M", "T"])
    for name in ("round", "around"):
        yield from combine([name], "np.", ["M", "I", "C"], ["1", "-1", "decimals=3"])
    yield from combine(["clip"], "np.", ["M", "I", "U"], ["0, 1", "min=0", "max=1", "1, 0"])
    yield from combine(["clamp"], "lax.", ["0.0, M, 1.0", "0, I, 2", "M2, M, M2 + 1"])
    yield from combine(["nan_to_num"], "np.", ["F", "C"], ["nan=1.0", "posinf=2.0", "neginf=3.0"])


def reductions() -> Iterator[str]:
    """Reductions with every parameter, of sizes 0 and 1 too."""
    yield from combine(
        REDUCTIONS, "np.", ["M", "MI", "MB", "MC", "MN", "T", "W", "Z"], ["", "axis=0", "axis=-1"]
    )
    plain = [f for f in REDUCTIONS if not f.startswith(("cum", "nancum", "count"))]
    yield from combine(plain, "np.", ["T"], ["axis=(0, 2)", "axis=1, keepdims=True", "axis=()", "axis=3"])
    yield from combine(plain, "np.", ["E", "E1"], ["", "axis=0", "axis=1"])
    with_where = (
        "all any max mean min prod std sum var nanmax nanmean nanmin nanprod nanstd nansum nanvar".split()
    )
    yield from combine(with_where, "np.", ["M"], ["where=MB", "where=MB, axis=0", "where=MB, initial=1.0"])
    with_dtype = "cumprod cumsum mean prod std sum var nancumsum nansum nanmean".split()
    yield from combine(
        with_dtype, "np.", ["M", "MI", "MB"], ["dtype='float16'", "dtype='int32'", "dtype='complex64'"]
    )
    yield from combine(
        ["sum", "prod", "max", "min"], "np.", ["M", "MI", "E"], ["initial=2", "initial=2, axis=1"]
    )
    yield from combine(
        ["std", "var", "nanstd", "nanvar"], "np.", ["M", "MN"], ["ddof=1", "ddof=5, axis=0", "correction=1"]
    )
    quantiles = ["quantile", "nanquantile"]
    methods = "linear lower higher midpoint nearest".split()
    yield from combine(
        quantiles, "np.", ["M", "MN"], ["0.3", "[0.1, 0.9]"], [f"axis=1, method={m!r}" for m in methods]
    )
    yield from combine(
        ["percentile", "nanpercentile"], "np.", ["M"], ["30", "[10, 90], axis=0", "50, keepdims=True"]
    )
    yield from combine(
        ["logsumexp"],
        "jax.nn.",
        ["M"],
        ["", "axis=1", "b=M2", "b=M2, return_sign=True", "where=MB", "keepdims=True"],
    )
    for op in "sum prod max min and or xor".split():
        yield from [f"lax.reduce_{op}({x}, axes=({a},))" for x, a in product(("M", "MI", "MB", "T"), (0, 1))]
    yield from combine(
        ["cummax", "cummin", "cumsum", "cumprod", "cumlogsumexp"],
        "lax.",
        ["M", "MI"],
        ["", "axis=1", "axis=0, reverse=True"],
    )
    yield from combine(["argmax", "argmin"], "lax.", ["M, 0, 'int32'", "F, 0, 'int32'", "MI, 1, 'int8'"])


SHAPES = """
append(M, M2) append(M, M2, axis=0) argpartition(W, 3) argsort(W) argsort(M, axis=0) argsort(X, stable=True)
argsort(W, descending=True) argwhere(MB) array_split(W, 3) array_split(M, 3, axis=1) atleast_1d(Z) atleast_2d(W)
atleast_3d(M) bincount(X) bincount(X, W) bincount(X, minlength=12) bincount(X, length=4) block([[M,M2],[M2,M]])
broadcast_to(W,(2,8)) broadcast_arrays(M,M[0])[1] choose(X%3,(W,W+1,W+2)) choose(X,(W,W+1),mode='clip')
column_stack((W,X)) compress(B,W) compress([True,False,True],M,axis=0) concatenate((M,M2)) concatenate((M,MI),axis=1)
concatenate((M,M2),axis=None) concat((M,MI)) convolve(W,G) convolve(W,G,'same') convolve(W,G,'valid') corrcoef(M) corrcoef(W)
correlate(W,G) correlate(W,G,'full') cov(M) cov(M,bias=True) cov(M,rowvar=False) cov(M,aweights=P[:4]) cross(M[:,:3],M2[:,:3])
delete(W,2) delete(M,[0,2],axis=1) delete(W,slice(1,4)) delete(W,X%2) diag(W) diag(M) diag(M,1) diagflat(M,-1) diagonal(T)
diagonal(T,1,0,2) diff(W) diff(M,2,axis=1) diff(W,prepend=0) diff(MB) digitize(W,[1,4,6]) digitize(W,[6,4,1]) dot(M,M2.T)
dot(W,W) dot(T,A) dsplit(V,2) dstack((M,M2)) ediff1d(W) ediff1d(M,to_begin=0.0,to_end=9.0) einsum('ij,kj->ik',M,M2)
einsum('ii',A) einsum('ij->j',M) einsum('...j,j',T,P[:4]) expand_dims(M,1) expand_dims(M,(0,3)) extract(MB,M) eye(3) eye(3,4,1)
eye(3,dtype=int) fill_diagonal(A,5.0,inplace=False) flatnonzero(MB) flip(M) flip(M,1) fliplr(M) flipud(M) full((2,3),7)
full((),1.5) full((2,),True) full_like(M,2) full_like(MI,2.7) geomspace(1,100,5) geomspace(1,100,5,endpoint=False)
gradient(W) gradient(M,axis=1) gradient(M,2.0) gradient(W,W.cumsum()) hamming(5) hanning(5) blackman(5) bartlett(5) kaiser(5,3.0)
histogram(W) histogram(W,4,(0,8)) histogram(W,[0,2,4,9],weights=W) histogram(W,density=True) histogram_bin_edges(W,5) histogram2d(W,X)
hsplit(M,2) hstack((M,M2)) hstack((W,X)) identity(3) indices((2,3)) inner(M,M2) insert(W,2,9.0) insert(M,[0,2],7,axis=1)
interp(P,W.cumsum(),W) interp(P,W.cumsum(),W,left=-1,right=-2) interp(P,W.cumsum(),W,period=5) intersect1d(X,I) intersect1d(X,I,return_indices=True)
isin(X,I) isin(X,I,invert=True) ix_(X,I)[0] kron(M,A) lexsort((X,W)) linspace(0,1,5) linspace(0,1,5,endpoint=False) linspace(0,1,5,retstep=True)
linspace(G,P,3) linspace(G,P,3,axis=1) linspace(0,10,4,dtype=int) logspace(0,2,5) logspace(0,2,5,base=2) mask_indices(3,onp.triu)
matmul(M,A) matmul(T,A) matmul(W,W) matrix_transpose(T) matvec(M,P[:4]) meshgrid(W,G) meshgrid(W,G,indexing='ij') meshgrid(W,G,sparse=True)
moveaxis(T,0,-1) moveaxis(T,(0,1),(1,2)) nonzero(MB) nonzero(M,size=3) ones((2,3)) ones(3,int) ones_like(M) outer(W,G) packbits(MB) packbits(MB,axis=1)
packbits(B,bitorder='little') pad(W,2) pad(M,1) pad(M,((1,2),(0,1)),constant_values=5) pad(W,2,'edge') pad(W,2,'reflect') pad(W,2,'symmetric')
pad(W,2,'wrap') pad(W,2,'linear_ramp') pad(W,2,'mean') pad(W,2,'median') pad(W,2,'maximum') pad(W,2,'minimum') pad(W,2,'empty') partition(W,3)
partition(M,1,axis=0) permute_dims(T,(2,0,1)) piecewise(W,[W<3,W>5],[-1,1]) piecewise(W,[W<3,W>5],[-1,lambda x:x*2,0]) poly(P) poly(A) polyadd(P,G)
polyder(P) polyder(P,2) polydiv(P,G[:2]) polyfit(W,X,2) polyint(P) polyint(P,2,3) polymul(P,G) polysub(P,G[:3]) polyval(P,G) put_along_axis(M,X[:3,None]%4,9.0,1,inplace=False)
place(M,MB,[1.0,2.0],inplace=False) put(M,[1,5],[7.0,8.0],inplace=False) ravel(T) ravel(T,order='F') ravel_multi_index((X%3,X%4),(3,4)) repeat(W,2) repeat(M,2,axis=0)
repeat(W,X) repeat(W,X%3,total_repeat_length=12) reshape(T,(6,4)) reshape(T,-1) reshape(T,(6,-1),order='F') resize(W,(3,5)) resize(W,3) roll(W,2) roll(M,1) roll(M,(1,2),(0,1))
rollaxis(T,2) roots(P) rot90(M) rot90(M,2) rot90(T,1,(1,2)) searchsorted(W.cumsum(),P) searchsorted(W.cumsum(),P,side='right') searchsorted(W,P,sorter=onp.argsort(W))
select([W<3,W>5],[W,W*2],7.0) setdiff1d(X,I) setxor1d(X,I) shape(T) size(T) size(T,1) sort(W) sort(M,axis=0) sort(M,axis=None) sort(W,descending=True) sort(C) sort_complex(C) split(W,4)
split(W,[2,5]) split(M,2,axis=1) squeeze(O) squeeze(M[None],0) stack((M,M2)) stack((M,M2),axis=-1) swapaxes(T,0,2) take(W,X%8) take(M,[0,2],axis=1) take(W,[-1,9])
take(W,[-1,9],mode='clip') take(W,[-1,9],mode='wrap') take(W,[9],mode='fill',fill_value=-5.0) take_along_axis(M,onp.argsort(M,1),1) tensordot(T,A,1) tensordot(T,T,([0,1],[0,1])) tile(W,2)
tile(M,(2,1,2)) trace(A) trace(T,1,1,2) transpose(T) transpose(T,(1,0,2)) trapezoid(W) trapezoid(M,dx=2.0,axis=0) trapezoid(W,X) tri(3) tri(3,4,1) tril(A) tril(A,-1)
tril_indices(3) tril_indices(3,1,4) triu(A,1) triu_indices(3) triu_indices_from(A) trim_zeros(onp.array([0,0,1,2,0])) trim_zeros(onp.array([0,0,1,2,0]),'f') union1d(X,I) unique(X)
unique(X,return_index=True) unique(X,return_inverse=True) unique(X,return_counts=True) unique(M.round(),axis=0) unique(X,size=3) unique(X,size=9,fill_value=-1) unique(F) unique(F,equal_nan=False)
unique_all(X) unique_counts(X) unique_inverse(X) unique_values(X) unpackbits(U) unpackbits(U,bitorder='little') unpackbits(U,count=5) unravel_index(X,(3,4)) unravel_index(5,(2,3)) unstack(M)
unwrap(W) unwrap(W,period=4) vander(G) vander(G,3,increasing=True) vdot(M,M2) vdot(C,C2) vecdot(M,M2) vecdot(C,C2) vecmat(M[:,0],M) vsplit(M,3) vstack((M,M2)) where(MB,M,M2)
where(MB) where(MB,1,2.5) where(M>0,M,0) zeros((2,3)) zeros(3,'int8') zeros_like(MI) zeros_like(M,dtype=int) zeros_like(M,shape=(2,)) arange(5) arange(1,9,2) arange(5.0) arange(0,1,0.3) arange(3,dtype='float32')
array([1,2.5]) array(3) array([True,2]) array([[1],[2]],dtype='int8') array(M,ndmin=3) asarray([1j,2]) array_equal(M,M) array_equal(F,F,equal_nan=True) array_equiv(M,M[None]) allclose(M,M+1e-9)
apply_along_axis(np.sum,1,M) apply_over_axes(np.sum,M,[0]) average(M,weights=abs(M2)) average(M,axis=1,weights=P[:4],returned=True) can_cast('int8','int16') result_type('int8',2.0) result_type(I,U)
promote_types('int8','uint8') finfo('float32').eps iinfo('int8').max issubdtype('float32',np.floating) isdtype('int8','integral') isscalar(3) isscalar(M) iterable(M) ndim(T) count_nonzero(M>0,axis=1,keepdims=True)
fromfunction(lambda i,j:i+j,(2,3)) frompyfunc(lambda a,b:a+b,2,1)(W,W) vectorize(lambda a,b:a*b)(W,W) vectorize(np.dot,signature='(n),(n)->()')(M,M2) top_k(W,3) minmax(M) r_[1:4,W] c_[W,X] mgrid[0:2,0:3] ogrid[0:2,0:3]
add.reduce(M) add.reduce(M,axis=1,keepdims=True) add.accumulate(M) multiply.reduce(M,axis=None) add.at(W,X%3,1.0,inplace=False) maximum.reduce(M) subtract.outer(W,G) add.reduceat(W,[0,3,5]) logical_and.reduce(MB)
"""


def shapes() -> Iterator[str]:
    """Functions that make, join, cut and index arrays."""
    for text in split_calls(SHAPES):
        yield f"np.{text}"


INDICES = """0 -1 1:3 ::-1 ::2 None ... [0,2] onp.array([2,0,0]) X[:3]%3 MB[:,0] MB [0,2],[1,3] :,[1,0] [[0],[2]],[1,3] 0,None,... None,0
...,0 1,::2 :,-1 onp.array(1) True False [],: 2:2 10 -10 [5] slice(None,None,-2) onp.array([True,False,True]) 0,0 0,0,0""".split()


def indexing() -> Iterator[str]:
    """Reads and updates by all kinds of indices."""
    for index in INDICES:
        yield f"np.array(M)[{index}]"
        yield f"jax.jit(lambda x: x[{index}])(M)"
        for method in ("set", "add", "multiply", "min", "max", "divide", "power"):
            yield f"np.array(M).at[{index}].{method}(2.0)"
        yield f"np.array(M).at[{index}].get(mode='fill', fill_value=7.0)"
        yield f"jax.grad(lambda x: (x[{index}] ** 2).sum())(M)"
    for method in ("set", "add", "get"):
        for mode in ("clip", "drop", "fill", "promise_in_bounds"):
            value = "" if method == "get" else "1.0, "
            yield f"np.array(W).at[onp.array([1, 20])].{method}({value}mode={mode!r})"


def derivatives() -> Iterator[str]:
    """First and second derivatives and batches of elementwise functions at ordinary points."""
    names = (
        [f"np.{f}" for f in UNARY]
        + [f"jax.nn.{f}" for f in NN]
        + [f"jax.scipy.special.{f}" for f in SPECIAL_1]
    )
    ordinary = [f for f in names if f.split(".")[-1] not in ("glu", "log_softmax", "softmax", "logsumexp", "standardize", "frexp", "modf", "fresnel", "sici")]  # fmt: skip
    for f in ordinary:
        yield f"jax.vmap(jax.grad(lambda x: {f}(x).real.astype('float32')))(G)"
        yield f"jax.jvp({f}, (G,), (onp.ones(5, 'f4'),))[1]"
        yield f"jax.vmap(jax.grad(jax.grad(lambda x: {f}(x).real.astype('float32'))))(G)"
    for f in BINARY:
        yield f"jax.vmap(jax.grad(lambda x, y: np.asarray(np.{f}(x, y)).astype('float32').sum(), (0, 1)))(P, P2)"
    for f in REDUCTIONS:
        yield f"jax.grad(lambda x: np.asarray(np.{f}(x, axis=0)).astype('float32').sum())(M)"
        yield f"jax.vmap(lambda x: np.{f}(x, axis=0))(T)"
        yield f"jax.jit(lambda x: np.{f}(x, axis=0))(M)"
    for f in ("tanh", "sin", "exp"):
        for transform in ("jax.hessian", "jax.jacfwd", "jax.jacrev"):
            yield f"{transform}(lambda x: np.{f}(x).sum() * x)(G)"


def distributions() -> Iterator[str]:
    """Densities, distribution functions, quantiles, and draws."""
    for name, parameters in DISTRIBUTIONS.items():
        for f in ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf"):
            yield from [call(f"jax.scipy.stats.{name}.{f}", x, parameters) for x in ("P", "F", "G")]
            yield call(f"jax.scipy.stats.{name}.{f}", "P", parameters, "loc=0.5", "scale=2.0")
        for f in ("ppf", "isf"):
            yield call(f"jax.scipy.stats.{name}.{f}", "G", parameters)
    for name, parameters in DISCRETE.items():
        for f in ("pmf", "logpmf", "cdf"):
            yield from [call(f"jax.scipy.stats.{name}.{f}", x, parameters) for x in ("I", "P")]
    for name, parameters in SAMPLERS.items():
        yield call(f"jax.random.{name}", "jax.random.key(3)", parameters)
        yield call(
            f"jax.random.{name}", "jax.random.key(3)", parameters, "" if name == "randint" else "shape=(3,)"
        )
        yield f"jax.vmap(lambda k: {call(f'jax.random.{name}', 'k', parameters)})(jax.random.split(jax.random.key(1), 2))"
        yield call(f"jax.random.{name}", "jax.random.PRNGKey(3)", parameters, "dtype='float16'")
    for impl in ("threefry2x32", "rbg", "unsafe_rbg"):
        yield f"jax.random.key_data(jax.random.split(jax.random.key(1, impl={impl!r}), 3))"
        yield f"jax.random.uniform(jax.random.fold_in(jax.random.key(1, impl={impl!r}), 7), (4,))"


MATRICES = split_calls("""
linalg.cholesky(S) linalg.cond(A) linalg.cond(A,1) linalg.cond(A,-2) linalg.det(A) linalg.det(AC) linalg.eigh(S).eigenvalues linalg.eigvals(S) linalg.eigvalsh(S) linalg.inv(A)
linalg.inv(AC) linalg.lstsq(A,P[:4])[0] linalg.lstsq(M,G[:3])[0] linalg.matrix_norm(M) linalg.matrix_power(A,3) linalg.matrix_power(A,-2) linalg.matrix_power(A,0) linalg.matrix_rank(A)
linalg.matrix_rank(onp.ones((3,3),'f4')) linalg.multi_dot((M,A,A)) linalg.norm(A) linalg.norm(A,1) linalg.norm(A,2) linalg.norm(A,'nuc') linalg.norm(A,onp.inf) linalg.norm(W,3) linalg.norm(T,axis=1)
linalg.norm(T,axis=(0,1)) linalg.norm(W,0) linalg.norm(M,keepdims=True) linalg.outer(W,G) linalg.pinv(M) linalg.pinv(M,rtol=0.5) linalg.slogdet(A) linalg.slogdet(AC) linalg.solve(A,P[:4]) linalg.solve(A,A)
linalg.svdvals(M) linalg.svd(M,compute_uv=False) linalg.tensorinv(A.reshape(2,2,2,2),2) linalg.tensorsolve(A.reshape(2,2,4),A[:2,:2]) linalg.trace(A,offset=1) linalg.vecdot(M,M2)
linalg.vector_norm(M,axis=1) linalg.vector_norm(M,ord=1) linalg.cross(M[:,:3],M2[:,:3]) linalg.diagonal(T) linalg.qr(A,mode='r') linalg.matrix_transpose(T) linalg.tensordot(M,A,1)
""")
SCIPY_MATRICES = split_calls("""
block_diag(M,A) cho_solve((onp.linalg.cholesky(S),True),P[:4]) cholesky(S) cholesky(S,lower=True) det(A) eigh(S,eigvals_only=True) expm(A) expm(A/10) inv(A) lu(A)[2] lu_factor(A)[0] solve(A,P[:4])
solve(S,P[:4],assume_a='pos') solve_triangular(A,P[:4]) solve_triangular(A,P[:4],lower=True,trans=1) svd(M,compute_uv=False) toeplitz(W) toeplitz(W,G) hilbert(3) pascal(3) sqrtm(S) polar(S)[1] funm(S,np.exp)
expm_frechet(A,A)[1] rsf2csf(A,A)[0].shape schur(S)[0].shape hessenberg(A).shape hankel(W) circulant(G) companion(P) hadamard(4) dft(3) fiedler(P) helmert(4) invhilbert(3) leslie(P,G[:4]) convolution_matrix(P,3)
""")


def matrices() -> Iterator[str]:
    """Linear algebra, its derivatives, and Fourier transforms."""
    yield from [f"np.{text}" for text in MATRICES]
    yield from [f"jax.scipy.linalg.{text}" for text in SCIPY_MATRICES]
    for f in (
        "cholesky(S)",
        "det(A)",
        "inv(A)",
        "slogdet(A)[1]",
        "solve(A,P[:4])",
        "pinv(M)",
        "norm(M)",
        "svdvals(M)",
        "eigvalsh(S)",
    ):
        name, rest = f.split("(", 1)
        x = rest[0]
        yield f"jax.grad(lambda {x}: np.linalg.{name}({rest}.sum())({x})"
        yield f"jax.jit(jax.vmap(lambda {x}: np.linalg.{name}({rest}))(onp.stack([{x}, 2 * {x}]))"
    for f in FOURIER:
        real = f.startswith(("r", "ih"))
        for x in ("M", "T") if real else ("M", "MC", "T"):
            yield f"np.fft.{f}({x})"
            if not f.endswith(("2", "n")):
                yield from [
                    f"np.fft.{f}({x}, {o})" for o in ("3", "6", "axis=0", "norm='ortho'", "norm='forward'")
                ]
            else:
                yield from [
                    f"np.fft.{f}({x}, {o})"
                    for o in ("axes=(0, 1)", "s=(2, 3), axes=(-2, -1)", "norm='ortho'")
                ]
        yield f"jax.grad(lambda x: abs(np.fft.{f}(x)).sum())(M)"
    yield from (
        "np.fft.fftfreq(5)",
        "np.fft.rfftfreq(5, 0.5)",
        "np.fft.fftshift(W)",
        "np.fft.ifftshift(M, 1)",
    )


LAX = split_calls("""
broadcast(W,(2,)) broadcast_in_dim(W,(3,8),(1,)) broadcasted_iota('int32',(2,3),1) collapse(T,0,2) concatenate([M,M2],0) conv(V[None],V[:,:,:2],(1,),'SAME') convert_element_type(M,'int32')
bitcast_convert_type(M,'int32') dot(M,A) dot_general(M,M2,(((1,),(1,)),((),()))) dot_general(T,T,(((2,),(2,)),((0,),(0,)))) dynamic_index_in_dim(M,1,0) dynamic_slice(M,(1,2),(2,2)) dynamic_slice(M,(5,5),(2,2))
dynamic_slice_in_dim(W,2,3) dynamic_update_slice(M,O,(1,1)) dynamic_update_slice_in_dim(W,G,6,0) dynamic_update_index_in_dim(M,W[:4],1,0) expand_dims(M,(0,)) full((2,),3.0) full_like(M,2) index_in_dim(M,1,0)
integer_pow(M,3) integer_pow(P,-2) iota('float32',4) mulhi(I,I2) pad(W,0.0,[(1,2,1)]) pad(W,0.0,[(-1,-2,0)]) pad(M,1.0,[(0,0,2),(1,-1,0)]) reduce(M,0.0,lax.add,(0,)) reduce(M,1.0,lambda a,b:a*b,(1,))
reduce_precision(M,5,10) reduce_window(W,0.0,lax.add,(3,),(1,),'SAME') reduce_window(M,-onp.inf,lax.max,(2,2),(1,2),'VALID') reshape(T,(6,4)) reshape(T,(6,4),(1,0,2)) rev(M,(0,)) select(MB,M,M2) select_n(MI%2,M,M2)
slice(M,(0,1),(2,3)) slice(M,(0,0),(3,4),(2,3)) slice_in_dim(W,1,7,2) sort(W) sort(M,dimension=0) sort([X,W],num_keys=2) sort_key_val(X,W) split(W,(3,5)) squeeze(O,(0,)) top_k(W,3) top_k(M,2) transpose(T,(2,0,1))
argmax(M,1,'int32') batch_matmul(T,T.transpose(0,2,1)) polygamma(1.0,P) zeta(P+1,P2) betainc(P,P2,G) random_gamma_grad(P,P2) igamma_grad_a(P,P2) nextafter(W,0.0) population_count(I) clz(I) complex(W,W)
cond(True,lambda x:x+1,lambda x:x-1,W) cond(False,lambda x:x+1,lambda x:x-1,W) switch(2,[lambda x:x,lambda x:x*2,lambda x:x*3],W) switch(7,[lambda x:x,lambda x:x*2],W) while_loop(lambda x:x<9,lambda x:x*2,1.0)
fori_loop(0,5,lambda i,x:x+i,0) scan(lambda c,x:(c+x,c*x),0.0,W) scan(lambda c,x:(c+x,c*x),0.0,W,reverse=True) scan(lambda c,_:(c*2,None),1.0,None,length=4) map(lambda x:x*2,M) map(lambda x:x*2,W,batch_size=3)
associative_scan(lax.add,W) associative_scan(lax.mul,M,axis=1,reverse=True) platform_dependent(W,default=lambda x:x) conv_general_dilated(V[None],V[:,:,:2],(1,),[(1,1)]) conv_general_dilated(V[None],V[:,:,:2],(2,),'SAME',rhs_dilation=(2,))
approx_max_k(W,3) approx_min_k(W,3) cumlogsumexp(M) stop_gradient(M) rsqrt(P) erf_inv(G) ragged_dot(M,T.transpose(0,2,1)[:,:,:2],onp.array([2,1])) shape_as_value((2,3)) dtype(M) axis_size('i')
scatter(W,onp.array([[1]]),onp.array([9.0],'f4'),lax.ScatterDimensionNumbers((),(0,),(0,))) gather(W,onp.array([[1],[3]]),lax.GatherDimensionNumbers((),(0,),(0,)),(1,))
linalg.cholesky(S) linalg.eigh(S)[1] linalg.lu(A)[0] linalg.qr(A)[1].shape linalg.svd(M,compute_uv=False) linalg.triangular_solve(S,A,left_side=True,lower=True) linalg.householder_product(A,P[:4]) linalg.tridiagonal_solve(P,P2+9,P,O*onp.ones((5,1),'f4'))
""")


def programs() -> Iterator[str]:
    """Operations of lax, alone and transformed."""
    for text in LAX:
        yield f"lax.{text}"
        yield f"jax.jit(lambda: lax.{text})()"
    for x in ("M", "T", "W", "A", "P"):
        for text in [t for t in LAX if t.split("(", 1)[-1].startswith(f"{x},")]:
            yield f"jax.vmap(lambda {x}: lax.{text})(onp.stack([{x}, {x} + 1]))"
            yield f"jax.jvp(lambda {x}: lax.{text}, ({x},), (onp.ones_like({x}),))[1]"


WRONG = split_calls("""
np.ones((2,3))+np.ones((3,2)) np.dot(M,M) np.concatenate([]) np.concatenate((M,W)) np.reshape(M,(5,)) np.reshape(M,(-1,-1)) np.sum(M,axis=2) np.sum(M,axis=(0,0)) np.take(M,0.5) np.arange(0,5,0) np.linspace(0,1,-1) np.eye(-1)
np.zeros((-1,)) np.zeros('a') np.array([[1],[1,2]]) np.array('a') np.array(None) np.array(object()) np.stack([]) np.stack((M,W)) np.expand_dims(M,5) np.squeeze(M,0) np.transpose(M,(0,0)) np.transpose(M,(0,)) np.broadcast_to(W,(3,))
np.split(W,3) np.where(MB,M) np.einsum('ij,jk',M,M) np.linalg.inv(M) np.linalg.solve(A,G) np.argmax(E1) np.max(E1) np.sort('a') np.repeat(W,-1) np.tile(W,-1) np.pad(W,-1) np.pad(W,1,'nothing') np.sin('a') np.sin([1,2]) np.add(1,'a')
np.clip('a',0,1) np.bincount(W) np.digitize(M,M) np.interp(P,M,M) np.polyfit(M,M,1) np.histogram(W,-1) np.unravel_index(7,(2,)) np.quantile(M,2.0) np.quantile(MI,0.5,method='a') np.convolve(M,W) np.cross(W,W) np.kron('a',1)
lax.add(M,W) lax.add(M,MI) lax.dot(M,M) lax.slice(M,(0,),(1,)) lax.slice(M,(0,0),(9,9)) lax.dynamic_slice(M,(0,),(1,)) lax.dynamic_slice(M,(0,0),(9,9)) lax.dynamic_slice(W,(0.5,),(1,)) lax.dynamic_update_slice(M,W,(0,)) lax.concatenate([M,W],0)
lax.reshape(M,(5,)) lax.transpose(M,(0,)) lax.pad(W,0,[(0,0,0)]) lax.pad(W,0.0,[(0,0)]) lax.reduce(M,0,lax.add,(5,)) lax.select(MB,M,W) lax.select(M,M,M) lax.top_k(W,9) lax.top_k(W,-1) lax.broadcast_in_dim(W,(3,),(0,)) lax.iota('float32',-1)
lax.conv(M,M,(1,),'SAME') lax.sort(W,dimension=3) lax.rev(M,(5,)) lax.squeeze(M,(0,)) lax.scan(lambda c,x:(c,),0.0,W) lax.scan(lambda c,x:(x>0,c),0.0,W) lax.scan(lambda c,x:(c,x),0.0,W,length=3) lax.while_loop(lambda x:x,lambda x:x,1.0)
lax.while_loop(lambda x:x<1,lambda x:(x,x),0.0) lax.cond(W,lambda x:x,lambda x:x,1.0) lax.cond(True,lambda x:x,lambda x:(x,),1.0) lax.switch(0,[],1.0) lax.fori_loop(0,3,lambda i,x:x>0,1.0) lax.fori_loop(0.5,3,lambda i,x:x,1.0) lax.psum(1.0,'i')
jax.grad(lambda x:x)(W) jax.grad(lambda x:x)(1) jax.grad(lambda x:(x,x))(1.0) jax.grad(lambda x:x,argnums=3)(1.0) jax.vmap(lambda x:x)(1.0) jax.vmap(lambda x,y:x)(W,G) jax.vmap(lambda x:x,in_axes=3)(M) jax.vmap(lambda x:x,in_axes=(0,0))(M) jax.vmap(lambda x:x,out_axes=5)(M)
jax.jit(lambda x:x.nothing)(1.0) jax.jit(lambda x:1 if x > 0 else 2)(1.0) jax.jit(lambda x:float(x))(1.0) jax.jit(lambda x:onp.asarray(x))(1.0) jax.jit(lambda x:x,static_argnums=0)([1]) jax.jit(lambda x:x)('a') jax.jvp(np.sin,(1.0,),(1,)) jax.jvp(np.sin,(W,),(G,))
jax.jvp(np.sin,1.0,1.0) jax.vjp(np.sin,1.0)[1](G) jax.hessian(lambda x:x)(W)+W jax.jacfwd(3)(1.0) jax.linearize(np.sin,1.0)[1](G) jax.random.normal(3) jax.random.normal(jax.random.key(0),(-1,)) jax.random.split(jax.random.key(0),-1) jax.random.choice(jax.random.key(0),W,(9,),replace=False)
jax.random.uniform(jax.random.key(0),dtype=int) jax.random.randint(jax.random.key(0),(2,),0.5,3) jax.random.permutation(jax.random.key(0),1.5) jax.random.categorical(W,W) jax.nn.one_hot(2.5,3) jax.nn.one_hot(X,3,axis=5) jax.nn.softmax(W,axis=3) jax.nn.glu(G) np.array(W)[0.5]
np.array(W)['a'] np.array(W)[0,0] np.array(W).at[0].set('a') np.array(W).at[0,0].set(1.0) bool(np.ones(2)) float(np.ones(2)) int(np.ones(2)) len(np.array(1.0)) np.array(W).item() hash(np.ones(1)) np.ones(2).__index__() np.array(W).reshape(3) np.array(W)@np.array(M)
""")


def refusals() -> Iterator[str]:
    """What must raise an error."""
    yield from WRONG


def all_expressions() -> list[str]:
    """Returns the whole list, each once, in order."""
    parts = (
        elementwise,
        reductions,
        shapes,
        indexing,
        derivatives,
        distributions,
        matrices,
        programs,
        refusals,
    )
    return list(dict.fromkeys([text for part in parts for text in part()]))
