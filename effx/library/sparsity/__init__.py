"""Sparse Jacobians and Hessians: their patterns, and their entries by colouring."""

from collections.abc import Callable, Sequence
from typing import TypeVar, final

import attrs
import numpy as np

import effx
import effx.numpy as enp
from effx import Array, tree
from effx.errors import DTypeError, NoRuleError, ShapeError, TransformError, check_function, name_user_call
from effx.handling import Reference, handle, isolated
from effx.lazy import list_names
from effx.library.colouring import Colours, Pattern, colour_columns, colour_symmetric, count_colours
from effx.library.sparsity import rules
from effx.library.sparsity.dependence import Dependence, Dependences, Interactions
from effx.tree import PyTree

__all__ = [
    "Dependences",
    "Interactions",
    "SparseMatrix",
    "hessian_sparsity",
    "jacobian_sparsity",
    "sparse_hessian",
    "sparse_jacobian",
]
__dir__ = list_names(__all__)

Scipy = TypeVar("Scipy")

# Patterns of up to this many inputs are computed with NumPy.
FEW = 64


@final
@attrs.frozen(eq=False)
class SparseMatrix:
    """A matrix by its entries, in the coordinate form that `scipy.sparse.coo_matrix` takes.

    Attributes:
        rows, cols: i32[k], the indices of the entries, row by row.
        values: f[k].
        shape: of the whole matrix.

    >>> import effx.numpy as enp
    >>> from effx.library.sparsity import sparse_jacobian
    >>> matrix = sparse_jacobian(lambda x: x * x)(enp.array([1.0, 2.0]))
    >>> print(matrix.rows, matrix.cols, matrix.values, matrix.shape)
    [0 1] [0 1] [2. 4.] (2, 2)
    """

    rows: Array
    cols: Array
    values: Array
    shape: tuple[int, int] = attrs.field(metadata={"static": True})

    def todense(self) -> Array:
        """Returns the matrix with its zeros."""
        return enp.zeros(self.shape, self.values.dtype).at[self.rows, self.cols].add(self.values)

    def convert(self, maker: Callable[..., Scipy]) -> Scipy:
        """Converts by a constructor such as `scipy.sparse.coo_matrix`."""
        coordinates = np.asarray(self.rows), np.asarray(self.cols)
        return maker((np.asarray(self.values), coordinates), shape=self.shape)


def jacobian_sparsity(f: Callable[..., PyTree], *examples: PyTree) -> Pattern:
    """Says which elements of a function's result depend on which elements of its arguments.

    The pattern holds for all arguments of these shapes: an entry outside it is zero everywhere. Closed-over
    arrays are constants.

    Args:
        f: takes and returns pytrees of arrays.
        *examples: pytrees of floating arrays, of which only shapes and dtypes matter.

    Returns:
        bool[m, n] for m elements of the results and n elements of the arguments, in the order of the leaves,
        row by row.

    Raises:
        DTypeError: an argument is no floating array.
        TransformError: there are no arguments, or f communicates along a named axis.

    >>> import effx.numpy as enp
    >>> print(jacobian_sparsity(lambda x: x[1:] * x[:-1], enp.ones(3)).astype(int))
    [[1 1 0]
     [0 1 1]]
    """
    return _patterns(f, examples, Dependences)[0]


def hessian_sparsity(f: Callable[..., PyTree], *examples: PyTree) -> Pattern:
    """Says which second derivatives of a function may be nonzero.

    The pattern holds for all arguments of these shapes. For several results it is the union.

    Args:
        f: takes and returns pytrees of arrays.
        *examples: pytrees of floating arrays, of which only shapes and dtypes matter.

    Returns:
        bool[n, n], symmetric, for n elements of the arguments in the order of the leaves.

    Raises:
        DTypeError: an argument is no floating array.
        TransformError: there are no arguments, or f communicates along a named axis.

    >>> import effx.numpy as enp
    >>> print(hessian_sparsity(lambda x: x[0] * x[1] + x[2] ** 2, enp.ones(3)).astype(int))
    [[0 1 0]
     [1 0 0]
     [0 0 1]]
    """
    return _patterns(f, examples, Interactions)[1]


def _patterns(
    f: Callable[..., PyTree], examples: Sequence[PyTree], kind: type[Dependences]
) -> tuple[Pattern, Pattern]:
    check_function(f)
    leaves, structure = tree.flatten(tuple(examples))
    values = [_check_real(x) for x in leaves]
    shapes, dtypes = [x.shape for x in values], [x.dtype for x in values]
    sizes = [x.size for x in values]
    n = sum(sizes)
    if not n:
        raise TransformError(f"{name_user_call()}: takes at least one element to differentiate by, got none")
    handler = kind(n)

    def run(unit: Array) -> tuple[Array, Array]:
        ends = np.cumsum([0, *sizes])
        with handler.installed() as frame:
            boxes = [
                handler.box(frame, Dependence(None, unit[a:b].reshape((*shape, n))), enp.zeros(shape, dtype))
                for a, b, shape, dtype in zip(ends[:-1], ends[1:], shapes, dtypes, strict=True)
            ]
            results = [
                handler.payload(frame, enp.asarray(y)) for y in tree.leaves(f(*structure.unflatten(boxes)))
            ]
            rows = [handler.sets(y).reshape((-1, n)) for y in results]
            state: Array = frame.state  # type: ignore[assignment]  # states are of any type
        return enp.concatenate([enp.zeros((0, n), bool), *rows]), state

    # A pattern is a constant, also for a function that is being compiled.
    with isolated():
        rows, interactions = _evaluate_columns(run, np.eye(n, dtype=bool))
        return np.asarray(rows), np.asarray(interactions)


def _evaluate_columns(run: Callable[[Array], tuple[Array, Array]], unit: Pattern) -> tuple[Array, Array]:
    # For few inputs, compiling takes a hundred times as long as running on NumPy.
    if len(unit) <= FEW:
        try:
            with handle(Reference()):
                return run(enp.asarray(unit))
        except NoRuleError:
            pass  # a user's operation without a NumPy rule
    return effx.jit(run)(enp.asarray(unit))


def _check_real(x: object, *, function_name: str = "") -> Array:
    value = x if isinstance(x, Array) else enp.asarray(x)
    if value.type.kind != "f":
        raise DTypeError(
            f"{function_name or name_user_call()}: arguments must be floating arrays, got {value.type!r}"
        )
    return value


@final
@attrs.frozen(eq=False)
class Compression:
    """The plan to compute a sparse matrix from products with sums of basis vectors.

    Attributes:
        rows, cols: the indices of its entries.
        shape: of the matrix.
        seeds: bool[colours, n], the columns (or rows) that are summed.
        colour, place: for each entry the product that it is read from, and its index there.
        forward: whether the products are with columns.
    """

    rows: Colours
    cols: Colours
    shape: tuple[int, int]
    seeds: Pattern
    colour: Colours
    place: Colours
    forward: bool = True

    @property
    def products(self) -> int:
        """The number of products, which is the number of colours."""
        return len(self.seeds)

    def matrix(self, products: Array) -> SparseMatrix:
        """Returns the matrix from the products, f[colours, m]."""
        values = products[self.colour, self.place]
        return SparseMatrix(
            enp.asarray(self.rows.astype(np.int32)),
            enp.asarray(self.cols.astype(np.int32)),
            values,
            self.shape,
        )


def _seed_vectors(colours: Colours) -> Pattern:
    seeds: Pattern = np.arange(count_colours(colours))[:, None] == colours
    return seeds


def _jacobian_compression(pattern: Pattern) -> Compression:
    rows, cols = np.nonzero(pattern)
    shape = (pattern.shape[0], pattern.shape[1])
    by_column, by_row = colour_columns(pattern), colour_columns(pattern.T)
    if count_colours(by_column) <= count_colours(by_row):
        return Compression(rows, cols, shape, _seed_vectors(by_column), by_column[cols], rows)
    return Compression(rows, cols, shape, _seed_vectors(by_row), by_row[rows], cols, forward=False)


def _hessian_compression(pattern: Pattern) -> Compression:
    rows, cols = np.nonzero(pattern)
    colours = colour_symmetric(pattern)
    seeds = _seed_vectors(colours)
    # An entry is read from its column's sum if no other entry of its row is in that sum, else from its
    # mirror's.
    alone = (pattern.astype(np.intp) @ seeds.T)[rows, colours[cols]] == 1
    colour = np.where(alone, colours[cols], colours[rows])
    return Compression(rows, cols, (len(pattern), len(pattern)), seeds, colour, np.where(alone, rows, cols))


@final
@attrs.frozen(eq=False)
class SparseDerivative:
    """A function that returns a sparse matrix of derivatives, made by `sparse_jacobian` and `sparse_hessian`.

    The pattern is found at the first call with arguments of new shapes.

    Attributes:
        function: the function to differentiate.
        order: 1 for a Jacobian, 2 for a Hessian.
        pattern: bool[m, n]; None to find it.
    """

    function: Callable[..., PyTree]
    order: int
    pattern: Pattern | None = None
    plans: dict[object, Compression] = attrs.field(factory=dict, init=False, repr=False)

    @property
    def _what(self) -> str:
        return "sparse_jacobian" if self.order == 1 else "sparse_hessian"

    def plan(self, *arguments: PyTree) -> Compression:
        """Returns the pattern's indices and colours for arguments of these shapes."""
        leaves, structure = tree.flatten(arguments)
        values = [_check_real(x, function_name=self._what) for x in leaves]
        key = (structure, tuple([(x.shape, x.dtype) for x in values]))
        if key not in self.plans:
            pattern = self.pattern
            if pattern is None:
                find = jacobian_sparsity if self.order == 1 else hessian_sparsity
                pattern = find(self.function, *arguments)
            n = sum([x.size for x in values])
            pattern = np.asarray(pattern, bool)
            if pattern.ndim != 2 or pattern.shape[1] != n:
                raise ShapeError(
                    f"{self._what}: the pattern must have a column for each of {n} elements, got shape {pattern.shape}"
                )
            self.plans[key] = (
                _jacobian_compression(pattern) if self.order == 1 else _hessian_compression(pattern)
            )
        return self.plans[key]

    def __call__(self, *arguments: PyTree) -> SparseMatrix:
        """Returns the matrix at the arguments."""
        plan = self.plan(*arguments)
        leaves, structure = tree.flatten(arguments)
        values = [enp.asarray(x) for x in leaves]
        ends = np.cumsum([0, *[x.size for x in values]])

        def flat(*moving: Array) -> Array:
            results = tree.leaves(self.function(*structure.unflatten(moving)))
            return enp.concatenate([enp.ravel(enp.asarray(y)) for y in results])

        def cut(rows: Array) -> list[Array]:
            return [
                rows[..., a:b].reshape((*rows.shape[:-1], *x.shape)).astype(x.dtype)
                for a, b, x in zip(ends[:-1], ends[1:], values, strict=True)
            ]

        m = sum([y.size for y in tree.leaves(effx.eval_shape(self.function, *arguments))])
        rows = plan.shape[0] if self.order == 1 else 1
        if m != rows:
            raise ShapeError(f"{self._what}: the function must give {rows} elements, gives {m}")
        seeds = enp.asarray(plan.seeds)
        if not plan.forward:
            y, pull = effx.vjp(flat, *values)
            return plan.matrix(_join_parts(effx.vmap(pull)(seeds.astype(y.dtype)), plan.products))
        if self.order == 1:
            products = effx.vmap(lambda *d: effx.jvp(flat, values, d)[1])(*cut(seeds))
        else:
            gradient = effx.grad(lambda x: enp.sum(flat(*x)))
            products = _join_parts(
                effx.vmap(lambda *d: effx.jvp(gradient, (values,), (list(d),))[1])(*cut(seeds)), plan.products
            )
        return plan.matrix(products)


def _join_parts(parts: Sequence[Array], rows: int) -> Array:
    return enp.concatenate([p.reshape((rows, -1)) for p in parts], axis=1)


def sparse_jacobian(f: Callable[..., PyTree], pattern: Pattern | None = None) -> SparseDerivative:
    """Returns a function that gives f's Jacobian by its entries.

    It takes one `jvp` for each colour of a column colouring, or one `vjp` for each colour of a row colouring
    if these are fewer: three for a tridiagonal matrix of any size.

    Args:
        f: takes and returns pytrees of floating arrays.
        pattern: bool[m, n] as `jacobian_sparsity` gives it; None to find it.

    Returns:
        A function of the same arguments that returns a `SparseMatrix` of shape (m, n); its `plan` has the
        number of products.

    Raises:
        ShapeError: the pattern does not fit the function.
        DTypeError: an argument is no floating array.

    >>> import effx.numpy as enp
    >>> jacobian = sparse_jacobian(lambda x: x[1:] * x[:-1])
    >>> print(jacobian(enp.array([1.0, 2.0, 3.0])).todense())
    [[2. 1. 0.]
     [0. 3. 2.]]
    """
    check_function(f)
    return SparseDerivative(f, 1, pattern)


def sparse_hessian(f: Callable[..., PyTree], pattern: Pattern | None = None) -> SparseDerivative:
    """Returns a function that gives the Hessian of a scalar function by its entries.

    It takes one derivative of the gradient for each colour of a star colouring of the pattern.

    Args:
        f: takes pytrees of floating arrays and returns one scalar.
        pattern: bool[n, n] as `hessian_sparsity` gives it; None to find it.

    Returns:
        A function of the same arguments that gives a `SparseMatrix` of shape (n, n).

    Raises:
        ShapeError: the pattern does not fit the function, or f gives no scalar.
        DTypeError: an argument is no floating array.

    >>> import effx.numpy as enp
    >>> hessian = sparse_hessian(lambda x: enp.sum(x[1:] * x[:-1]))
    >>> print(hessian(enp.array([1.0, 2.0, 3.0])).todense())
    [[0. 1. 0.]
     [1. 0. 1.]
     [0. 1. 0.]]
    """
    check_function(f)
    return SparseDerivative(f, 2, pattern)
