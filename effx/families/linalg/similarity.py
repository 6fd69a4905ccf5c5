"""Reductions of square matrices by unitary similarity: to Schur's, Hessenberg's and tridiagonal form."""

from typing import final

import attrs
import numpy as np

from effx.array import Array
from effx.errors import BackendError
from effx.families.linalg.matrices import (
    Data,
    Factorization,
    Options,
    call_kernel,
    check_matrix,
    emit_empty_results,
    emits_kernel,
    info_type,
    is_on_cpu,
    kernel_name,
    lapack_option,
    nan_where_failed,
    real_type,
    sample_positive,
    sample_regular,
)
from effx.families.linalg.qr_iteration import reduce_to_schur
from effx.families.linalg.reflections import reduce_to_hessenberg, reduce_to_tridiagonal
from effx.handling import ArrayType, Atom, Body, Var, array_type, emits, lapack_target, reference_rule
from effx.ir.ops.base import Singleton, check_arity
from effx.lower.text.emit import emits_form

__all__ = ["Hessenberg", "Schur", "Tridiagonal"]


@final
@attrs.frozen
class Schur(Factorization):
    """Schur's form of matrices `[*batch, n, n]`: a = z t z^H, z unitary, t upper triangular with the eigenvalues on its
    diagonal; for real a with blocks of two rows for pairs of complex ones.

    Results: t, and with vectors z, of a's type.

    Attributes:
        vectors: True for z.
    """

    vectors: bool = True
    domain = staticmethod(sample_regular)

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """Matrices."""
        check_arity(self, types, 1)
        check_matrix(types[0], square=True, function_name=self.name)
        return (types[0].strong(),) * (1 + self.vectors)


@final
class Hessenberg(Singleton, Factorization):
    """Hessenberg's form of matrices `[*batch, n, n]`: zeros below the first diagonal under the main one.

    Results: the form, with the vectors of reflections below it, and their factors `[*batch, n - 1]`.
    """

    __slots__ = ()
    domain = staticmethod(sample_regular)

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """One matrix for both, and a vector."""
        check_arity(self, types, 1)
        check_matrix(types[0], square=True, function_name=self.name)
        (t,) = types
        return t.strong(), array_type(t.dtype, (*t.shape[:-2], max(t.shape[-1] - 1, 0)))


@final
@attrs.frozen
class Tridiagonal(Factorization):
    """Tridiagonal form of Hermitian matrices `[*batch, n, n]`.

    Results: the vectors of reflections, stored with the form; its main diagonal `[*batch, n]` and the next one
    `[*batch, n - 1]`, real; the reflections' factors `[*batch, n - 1]`.

    Attributes:
        lower: True to read and write the lower triangle.
    """

    lower: bool = True
    domain = staticmethod(sample_positive)

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """A matrix and vectors."""
        check_arity(self, types, 1)
        check_matrix(types[0], square=True, function_name=self.name)
        (t,) = types
        n = t.shape[-1]
        beside = max(n - 1, 0)
        return t.strong(), real_type(t, n), real_type(t, beside), array_type(t.dtype, (*t.shape[:-2], beside))


@emits(Schur, platform="cpu")
def emit_schur(body: Body, op: Schur, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    t, info = outputs[0].type, info_type(outputs[0].type)
    if 0 in t.shape:
        return emit_empty_results(body, outputs)
    values = [array_type(t.dtype, t.shape[:-1])] * (1 if t.kind == "c" else 2)
    options: Options = {"mode": lapack_option("NV"[op.vectors]), "sort": lapack_option("N")}
    name = lapack_target("gees", t.dtype)
    form, vectors, *_, failed = call_kernel(body, name, inputs, [t, t, *values, info, info], options, {0: 0})
    names = [form, vectors][: len(outputs)]
    return nan_where_failed(body, names, [t] * len(names), failed, info)


@emits(Hessenberg, platform="cpu")
def emit_hessenberg(
    body: Body, op: Hessenberg, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    types = [v.type for v in outputs]
    info = info_type(types[0])
    if not types[0].size:
        return emit_empty_results(body, outputs)
    options: Options = {"low": np.int32(1), "high": np.int32(types[0].shape[-1])}
    name = lapack_target("gehrd", types[0].dtype)
    *names, failed = call_kernel(body, name, inputs, [*types, info], options, {0: 0})
    return nan_where_failed(body, names, types, failed, info)


@emits_kernel(Tridiagonal)
def emit_tridiagonal(
    body: Body, op: Tridiagonal, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    types = [v.type for v in outputs]
    t, info = types[0], info_type(types[0])
    if 0 in t.shape:
        return emit_empty_results(body, outputs)
    options: Options = {"uplo": lapack_option("UL"[op.lower])} if is_on_cpu(body) else {"lower": op.lower}
    name = kernel_name(body, "hetrd" if t.kind == "c" else "sytrd", "sytrd", t)
    *names, failed = call_kernel(body, name, inputs, [*types, info], options, {0: 0})
    return nan_where_failed(body, names, types, failed, info)


@emits_form(Schur, "cuda", "rocm", "tpu")
def iterate_to_schur_form(op: Schur, a: Array) -> tuple[Array, ...]:
    """The form of platforms without a kernel.

    Raises:
        BackendError: the matrices are real. Their blocks of two rows take other iterations.
    """
    if a.type.kind != "c":
        raise BackendError(
            f"schur: real matrices have Schur's form on CPUs only, got {a.type!r}; convert them to complex ones"
        )
    return reduce_to_schur(a)[: 1 + op.vectors]


@emits_form(Hessenberg, "cuda", "rocm", "tpu")
def reflect_to_hessenberg_form(op: Hessenberg, a: Array) -> tuple[Array, ...]:
    """The form of platforms without a kernel."""
    return reduce_to_hessenberg(a)


@emits_form(Tridiagonal, "tpu")
def reflect_to_tridiagonal_form(op: Tridiagonal, a: Array) -> tuple[Array, ...]:
    """The form of platforms without a kernel."""
    return reduce_to_tridiagonal(a, op.lower)


# The oracle is SciPy, whose LAPACK functions jaxlib calls too.


@reference_rule(Schur)
def oracle_schur(op: Schur, a: Data) -> tuple[Data, ...]:
    """SciPy's function."""
    from scipy.linalg import schur

    form, vectors = np.array(a), np.array(a)
    for index in np.ndindex(*a.shape[:-2]) if a.size else ():
        form[index], vectors[index] = schur(a[index], "complex" if a.dtype.kind == "c" else "real")
    return (form, vectors) if op.vectors else (form,)


@reference_rule(Hessenberg)
def oracle_hessenberg(op: Hessenberg, a: Data) -> tuple[Data, ...]:
    """SciPy's function."""
    from scipy.linalg.lapack import get_lapack_funcs

    form, taus = np.array(a), np.zeros((*a.shape[:-2], max(a.shape[-1] - 1, 0)), a.dtype)
    for index in np.ndindex(*a.shape[:-2]) if a.size else ():
        (gehrd,) = get_lapack_funcs(("gehrd",), (a,))
        form[index], taus[index], _ = gehrd(a[index])
    return form, taus


@reference_rule(Tridiagonal)
def oracle_tridiagonal(op: Tridiagonal, a: Data) -> tuple[Data, ...]:
    """SciPy's function."""
    from scipy.linalg.lapack import get_lapack_funcs

    n = a.shape[-1]
    real = a.real.dtype
    form, main = np.array(a), np.zeros(a.shape[:-1], real)
    beside = np.zeros((*a.shape[:-2], max(n - 1, 0)), real)
    taus = np.zeros(beside.shape, a.dtype)
    for index in np.ndindex(*a.shape[:-2]) if a.size else ():
        (sytrd,) = get_lapack_funcs(("hetrd" if a.dtype.kind == "c" else "sytrd",), (a,))
        form[index], main[index], beside[index], taus[index], _ = sytrd(a[index], lower=int(op.lower))
    return form, main, beside, taus
