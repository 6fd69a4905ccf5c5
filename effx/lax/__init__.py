"""The operations of XLA as functions, named as in jax.lax.

They are strict: arrays of different dtypes are refused, and so are shapes that differ by more than
axes of size 1. Python numbers adapt to the arrays beside them. `effx.numpy` is the lenient side.

Never: promote one array's dtype to another's.
"""

# Each of these names would get lines of its own.
# fmt: off
# isort: off
from typing import TYPE_CHECKING

from effx.lazy import lazy

if TYPE_CHECKING:
    from effx.lax.collective import (
        all_gather as all_gather, all_to_all as all_to_all, axis_index as axis_index, axis_size as axis_size,
        pmax as pmax, pmean as pmean, pmin as pmin, ppermute as ppermute, pshuffle as pshuffle, psum as psum,
        psum_scatter as psum_scatter, pswapaxes as pswapaxes,
    )
    from effx.lax.compare import (
        eq as eq, ge as ge, gt as gt, le as le, lt as lt, ne as ne,
    )
    from effx.lax.control.associative import (
        associative_scan as associative_scan,
    )
    from effx.lax.control.branches import (
        cond as cond, switch as switch,
    )
    from effx.lax.control.loops import (
        fori_loop as fori_loop, while_loop as while_loop,
    )
    from effx.lax.control.scans import (
        map as map, scan as scan,
    )
    from effx.lax.control.solves import (
        custom_linear_solve as custom_linear_solve, custom_root as custom_root,
    )
    from effx.lax.convert import (
        bitcast_convert_type as bitcast_convert_type, convert_element_type as convert_element_type,
        optimization_barrier as optimization_barrier, reduce_precision as reduce_precision,
        stop_gradient as stop_gradient,
    )
    from effx.lax.elementwise import (
        RoundingMethod as RoundingMethod, abs as abs, acos as acos, acosh as acosh, add as add, asin as
        asin, asinh as asinh, atan as atan, atan2 as atan2, atanh as atanh, bitwise_and as bitwise_and,
        bitwise_not as bitwise_not, bitwise_or as bitwise_or, bitwise_xor as bitwise_xor, cbrt as cbrt,
        ceil as ceil, clamp as clamp, clz as clz, complex as complex, conj as conj, cos as cos, cosh as
        cosh, div as div, erf as erf, erf_inv as erf_inv, erfc as erfc, exp as exp, exp2 as exp2, expm1
        as expm1, floor as floor, imag as imag, integer_pow as integer_pow, is_finite as is_finite, log
        as log, log1p as log1p, logistic as logistic, max as max, min as min, mul as mul, neg as neg,
        nextafter as nextafter, population_count as population_count, pow as pow, real as real, rem as
        rem, round as round, rsqrt as rsqrt, select as select, select_n as select_n, shift_left as
        shift_left, shift_right_arithmetic as shift_right_arithmetic, shift_right_logical as
        shift_right_logical, sign as sign, sin as sin, sinh as sinh, sqrt as sqrt, square as square, sub
        as sub, tan as tan, tanh as tanh,
    )
    from effx.lax.index import (
        GatherDimensionNumbers as GatherDimensionNumbers, GatherScatterMode as GatherScatterMode,
        ScatterDimensionNumbers as ScatterDimensionNumbers, gather as gather, scatter as scatter,
        scatter_add as scatter_add, scatter_max as scatter_max, scatter_min as scatter_min, scatter_mul
        as scatter_mul, scatter_sub as scatter_sub,
    )
    from effx.lax.linalg import (
        DotDimensionNumbers as DotDimensionNumbers, Precision as Precision, PrecisionLike as
        PrecisionLike, batch_matmul as batch_matmul, dot as dot, dot_general as dot_general,
    )
    from effx.lax.reductions import (
        argmax as argmax, argmin as argmin, cumlogsumexp as cumlogsumexp, cummax as cummax, cummin as
        cummin, cumprod as cumprod, cumsum as cumsum, reduce as reduce, reduce_and as reduce_and,
        reduce_max as reduce_max, reduce_min as reduce_min, reduce_or as reduce_or, reduce_prod as
        reduce_prod, reduce_sum as reduce_sum, reduce_xor as reduce_xor,
    )
    from effx.lax.shape import (
        broadcast as broadcast, broadcast_in_dim as broadcast_in_dim, broadcasted_iota as
        broadcasted_iota, collapse as collapse, concatenate as concatenate, expand_dims as expand_dims,
        full as full, full_like as full_like, iota as iota, pad as pad, reshape as reshape, rev as rev,
        split as split, squeeze as squeeze, transpose as transpose,
    )
    from effx.lax.slicing import (
        dynamic_index_in_dim as dynamic_index_in_dim, dynamic_slice as dynamic_slice,
        dynamic_slice_in_dim as dynamic_slice_in_dim, dynamic_update_index_in_dim as
        dynamic_update_index_in_dim, dynamic_update_slice as dynamic_update_slice,
        dynamic_update_slice_in_dim as dynamic_update_slice_in_dim, index_in_dim as index_in_dim, slice
        as slice, slice_in_dim as slice_in_dim,
    )
    from effx.lax.sorting import (
        sort as sort, sort_key_val as sort_key_val, top_k as top_k,
    )

__getattr__, __all__ = lazy(
    __name__,
    {
        "collective": (
            "all_gather all_to_all axis_index axis_size pmax pmean pmin ppermute pshuffle psum "
            "psum_scatter pswapaxes"
        ),
        "compare": "eq ge gt le lt ne",
        "control.associative": "associative_scan",
        "control.branches": "cond switch",
        "control.loops": "fori_loop while_loop",
        "control.scans": "map scan",
        "control.solves": "custom_linear_solve custom_root",
        "convert": (
            "bitcast_convert_type convert_element_type optimization_barrier reduce_precision "
            "stop_gradient"
        ),
        "elementwise": (
            "RoundingMethod abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_not "
            "bitwise_or bitwise_xor cbrt ceil clamp clz complex conj cos cosh div erf erf_inv erfc exp "
            "exp2 expm1 floor imag integer_pow is_finite log log1p logistic max min mul neg nextafter "
            "population_count pow real rem round rsqrt select select_n shift_left shift_right_arithmetic "
            "shift_right_logical sign sin sinh sqrt square sub tan tanh"
        ),
        "index": (
            "GatherDimensionNumbers GatherScatterMode ScatterDimensionNumbers gather scatter scatter_add "
            "scatter_max scatter_min scatter_mul scatter_sub"
        ),
        "linalg": "DotDimensionNumbers Precision PrecisionLike batch_matmul dot dot_general",
        "reductions": (
            "argmax argmin cumlogsumexp cummax cummin cumprod cumsum reduce reduce_and reduce_max "
            "reduce_min reduce_or reduce_prod reduce_sum reduce_xor"
        ),
        "shape": (
            "broadcast broadcast_in_dim broadcasted_iota collapse concatenate expand_dims full full_like "
            "iota pad reshape rev split squeeze transpose"
        ),
        "slicing": (
            "dynamic_index_in_dim dynamic_slice dynamic_slice_in_dim dynamic_update_index_in_dim "
            "dynamic_update_slice dynamic_update_slice_in_dim index_in_dim slice slice_in_dim"
        ),
        "sorting": "sort sort_key_val top_k",
    },
)
