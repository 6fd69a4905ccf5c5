"""First-order optimizers: triples of functions that make a state of parameters, move it by gradients, and read it.

An optimizer is written for one array; `optimizer` makes it one for pytrees. The functions are pure, so a step can be
compiled, differentiated and batched.
"""

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce, update_wrapper
from typing import NamedTuple, ParamSpec, TypeVar

from effx.array import Array, Operand
from effx.array.arithmetic import absolute, conj, maximum, minimum, power, real, where
from effx.array.promotion import as_operand, convert
from effx.array.reducing import max as largest
from effx.array.reducing import sum as total
from effx.array.shaping import reshape
from effx.errors import DTypeError, ShapeError, TreeError
from effx.lazy import list_names
from effx.numpy.creation import array, zeros, zeros_like
from effx.numpy.elementwise import floor, sqrt, square
from effx.tree.mapping import leaves
from effx.tree.mapping import map as tree_map
from effx.tree.registry import PyTree, PyTreeDef, flatten, register_node

__all__ = [
    "Array", "InitFn", "JoinPoint", "Optimizer", "OptimizerState", "Params", "ParamsFn", "Schedule", "State", "Step",
    "UpdateFn", "Updates", "adagrad", "adam", "adamax", "clip_grads", "constant", "exponential_decay",
    "inverse_time_decay", "l2_norm", "make_schedule", "map", "momentum", "nesterov", "optimizer",
    "pack_optimizer_state", "piecewise_constant", "polynomial_decay", "rmsprop", "rmsprop_momentum", "sgd", "sm3",
    "unpack_optimizer_state", "zip",
]  # fmt: skip
__dir__ = list_names(__all__)

P = ParamSpec("P")
R = TypeVar("R")


def zip(*sequences: Iterable[PyTree]) -> list[tuple[PyTree, ...]]:
    """Pairs the elements of sequences of one length.

    Raises:
        ShapeError: the lengths differ.

    >>> zip([1, 2], "ab")
    [(1, 'a'), (2, 'b')]
    """
    return _pair_elements("zip", sequences)


def map(f: Callable[..., R], *sequences: Iterable[PyTree]) -> list[R]:
    """Calls a function on the elements of sequences of one length.

    Raises:
        ShapeError: the lengths differ.

    >>> map(lambda x, y: x + y, [1, 2], [3, 4])
    [4, 6]
    """
    return [f(*values) for values in _pair_elements("map", sequences)]


def _pair_elements(function_name: str, sequences: Iterable[Iterable[PyTree]]) -> list[tuple[PyTree, ...]]:
    listed = [list(s) for s in sequences]
    lengths = [len(s) for s in listed]
    if len(set(lengths)) > 1:
        raise ShapeError(f"{function_name}: sequences must have one length, got {lengths}")
    return list(builtins.zip(*listed, strict=True))


class OptimizerState(NamedTuple):
    """The state of an optimizer, a pytree.

    Attributes:
        packed_state: for each parameter the leaves of its state.
        tree_def: the structure of the parameters.
        subtree_defs: for each parameter the structure of its state.

    >>> import effx.numpy as enp
    >>> from effx.example_libraries.optimizers import momentum
    >>> state = momentum(0.1, mass=0.9).init_fn({"w": enp.ones(2)})
    >>> state.packed_state                   # the parameter and its velocity
    [[Array([1., 1.], dtype=float32), Array([0., 0.], dtype=float32)]]
    """

    packed_state: Sequence[Sequence[PyTree]]
    tree_def: PyTreeDef
    subtree_defs: tuple[PyTreeDef, ...]


register_node(
    OptimizerState,
    lambda s: ((s.packed_state,), (s.tree_def, s.subtree_defs)),
    lambda static, children: OptimizerState(*children, *static),
)

Params = PyTree
State = PyTree
Updates = PyTree
Step = int | Array
InitFn = Callable[[Params], OptimizerState]
UpdateFn = Callable[[Step, Updates, OptimizerState], OptimizerState]
ParamsFn = Callable[[OptimizerState], Params]
Schedule = Callable[[Step], "float | Array"]


class Optimizer(NamedTuple):
    """An optimizer for pytrees of parameters.

    Attributes:
        init_fn: takes parameters, returns a state.
        update_fn: takes the number of the step, from 0 on, gradients like the parameters, and a state; returns the next
            state.
        params_fn: takes a state, returns the parameters.

    >>> from effx.example_libraries.optimizers import sgd
    >>> init, update, get_params = sgd(0.5)
    >>> state = update(0, 2.0, init(3.0))                # a step against the gradient 2
    >>> print(get_params(state))
    2.0
    """

    init_fn: InitFn
    update_fn: UpdateFn
    params_fn: ParamsFn


# Functions of one array: its first state, the next one, and the array in a state.
OfArray = tuple[Callable[[Array], PyTree], Callable[[Step, Array, PyTree], PyTree], Callable[[PyTree], Array]]


def optimizer(opt_maker: Callable[P, OfArray]) -> Callable[P, Optimizer]:
    """Makes an optimizer for pytrees of one for arrays: a decorator.

    Args:
        opt_maker: returns three functions: of an array, that gives its state, any pytree; of the number of the step, a
            gradient and a state, that gives the next state; and of a state, that gives the array.

    Returns:
        A function of the same arguments that returns an `Optimizer`.

    Raises:
        TreeError: when called, gradients of another structure than the parameters, or a state that changes its
            structure.

    >>> @optimizer
    ... def descent(rate):
    ...     return lambda x: x, lambda i, g, x: x - rate * g, lambda x: x
    >>> init, update, params = descent(0.5)
    >>> params(update(0, {"w": 1.0}, init({"w": 3.0})))
    {'w': 2.5}
    """
    name = getattr(opt_maker, "__name__", "optimizer")

    def made(*args: P.args, **kwargs: P.kwargs) -> Optimizer:
        init, update, params = opt_maker(*args, **kwargs)

        def init_fn(parameters: Params) -> OptimizerState:
            values, tree = flatten(parameters)
            states = [flatten(init(x)) for x in values]
            return OptimizerState([s for s, _ in states], tree, tuple([t for _, t in states]))

        def update_fn(i: Step, gradients: Updates, state: OptimizerState) -> OptimizerState:
            packed, tree, subtrees = state
            gradient_leaves, gradient_tree = flatten(gradients)
            if gradient_tree != tree:
                raise TreeError(
                    f"{name}: gradients must have the structure of the parameters, {tree}, got {gradient_tree}"
                )
            states = [t.unflatten(s) for t, s in builtins.zip(subtrees, packed, strict=True)]
            moved = [flatten(update(i, g, s)) for g, s in builtins.zip(gradient_leaves, states, strict=True)]
            for before, (_, after) in builtins.zip(subtrees, moved, strict=True):
                if before != after:
                    raise TreeError(
                        f"{name}: the state of a parameter must keep its structure, {before}, got {after}"
                    )
            return OptimizerState([s for s, _ in moved], tree, subtrees)

        def params_fn(state: OptimizerState) -> Params:
            packed, tree, subtrees = state
            return tree.unflatten(
                [params(t.unflatten(s)) for t, s in builtins.zip(subtrees, packed, strict=True)]
            )

        return Optimizer(init_fn, update_fn, params_fn)

    update_wrapper(made, opt_maker)
    return made


# --- optimizers -----------------------------------------------------------------------------------


@optimizer
def sgd(step_size: "float | Schedule") -> OfArray:
    """Gradient descent: `x - step_size * g`.

    Args:
        step_size: a number, or a function of the number of the step.

    >>> init, update, params = sgd(0.5)
    >>> print(params(update(0, 1.0, init(3.0))))
    2.5
    """
    rate = make_schedule(step_size)

    def update(i: Step, g: Array, x: Array) -> Array:
        return x - rate(i) * g

    return lambda x0: x0, update, lambda x: x


@optimizer
def momentum(step_size: "float | Schedule", mass: float) -> OfArray:
    """Gradient descent with momentum: `v = mass * v + g`, `x - step_size * v`.

    Args:
        step_size: a number, or a function of the number of the step.
        mass: how much of the velocity stays.

    >>> init, update, params = momentum(0.5, mass=0.9)
    >>> print(params(update(0, 1.0, init(3.0))))
    2.5
    """
    rate = make_schedule(step_size)

    def update(i: Step, g: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, velocity = state
        velocity = mass * velocity + g
        return x - rate(i) * velocity, velocity

    return lambda x0: (x0, zeros_like(x0)), update, lambda state: state[0]


@optimizer
def nesterov(step_size: "float | Schedule", mass: float) -> OfArray:
    """Nesterov's method: `v = mass * v + g`, `x - step_size * (mass * v + g)`. Arguments as for `momentum`.

    Source: Sutskever, Martens, Dahl and Hinton, "On the importance of initialization and momentum in deep learning",
    2013.

    >>> init, update, params = nesterov(0.5, mass=1.0)
    >>> print(params(update(0, 1.0, init(3.0))))
    2.0
    """
    rate = make_schedule(step_size)

    def update(i: Step, g: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, velocity = state
        velocity = mass * velocity + g
        return x - rate(i) * (mass * velocity + g), velocity

    return lambda x0: (x0, zeros_like(x0)), update, lambda state: state[0]


def _inverse_root(x: Array) -> Array:
    """Returns `1 / sqrt(x)`, and 0 where x is 0."""
    positive = x > 0
    return where(positive, 1 / sqrt(where(positive, x, 1)), 0)


@optimizer
def adagrad(step_size: "float | Schedule", momentum: float = 0.9) -> OfArray:
    """AdaGrad: gradients over the root of the sum of all squares so far, averaged.

    Source: Duchi, Hazan and Singer, "Adaptive subgradient methods for online learning and stochastic optimization", 2011.

    Args:
        step_size: a number, or a function of the number of the step.
        momentum: the share of the average that stays.

    >>> init, update, params = adagrad(0.5, momentum=0.0)
    >>> print(params(update(0, 4.0, init(3.0))))
    2.5
    """
    rate = make_schedule(step_size)

    def init(x0: Array) -> tuple[Array, Array, Array]:
        return x0, zeros_like(x0), zeros_like(x0)

    def update(i: Step, g: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        x, squares, mean = state
        squares = squares + square(g)
        mean = (1.0 - momentum) * (g * _inverse_root(squares)) + momentum * mean
        return x - rate(i) * mean, squares, mean

    return init, update, lambda state: state[0]


@optimizer
def rmsprop(step_size: "float | Schedule", gamma: float = 0.9, eps: float = 1e-8) -> OfArray:
    """RMSProp: gradients over the root of the mean of their squares.

    Source: Tieleman and Hinton, lecture 6.5 of "Neural networks for machine learning", 2012.

    Args:
        step_size: a number, or a function of the number of the step.
        gamma: the share of the mean that stays.
        eps: added to the mean of squares.

    >>> init, update, params = rmsprop(0.5, gamma=0.75, eps=0.0)
    >>> print(params(update(0, 4.0, init(3.0))))
    2.0
    """
    rate = make_schedule(step_size)

    def update(i: Step, g: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, mean = state
        mean = mean * gamma + square(g) * (1.0 - gamma)
        return x - rate(i) * g / sqrt(mean + eps), mean

    return lambda x0: (x0, zeros_like(x0)), update, lambda state: state[0]


@optimizer
def rmsprop_momentum(
    step_size: "float | Schedule", gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9
) -> OfArray:
    """RMSProp with momentum: the steps of `rmsprop` add up, each with a share of the last one.

    Args:
        step_size, gamma, eps: as for `rmsprop`.
        momentum: the share of the last step.

    >>> init, update, params = rmsprop_momentum(0.5, gamma=0.75, eps=0.0)
    >>> print(params(update(0, 4.0, init(3.0))))
    2.0
    """
    rate = make_schedule(step_size)

    def init(x0: Array) -> tuple[Array, Array, Array]:
        return x0, zeros_like(x0), zeros_like(x0)

    def update(i: Step, g: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        x, mean, step = state
        mean = mean * gamma + square(g) * (1.0 - gamma)
        step = momentum * step + rate(i) * g / sqrt(mean + eps)
        return x - step, mean, step

    return init, update, lambda state: state[0]


@optimizer
def adam(step_size: "float | Schedule", b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> OfArray:
    """Adam: the mean of gradients over the root of the mean of their squares, both without the bias of their start at 0.

    Source: Kingma and Ba, "Adam: a method for stochastic optimization", 2014.

    Args:
        step_size: a number, or a function of the number of the step.
        b1, b2: the shares of the means that stay.
        eps: added to the root.

    >>> init, update, params = adam(0.5)
    >>> print(params(update(0, 4.0, init(3.0))).round(3))
    2.5
    """
    rate = make_schedule(step_size)

    def init(x0: Array) -> tuple[Array, Array, Array]:
        return x0, zeros_like(x0), zeros_like(x0)

    def update(i: Step, g: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        x, mean, squares = state
        mean = (1 - b1) * g + b1 * mean
        squares = (1 - b2) * square(g) + b2 * squares
        first = mean / (1 - _decay(b1, i + 1))
        second = squares / (1 - _decay(b2, i + 1))
        return x - rate(i) * first / (sqrt(second) + eps), mean, squares

    return init, update, lambda state: state[0]


def _decay(base: float, count: Operand) -> Array:
    """Returns a power; of a Python number too as an array, whose dtype is weak."""
    return power(as_operand(float(base)), as_operand(count))


@optimizer
def adamax(step_size: "float | Schedule", b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> OfArray:
    """Adam with the largest of the gradients, of which the share b2 stays each step, in place of their squares' mean.

    Source: Kingma and Ba, "Adam: a method for stochastic optimization", 2014.

    Args:
        step_size, b1, b2, eps: as for `adam`; `eps` is added to the largest gradient.

    >>> init, update, params = adamax(0.5, b1=0.0, eps=0.0)
    >>> print(params(update(0, 4.0, init(3.0))))
    2.5
    """
    rate = make_schedule(step_size)

    def init(x0: Array) -> tuple[Array, Array, Array]:
        return x0, zeros_like(x0), zeros_like(x0)

    def update(i: Step, g: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        x, mean, bound = state
        mean = (1 - b1) * g + b1 * mean
        bound = maximum(b2 * bound, absolute(g))
        return x - rate(i) / (1 - _decay(b1, i + 1)) * mean / (bound + eps), mean, bound

    return init, update, lambda state: state[0]


@optimizer
def sm3(step_size: "float | Schedule", momentum: float = 0.9) -> OfArray:
    """SM3: AdaGrad whose sums of squares take the memory of one vector for each axis.

    Source: Anil, Gupta, Koren and Singer, "Memory-efficient adaptive optimization", 2019.

    Args:
        step_size: a number, or a function of the number of the step.
        momentum: the share of the average that stays.

    >>> import numpy as np
    >>> init, update, params = sm3(0.5, momentum=0.0)
    >>> print(params(update(0, np.full(2, 4.0), init(np.full(2, 3.0)))))
    [2.5 2.5]
    """
    rate = make_schedule(step_size)

    def init(x0: Operand) -> tuple[Array, Array, list[Array]]:
        x = as_operand(x0)
        return x, zeros_like(x), [zeros((n,), x.type.dtype) for n in x.type.shape or (1,)]

    def update(
        i: Step, g: Array, state: tuple[Array, Array, list[Array]]
    ) -> tuple[Array, Array, list[Array]]:
        x, mean, bounds = state
        axes = range(len(bounds))
        shape = as_operand(x).type.shape
        squares = reshape(square(g), shape or (1,))
        least = [
            reshape(bound, (1,) * a + (-1,) + (1,) * (len(bounds) - a - 1)) for a, bound in enumerate(bounds)
        ]
        squares = squares + reduce(minimum, least)
        mean = (1.0 - momentum) * (g * _inverse_root(reshape(squares, shape))) + momentum * mean
        others = [tuple([a for a in axes if a != axis]) for axis in axes]
        return x - rate(i) * mean, mean, [largest(squares, rest) if rest else squares for rest in others]

    return init, update, lambda state: state[0]


# --- step sizes -----------------------------------------------------------------------------------


def constant(step_size: "float | Array") -> Schedule:
    """The same step size always.

    >>> constant(0.1)(5)
    0.1
    """
    return lambda i: step_size


def exponential_decay(step_size: float, decay_steps: float, decay_rate: float) -> Schedule:
    """Step sizes `step_size * decay_rate ** (i / decay_steps)`.

    >>> print(exponential_decay(8.0, 2, 0.5)(4))
    2.0
    """

    def schedule(i: Step) -> "float | Array":
        result: float | Array = step_size * decay_rate ** (i / decay_steps)
        return result

    return schedule


def inverse_time_decay(
    step_size: float, decay_steps: float, decay_rate: float, staircase: bool = False
) -> Schedule:
    """Step sizes `step_size / (1 + decay_rate * i / decay_steps)`; with `staircase` of `i / decay_steps` rounded down.

    >>> print(inverse_time_decay(8.0, 2, 0.5, staircase=True)(5))
    4.0
    """

    def schedule(i: Step) -> "float | Array":
        periods = floor(i / decay_steps) if staircase else i / decay_steps
        return step_size / (1 + decay_rate * periods)

    return schedule


def polynomial_decay(
    step_size: float, decay_steps: float, final_step_size: float, power: float = 1.0
) -> Schedule:
    """Step sizes that fall from `step_size` to `final_step_size` in `decay_steps` steps, as a power.

    >>> print(polynomial_decay(8.0, 4, 2.0)(2))
    5.0
    """

    def schedule(i: Step) -> "float | Array":
        left: Array = 1 - minimum(i, decay_steps) / decay_steps
        return left**power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Sequence[float] | Operand, values: Sequence[float] | Operand) -> Schedule:
    """Step sizes that change after given steps.

    Args:
        boundaries: `[n]` rising numbers of steps, the last ones with their size.
        values: `[n + 1]` sizes.

    Raises:
        ShapeError: there is not one size more than boundaries.

    >>> sizes = piecewise_constant([10, 20], [3.0, 2.0, 1.0])
    >>> print(sizes(10), sizes(11))
    3.0 2.0
    """
    ends, sizes = array(boundaries), array(values)
    if ends.type.ndim != 1 or sizes.type.ndim != 1 or ends.type.size + 1 != sizes.type.size:
        raise ShapeError(
            f"piecewise_constant: values must be one more than boundaries, got {sizes.type!r} for {ends.type!r}"
        )

    def schedule(i: Step) -> "float | Array":
        return sizes[total(as_operand(i) > ends)]

    return schedule


def make_schedule(scalar_or_schedule: "float | Array | Schedule") -> Schedule:
    """Makes a function of the number of the step of a number; a function stays as it is.

    Raises:
        DTypeError: it is neither a number nor a function.

    >>> make_schedule(0.1)(3)
    0.1
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if isinstance(scalar_or_schedule, float | int) or getattr(scalar_or_schedule, "shape", None) == ():
        return constant(scalar_or_schedule)
    raise DTypeError(
        f"make_schedule: expected a number or a function of the step, got {scalar_or_schedule!r}"
    )


# --- gradients and states -------------------------------------------------------------------------


def l2_norm(tree: PyTree) -> Array:
    """The root of the sum of all squares in a pytree of arrays.

    >>> import numpy as np
    >>> print(l2_norm({"a": np.array([3.0]), "b": 4.0}))
    5.0
    """
    squares: Array = as_operand(0.0)
    for leaf in leaves(tree):
        x = as_operand(leaf)
        squares = squares + total(real(x * conj(x)))
    return sqrt(squares)


def clip_grads(grad_tree: PyTree, max_norm: float) -> PyTree:
    """Scales gradients down together where their norm is larger than `max_norm`.

    >>> import numpy as np
    >>> print(clip_grads([np.array([3.0, 4.0])], 1.0)[0])
    [0.6 0.8]
    """
    norm = l2_norm(grad_tree)
    small = norm <= max_norm  # so that zeros stay zeros
    factor = max_norm / where(small, 1, norm)

    def clipped(g: Operand) -> Array:
        x = as_operand(g)
        return where(small, x, x * convert(factor, x.type.dtype))

    return tree_map(clipped, grad_tree)


class JoinPoint:
    """A leaf that holds another pytree: where two structures meet.

    >>> JoinPoint({"m": 1.0}).subtree
    {'m': 1.0}
    """

    def __init__(self, subtree: PyTree) -> None:
        self.subtree = subtree

    def __iter__(self) -> Iterator[PyTree]:
        """Gives the tree alone, so that a join point unpacks as a sequence of one."""
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> PyTree:
    """Makes a pytree like the parameters of a state, for what writes pytrees to files.

    Returns:
        The structure of the parameters, with a `JoinPoint` for each that holds its state.

    >>> state = momentum(0.1, 0.9).init_fn({"w": 1.0})
    >>> len(unpack_optimizer_state(state)["w"].subtree)
    2
    """
    packed, tree, subtrees = opt_state
    return tree.unflatten([JoinPoint(t.unflatten(s)) for t, s in builtins.zip(subtrees, packed, strict=True)])


def pack_optimizer_state(marked_pytree: PyTree) -> OptimizerState:
    """The inverse of `unpack_optimizer_state`.

    Raises:
        TreeError: a leaf is no `JoinPoint`.

    >>> state = momentum(0.1, 0.9).init_fn({"w": 1.0})
    >>> pack_optimizer_state(unpack_optimizer_state(state)).tree_def == state.tree_def
    True
    """
    points, tree = flatten(marked_pytree)
    for point in points:
        if not isinstance(point, JoinPoint):
            raise TreeError(f"pack_optimizer_state: each leaf must be a JoinPoint, got {point!r}")
    states = [flatten(point.subtree) for point in points]
    return OptimizerState([s for s, _ in states], tree, tuple([t for _, t in states]))
