"""The NumPy API on effx arrays: names and semantics as in `jax.numpy`.

Never: define a function; the modules of the families do.
"""

# Each of these names would get lines of its own.
# fmt: off
# isort: off
from typing import TYPE_CHECKING

from effx.lazy import lazy

if TYPE_CHECKING:
    from effx.numpy.scalars import (
        bfloat16 as bfloat16, bool_ as bool_, cdouble as cdouble, complex128 as complex128, complex64 as
        complex64, complex_ as complex_, complexfloating as complexfloating, csingle as csingle, double
        as double, dtype as dtype, e as e, euler_gamma as euler_gamma, finfo as finfo, float16 as
        float16, float32 as float32, float64 as float64, float8_e3m4 as float8_e3m4, float8_e4m3 as
        float8_e4m3, float8_e4m3b11fnuz as float8_e4m3b11fnuz, float8_e4m3fn as float8_e4m3fn,
        float8_e4m3fnuz as float8_e4m3fnuz, float8_e5m2 as float8_e5m2, float8_e5m2fnuz as
        float8_e5m2fnuz, float8_e8m0fnu as float8_e8m0fnu, float_ as float_, floating as floating,
        generic as generic, iinfo as iinfo, inexact as inexact, inf as inf, int16 as int16, int2 as
        int2, int32 as int32, int4 as int4, int64 as int64, int8 as int8, int_ as int_, integer as
        integer, isdtype as isdtype, issubdtype as issubdtype, nan as nan, ndarray as ndarray, newaxis
        as newaxis, number as number, pi as pi, promote_types as promote_types, result_type as
        result_type, signedinteger as signedinteger, single as single, uint as uint, uint16 as uint16,
        uint2 as uint2, uint32 as uint32, uint4 as uint4, uint64 as uint64, uint8 as uint8,
        unsignedinteger as unsignedinteger,
    )
    from effx.numpy.creation import (
        array as array, asarray as asarray, astype as astype, copy as copy, empty as empty, empty_like
        as empty_like, full as full, full_like as full_like, ones as ones, ones_like as ones_like, zeros
        as zeros, zeros_like as zeros_like,
    )
    from effx.numpy.ranges import (
        arange as arange, diag_indices as diag_indices, eye as eye, fromfunction as fromfunction,
        geomspace as geomspace, identity as identity, indices as indices, linspace as linspace, logspace
        as logspace, meshgrid as meshgrid, tri as tri, tril as tril, tril_indices as tril_indices,
        tril_indices_from as tril_indices_from, triu as triu, triu_indices as triu_indices,
        triu_indices_from as triu_indices_from, vander as vander,
    )
    from effx.numpy.elementwise import (
        abs as abs, absolute as absolute, acos as acos, acosh as acosh, angle as angle, arccos as
        arccos, arccosh as arccosh, arcsin as arcsin, arcsinh as arcsinh, arctan as arctan, arctanh as
        arctanh, around as around, asin as asin, asinh as asinh, atan as atan, atanh as atanh, cbrt as
        cbrt, ceil as ceil, conj as conj, conjugate as conjugate, cos as cos, cosh as cosh, deg2rad as
        deg2rad, degrees as degrees, exp as exp, exp2 as exp2, expm1 as expm1, fabs as fabs, fix as fix,
        floor as floor, imag as imag, log as log, log10 as log10, log1p as log1p, log2 as log2,
        nan_to_num as nan_to_num, negative as negative, positive as positive, rad2deg as rad2deg,
        radians as radians, real as real, reciprocal as reciprocal, rint as rint, round as round, sign
        as sign, sin as sin, sinc as sinc, sinh as sinh, sqrt as sqrt, square as square, tan as tan,
        tanh as tanh, trunc as trunc,
    )
    from effx.numpy.binary import (
        add as add, arctan2 as arctan2, atan2 as atan2, bitwise_and as bitwise_and, bitwise_count as
        bitwise_count, bitwise_invert as bitwise_invert, bitwise_left_shift as bitwise_left_shift,
        bitwise_not as bitwise_not, bitwise_or as bitwise_or, bitwise_right_shift as
        bitwise_right_shift, bitwise_xor as bitwise_xor, clip as clip, copysign as copysign, divide as
        divide, divmod as divmod, float_power as float_power, floor_divide as floor_divide, fmax as
        fmax, fmin as fmin, fmod as fmod, heaviside as heaviside, hypot as hypot, invert as invert,
        left_shift as left_shift, logaddexp as logaddexp, logaddexp2 as logaddexp2, maximum as maximum,
        minimum as minimum, mod as mod, multiply as multiply, nextafter as nextafter, pow as pow, power
        as power, remainder as remainder, right_shift as right_shift, subtract as subtract, true_divide
        as true_divide,
    )
    from effx.numpy.logic import (
        allclose as allclose, array_equal as array_equal, array_equiv as array_equiv, equal as equal,
        greater as greater, greater_equal as greater_equal, isclose as isclose, iscomplex as iscomplex,
        iscomplexobj as iscomplexobj, isfinite as isfinite, isinf as isinf, isnan as isnan, isneginf as
        isneginf, isposinf as isposinf, isreal as isreal, isrealobj as isrealobj, isscalar as isscalar,
        less as less, less_equal as less_equal, logical_and as logical_and, logical_not as logical_not,
        logical_or as logical_or, logical_xor as logical_xor, not_equal as not_equal, select as select,
        signbit as signbit, where as where,
    )
    from effx.numpy.reductions import (
        all as all, amax as amax, amin as amin, any as any, argmax as argmax, argmin as argmin,
        count_nonzero as count_nonzero, cumprod as cumprod, cumsum as cumsum, cumulative_prod as
        cumulative_prod, cumulative_sum as cumulative_sum, diff as diff, max as max, mean as mean, min
        as min, prod as prod, ptp as ptp, std as std, sum as sum, trapezoid as trapezoid, var as var,
    )
    from effx.numpy.nanreductions import (
        nanargmax as nanargmax, nanargmin as nanargmin, nancumprod as nancumprod, nancumsum as
        nancumsum, nanmax as nanmax, nanmean as nanmean, nanmin as nanmin, nanprod as nanprod, nanstd as
        nanstd, nansum as nansum, nanvar as nanvar,
    )
    from effx.numpy.statistics import (
        average as average, corrcoef as corrcoef, cov as cov, median as median, nanmedian as nanmedian,
        nanpercentile as nanpercentile, nanquantile as nanquantile, percentile as percentile, quantile
        as quantile,
    )
    from effx.numpy.shaping import (
        atleast_1d as atleast_1d, atleast_2d as atleast_2d, atleast_3d as atleast_3d, broadcast_arrays
        as broadcast_arrays, broadcast_shapes as broadcast_shapes, broadcast_to as broadcast_to, diag as
        diag, diagflat as diagflat, diagonal as diagonal, expand_dims as expand_dims, flip as flip,
        fliplr as fliplr, flipud as flipud, matrix_transpose as matrix_transpose, moveaxis as moveaxis,
        ndim as ndim, permute_dims as permute_dims, ravel as ravel, repeat as repeat, reshape as
        reshape, resize as resize, roll as roll, rollaxis as rollaxis, rot90 as rot90, shape as shape,
        size as size, squeeze as squeeze, swapaxes as swapaxes, tile as tile, transpose as transpose,
    )
    from effx.numpy.joining import (
        append as append, array_split as array_split, column_stack as column_stack, concat as concat,
        concatenate as concatenate, delete as delete, dsplit as dsplit, dstack as dstack, hsplit as
        hsplit, hstack as hstack, pad as pad, split as split, stack as stack, unstack as unstack, vsplit
        as vsplit, vstack as vstack,
    )
    from effx.numpy.indexing import (
        argwhere as argwhere, compress as compress, extract as extract, flatnonzero as flatnonzero,
        nonzero as nonzero, ravel_multi_index as ravel_multi_index, take as take, take_along_axis as
        take_along_axis, unravel_index as unravel_index,
    )
    from effx.numpy.sorting import (
        argsort as argsort, bincount as bincount, digitize as digitize, isin as isin, lexsort as
        lexsort, searchsorted as searchsorted, sort as sort, unique as unique,
    )
    from effx.numpy.linear import (
        cross as cross, dot as dot, inner as inner, kron as kron, matmul as matmul, matvec as matvec,
        outer as outer, tensordot as tensordot, trace as trace, vdot as vdot, vecdot as vecdot, vecmat
        as vecmat,
    )
    from effx.numpy.einsums import (
        einsum as einsum,
    )
    from effx.numpy.vectorizing import (
        vectorize as vectorize,
    )

__getattr__, __all__ = lazy(
    __name__,
    {
        "scalars": (
            "bfloat16 bool_ cdouble complex128 complex64 complex_ complexfloating csingle double dtype e "
            "euler_gamma finfo float16 float32 float64 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz "
            "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float_ floating "
            "generic iinfo inexact inf int16 int2 int32 int4 int64 int8 int_ integer isdtype issubdtype "
            "nan ndarray newaxis number pi promote_types result_type signedinteger single uint uint16 "
            "uint2 uint32 uint4 uint64 uint8 unsignedinteger"
        ),
        "creation": "array asarray astype copy empty empty_like full full_like ones ones_like zeros zeros_like",
        "ranges": (
            "arange diag_indices eye fromfunction geomspace identity indices linspace logspace meshgrid "
            "tri tril tril_indices tril_indices_from triu triu_indices triu_indices_from vander"
        ),
        "elementwise": (
            "abs absolute acos acosh angle arccos arccosh arcsin arcsinh arctan arctanh around asin asinh "
            "atan atanh cbrt ceil conj conjugate cos cosh deg2rad degrees exp exp2 expm1 fabs fix floor "
            "imag log log10 log1p log2 nan_to_num negative positive rad2deg radians real reciprocal rint "
            "round sign sin sinc sinh sqrt square tan tanh trunc"
        ),
        "binary": (
            "add arctan2 atan2 bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not "
            "bitwise_or bitwise_right_shift bitwise_xor clip copysign divide divmod float_power "
            "floor_divide fmax fmin fmod heaviside hypot invert left_shift logaddexp logaddexp2 maximum "
            "minimum mod multiply nextafter pow power remainder right_shift subtract true_divide"
        ),
        "logic": (
            "allclose array_equal array_equiv equal greater greater_equal isclose iscomplex iscomplexobj "
            "isfinite isinf isnan isneginf isposinf isreal isrealobj isscalar less less_equal logical_and "
            "logical_not logical_or logical_xor not_equal select signbit where"
        ),
        "reductions": (
            "all amax amin any argmax argmin count_nonzero cumprod cumsum cumulative_prod cumulative_sum "
            "diff max mean min prod ptp std sum trapezoid var"
        ),
        "nanreductions": "nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmin nanprod nanstd nansum nanvar",
        "statistics": "average corrcoef cov median nanmedian nanpercentile nanquantile percentile quantile",
        "shaping": (
            "atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_shapes broadcast_to diag "
            "diagflat diagonal expand_dims flip fliplr flipud matrix_transpose moveaxis ndim permute_dims "
            "ravel repeat reshape resize roll rollaxis rot90 shape size squeeze swapaxes tile transpose"
        ),
        "joining": (
            "append array_split column_stack concat concatenate delete dsplit dstack hsplit hstack pad "
            "split stack unstack vsplit vstack"
        ),
        "indexing": (
            "argwhere compress extract flatnonzero nonzero ravel_multi_index take take_along_axis "
            "unravel_index"
        ),
        "sorting": "argsort bincount digitize isin lexsort searchsorted sort unique",
        "linear": "cross dot inner kron matmul matvec outer tensordot trace vdot vecdot vecmat",
        "einsums": "einsum",
        "vectorizing": "vectorize",
    },
)
