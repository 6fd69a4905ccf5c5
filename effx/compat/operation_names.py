"""Look up effx's operations by the names of JAX's primitives: `lax.sin_p` and the like.

One operation of effx's can be several of JAX's, by a parameter: a scatter that adds is `scatter_add_p`.
"""

from collections.abc import Mapping

__all__ = ["CALLED", "LAX", "LINALG", "PRIMITIVES"]

# By module, what is called alike in both.
_ALIKE = {
    "ir.ops.elementwise": "abs acos acosh add and asin asinh atan2 atan atanh cbrt ceil clamp complex conj cos cosh div "
    "exp2 exp expm1 floor imag integer_pow is_finite log1p log logistic max min mul neg not or "
    "population_count pow real rem rsqrt shift_left shift_right_arithmetic shift_right_logical sign "
    "sin sinh sqrt square sub tan tanh xor",
    "ir.ops.collective": "all_gather all_to_all axis_index pmax pmin ppermute psum",
    "ir.ops.compare": "eq ge gt le lt ne",
    "ir.ops.control": "cond scan while",
    "ir.ops.convert": "copy optimization_barrier reduce_precision stop_gradient",
    "ir.ops.index": "gather scatter",
    "ir.ops.linalg": "dot_general",
    "ir.ops.reduce": "reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum reduce_xor",
    "ir.ops.shape": "broadcast_in_dim concatenate dynamic_slice dynamic_update_slice iota pad reshape slice transpose",
    "ir.ops.solve": "linear_solve",
    "families.bessel": "bessel_i0e bessel_i1e",
    "families.bit_generators": "rng_bit_generator rng_uniform",
    "families.fft": "fft",
    "families.gamma": "digamma lgamma polygamma zeta",
    "families.incomplete": "igamma_grad_a igamma igammac",
    "families.mulhi": "mulhi",
    "families.sort": "sort",
    "families.special": "erf_inv erf erfc",
    "families.windows": "reduce_window_max reduce_window_min reduce_window_sum",
}
_CLASSES = {
    "bessel_i0e": "BesselI0e",
    "bessel_i1e": "BesselI1e",
    "log1p": "Log1p",
    "pmax": "PMax",
    "pmin": "PMin",
    "ppermute": "PPermute",
    "psum": "PSum",
}

# Primitives with another name in effx: the module, the class, and the parameter that selects the operation.
_OTHER = {
    "argmax": ("ir.ops.reduce", "ArgMax"),
    "argmin": ("ir.ops.reduce", "ArgMin"),
    "bitcast_convert_type": ("ir.ops.convert", "Bitcast"),
    "clz": ("ir.ops.elementwise", "CountLeadingZeros"),
    "conv_general_dilated": ("families.convolution", "Convolution"),
    "convert_element_type": ("ir.ops.convert", "Convert"),
    "cummax": ("ir.ops.reduce", "CumMax"),
    "cummin": ("ir.ops.reduce", "CumMin"),
    "cumprod": ("ir.ops.reduce", "CumProd"),
    "cumsum": ("ir.ops.reduce", "CumSum"),
    "layout_constraint": ("ir.ops.layout", "ConstrainLayout"),
    "nextafter": ("ir.ops.elementwise", "NextAfter"),
    "regularized_incomplete_beta": ("families.incomplete", "Betainc"),
    "rev": ("ir.ops.shape", "Reverse"),
    "round": ("ir.ops.elementwise", "RoundToEven"),
    "scatter_add": ("ir.ops.index", "Scatter"),
    "scatter_max": ("ir.ops.index", "Scatter"),
    "scatter_min": ("ir.ops.index", "Scatter"),
    "scatter_mul": ("ir.ops.index", "Scatter"),
    "select_n": ("ir.ops.elementwise", "Select"),
    "sharding_constraint": ("ir.ops.sharding", "Constrain"),
}

LINALG: Mapping[str, tuple[str, str]] = {
    "cholesky": ("families.linalg.cholesky", "Cholesky"),
    "eig": ("families.linalg.eigen", "Eig"),
    "eigh": ("families.linalg.eigen", "Eigh"),
    "hessenberg": ("families.linalg.similarity", "Hessenberg"),
    "householder_product": ("families.linalg.qr", "HouseholderProduct"),
    "lu": ("families.linalg.lu", "Lu"),
    "qr": ("families.linalg.qr", "Qr"),
    "schur": ("families.linalg.similarity", "Schur"),
    "svd": ("families.linalg.eigen", "Svd"),
    "triangular_solve": ("families.linalg.triangular", "TriangularSolve"),
    "tridiagonal": ("families.linalg.similarity", "Tridiagonal"),
    "tridiagonal_solve": ("families.linalg.tridiagonal", "TridiagonalSolve"),
    "lu_pivots_to_permutation": ("families.linalg.lu", "PivotsToPermutation"),
}
"""The same as `LAX` for `jax.lax.linalg`."""

# Those of `jax.extend.core.primitives` that neither has.
_MORE = {
    "custom_jvp_call": ("ir.ops.custom", "CustomCall"),
    "custom_vjp_call": ("ir.ops.custom", "CustomCall"),
    "get": ("ir.refs", "RefGet"),
    "jit": ("ir.ops.control", "Call"),
    "name": ("ir.ops.checkpoint", "CheckpointName"),
    "remat": ("ir.ops.checkpoint", "Checkpoint"),
    "swap": ("ir.refs", "RefSwap"),
    "threefry2x32": ("ir.ops.random", "Threefry2x32"),
}

LAX: Mapping[str, tuple[str, str]] = _OTHER | {
    name: (module, _CLASSES.get(name) or "".join([w.title() for w in name.split("_")]))
    for module, names in _ALIKE.items()
    for name in names.split()
}
"""Modules and classes of effx's operations, by the name of the primitive in `jax.lax` without its `_p`."""

PRIMITIVES: Mapping[str, tuple[str, str]] = {**LAX, **LINALG, **_MORE}
"""The same for `jax.extend.core.primitives`."""

# Names of primitives that differ from those of the variables that hold them.
CALLED: Mapping[str, str] = {
    "linear_solve": "custom_linear_solve",
    "remat": "remat2",
    **{f"scatter_{how}": f"scatter-{how}" for how in ("add", "max", "min", "mul")},
}
