"""Mistakes in the words that effx and JAX share, one in each function. The wrong line has the message expected of mypy."""

import functools
from dataclasses import dataclass

import effx
import effx.numpy as enp
from effx import Array, lax


@dataclass
class Params:
    w: Array
    b: Array


def total(x: Array) -> Array:
    return (x * x).sum()


def weighted(x: Array, w: Array) -> Array:
    return (x * w).sum()


def model(params: Params, x: Array) -> Array:
    return (x @ params.w + params.b).sum()


def pair_step(carry: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], Array]:
    return (carry[0] + x, carry[1] * x), x


def plus(carry: Array, x: Array) -> tuple[Array, Array]:
    return carry + x, x


def is_small(x: Array) -> Array:
    return x < 10


@effx.custom_vjp
def clip(x: Array, limit: Array) -> Array:
    return x


def clip_forward(x: Array, limit: Array) -> tuple[Array, Array]:
    return x, limit


def clip_backward(limit: Array, ct: Array) -> tuple[Array, None]:
    return enp.clip(ct, -limit, limit), None


@effx.custom_jvp
def wave(x: Array) -> Array:
    return enp.sin(x)


def jit_with_one_argument_more(x: Array) -> None:
    """`jit`: one argument too many"""
    effx.jit(total)(x, x)  # expect: call-arg


def jit_with_a_text(x: Array) -> None:
    """`jit`: an argument of another type"""
    effx.jit(weighted)(x, "w")  # expect: arg-type


def jit_with_another_result(x: Array) -> None:
    """`jit`: the result taken for an int"""
    n: int = effx.jit(total)(x)  # expect: assignment
    print(n)


def jit_with_an_unknown_option() -> None:
    """`jit`: a misspelt option"""
    effx.jit(total, static_argnum=0)  # expect: call-overload call-overload


def jit_donates_by_text() -> None:
    """`jit`: `donate_argnums="0"`"""
    effx.jit(total, donate_argnums="0")  # expect: arg-type


def jit_static_names_by_number() -> None:
    """`jit`: `static_argnames=0`"""
    effx.jit(total, static_argnames=0)  # expect: call-overload


def jit_of_a_number() -> None:
    """`jit` of a number"""
    effx.jit(3)  # expect: call-overload


def jit_of_a_partial(x: Array) -> None:
    """`jit` of a partial: one argument too many"""
    effx.jit(functools.partial(weighted, x))(x, x)  # missed: mypy reads what a partial takes as Any


def lower_with_a_text() -> None:
    """`jit(f).lower`: an argument of another type"""
    effx.jit(total).lower("x")  # expect: arg-type


def grad_of_a_partial(x: Array) -> None:
    """`grad` of a partial: one argument too many"""
    effx.grad(functools.partial(weighted, x))(x, x)  # missed: mypy reads what a partial takes as Any


def vmap_of_a_partial(x: Array) -> None:
    """`vmap` of a partial: one argument too many"""
    effx.vmap(functools.partial(weighted, x))(x, x)  # missed: mypy reads what a partial takes as Any


def checkpoint_with_one_argument_more(x: Array) -> None:
    """`checkpoint`: one argument too many"""
    effx.checkpoint(total)(x, x)  # expect: call-arg


def grad_without_arguments() -> None:
    """`grad`: no argument"""
    effx.grad(total)()  # expect: call-overload


def grad_with_a_text() -> None:
    """`grad`: an argument of another type"""
    effx.grad(total)("x")  # expect: call-overload


def grad_by_text() -> None:
    """`grad`: `argnums="0"`"""
    effx.grad(total, argnums="0")  # expect: arg-type


def grad_of_a_record(params: Params, x: Array) -> None:
    """`grad`: a record taken for an array"""
    y: Array = effx.grad(model)(params, x)  # expect: assignment
    print(y)


def grad_without_the_pair(x: Array) -> None:
    """`grad`: `has_aux=True` of a function that returns no pair"""
    effx.grad(total, has_aux=True)  # expect: call-overload


def value_and_grad_as_three(x: Array) -> None:
    """`value_and_grad`: the result taken apart in three"""
    value, gradient, aux = effx.value_and_grad(total)(x)  # expect: misc
    print(value, gradient, aux)


def vmap_in_axes_by_text() -> None:
    """`vmap`: `in_axes="0"`"""
    effx.vmap(total, in_axes="0")  # expect: call-overload


def vmap_out_axes_by_text() -> None:
    """`vmap`: `out_axes="0"`"""
    effx.vmap(total, out_axes="0")  # expect: call-overload


def vmap_axis_size_by_text() -> None:
    """`vmap`: `axis_size="4"`"""
    effx.vmap(total, axis_size="4")  # expect: call-overload


def vmap_with_a_text() -> None:
    """`vmap`: an argument of another type"""
    effx.vmap(total)("x")  # expect: call-overload


def vmap_of_grad_as_a_text(x: Array) -> None:
    """`vmap(grad(f))`: the result taken for a text"""
    text: str = effx.vmap(effx.grad(total))(x)  # expect: assignment
    print(text)


def pmap_in_axes_by_text() -> None:
    """`pmap`: `in_axes="0"`"""
    effx.pmap(total, in_axes="0")  # expect: arg-type


def jvp_with_too_few_primals(x: Array) -> None:
    """`jvp`: too few primals"""
    effx.jvp(weighted, (x,), (x,))  # expect: arg-type


def jvp_with_too_many_primals(x: Array) -> None:
    """`jvp`: too many primals"""
    effx.jvp(total, (x, x), (x, x))  # expect: arg-type


def jvp_with_too_few_tangents(x: Array) -> None:
    """`jvp`: fewer tangents than primals"""
    effx.jvp(weighted, (x, x), (x,))  # missed: as many tangents as a tuple of unknown length has


def jvp_without_a_tuple(x: Array) -> None:
    """`jvp`: an array in place of the tuple of primals"""
    effx.jvp(total, x, x)  # expect: call-overload


def vjp_with_one_primal_more(x: Array) -> None:
    """`vjp`: one primal too many"""
    effx.vjp(total, x, x)  # expect: call-arg arg-type


def vjp_with_two_cotangents(x: Array) -> None:
    """`vjp`: the pullback with two cotangents"""
    y, pull = effx.vjp(total, x)
    pull(y, y)  # expect: call-overload


def linearize_with_too_few_primals(x: Array) -> None:
    """`linearize`: too few primals"""
    effx.linearize(weighted, x)  # expect: arg-type


def linearize_with_one_tangent_more(x: Array) -> None:
    """`linearize`: the pushforward with one tangent too many"""
    _, push = effx.linearize(total, x)
    push(x, x)  # expect: call-overload


def linear_transpose_with_one_primal_more(x: Array) -> None:
    """`linear_transpose`: one primal too many"""
    effx.linear_transpose(total, x, x)  # expect: call-arg arg-type


def jacfwd_with_one_argument_more(x: Array) -> None:
    """`jacfwd`: one argument too many"""
    effx.jacfwd(total)(x, x)  # expect: call-overload


def jacfwd_with_a_text() -> None:
    """`jacfwd`: an argument of another type"""
    effx.jacfwd(total)("x")  # expect: call-overload


def jacrev_by_second_with_one_argument_less(x: Array) -> None:
    """`jacrev`: `argnums=1` and one argument too few"""
    effx.jacrev(weighted, argnums=1)(x)  # expect: call-arg


def hessian_without_arguments() -> None:
    """`hessian`: no argument"""
    effx.hessian(total)()  # expect: call-overload


def cond_with_one_operand_more(x: Array) -> None:
    """`cond`: one operand too many"""
    lax.cond(True, total, total, x, x)  # expect: call-arg arg-type arg-type


def cond_with_one_operand_less(x: Array) -> None:
    """`cond`: one operand too few"""
    lax.cond(True, weighted, weighted, x)  # expect: arg-type arg-type


def cond_with_a_text() -> None:
    """`cond`: an operand of another type"""
    lax.cond(True, total, total, "x")  # expect: arg-type arg-type


def cond_of_two_arities(x: Array) -> None:
    """`cond`: branches that take different numbers of operands"""
    lax.cond(True, total, weighted, x)  # expect: arg-type


def switch_with_one_operand_more(x: Array) -> None:
    """`switch`: one operand too many"""
    lax.switch(0, [total, total], x, x)  # expect: call-arg list-item list-item


def while_loop_changes_its_value(x: Array) -> None:
    """`while_loop`: a body that returns another type"""
    lax.while_loop(is_small, lambda x: "x", x)  # expect: arg-type return-value


def fori_loop_without_the_index(x: Array) -> None:
    """`fori_loop`: a body without the index"""
    lax.fori_loop(0, 3, total, x)  # expect: arg-type


def fori_loop_with_a_text_as_index(x: Array) -> None:
    """`fori_loop`: a body with `i: str`"""

    def body(i: str, x: Array) -> Array:
        return x

    lax.fori_loop(0, 3, body, x)  # expect: arg-type


def scan_with_an_array_for_a_pair(x: Array) -> None:
    """`scan`: an array as `init` of a body with a pair as carry"""
    lax.scan(pair_step, x, x)  # expect: arg-type


def scan_with_a_pair_for_an_array(x: Array) -> None:
    """`scan`: a pair as `init` of a body with an array as carry"""
    lax.scan(plus, (x, x), x)  # expect: arg-type


def scan_with_a_triple_for_a_pair(x: Array) -> None:
    """`scan`: a triple as `init` of a body with a pair as carry"""
    lax.scan(pair_step, (x, x, x), x)  # expect: arg-type


def scan_without_an_output(x: Array) -> None:
    """`scan`: a body that returns no pair"""
    lax.scan(weighted, x, x)  # expect: arg-type


def while_loop_with_an_array_for_a_pair(x: Array) -> None:
    """`while_loop`: an array as value of functions of a pair"""

    def go_on(pair: tuple[Array, Array]) -> Array:
        return is_small(pair[0])

    def turn(pair: tuple[Array, Array]) -> tuple[Array, Array]:
        return pair[1], pair[0]

    lax.while_loop(go_on, turn, x)  # expect: arg-type arg-type


def fori_loop_with_an_array_for_a_pair(x: Array) -> None:
    """`fori_loop`: an array as value of a body of a pair"""

    def turn(i: Array, pair: tuple[Array, Array]) -> tuple[Array, Array]:
        return pair[1], pair[0]

    lax.fori_loop(0, 3, turn, x)  # expect: arg-type


def map_of_two_arguments(x: Array) -> None:
    """`lax.map`: a function of two arguments"""
    lax.map(weighted, x)  # expect: arg-type


def custom_vjp_with_one_argument_more(x: Array) -> None:
    """a function with `custom_vjp`: one argument too many"""
    clip(x, x, x)  # expect: call-arg


def forward_rule_of_one_argument() -> None:
    """`defvjp`: a forward rule with too few arguments"""

    def forward(x: Array) -> tuple[Array, Array]:
        return x, x

    clip.defvjp(forward, clip_backward)  # expect: arg-type


def forward_rule_of_another_type() -> None:
    """`defvjp`: a forward rule with an argument of another type"""

    def forward(x: Array, limit: str) -> tuple[Array, Array]:
        return x, x

    clip.defvjp(forward, clip_backward)  # expect: arg-type


def forward_rule_without_residuals() -> None:
    """`defvjp`: a forward rule that returns no pair"""

    def forward(x: Array, limit: Array) -> Array:
        return x

    clip.defvjp(forward, clip_backward)  # expect: arg-type


def backward_rule_without_a_tuple() -> None:
    """`defvjp`: a backward rule that returns no tuple"""

    def backward(limit: Array, ct: Array) -> Array:
        return ct

    clip.defvjp(clip_forward, backward)  # expect: arg-type


def backward_rule_without_residuals() -> None:
    """`defvjp`: a backward rule without the residuals"""

    def backward(ct: Array) -> tuple[Array, None]:
        return ct, None

    clip.defvjp(clip_forward, backward)  # expect: arg-type


def backward_rule_of_other_residuals() -> None:
    """`defvjp`: a backward rule of other residuals"""

    def backward(limit: str, ct: Array) -> tuple[Array, None]:
        return ct, None

    clip.defvjp(clip_forward, backward)  # expect: misc


def jvp_rule_without_tangents() -> None:
    """`defjvp`: a rule without the tangents"""

    @wave.defjvp  # expect: arg-type
    def rule(primals: tuple[Array]) -> tuple[Array, Array]:
        return primals[0], primals[0]


def jvp_rule_of_two_primals() -> None:
    """`defjvp`: a rule with too many primals"""

    @wave.defjvp  # expect: arg-type
    def rule(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
        return primals[0], tangents[0]


def jvp_rule_of_arrays() -> None:
    """`defjvp`: a rule of arrays in place of tuples"""

    @wave.defjvp  # expect: arg-type
    def rule(x: Array, dx: Array) -> tuple[Array, Array]:
        return x, dx


def jvp_rule_without_a_pair() -> None:
    """`defjvp`: a rule that returns no pair"""

    @wave.defjvp  # expect: arg-type
    def rule(primals: tuple[Array], tangents: tuple[Array]) -> Array:
        return primals[0]


def tree_map_as_a_number(x: Array) -> None:
    """`tree.map` of a tuple: the result taken for an int"""
    n: int = effx.tree.map(total, (x, x))  # missed: to mypy an array of unknown sizes fits every overload
    print(n)


def tree_map_of_a_nested_dict_as_a_number(x: Array) -> None:
    """`tree.map` of a nested dict: the result taken for an int"""
    n: int = effx.tree.map(total, {"a": {"b": x}})  # missed: to mypy an array of unknown sizes fits every overload
    print(n)


def tree_map_with_too_few_trees(x: Array) -> None:
    """`tree.map`: a function of two leaves, and one tree"""
    effx.tree.map(weighted, [x])  # expect: arg-type


def tree_map_with_too_many_trees(x: Array) -> None:
    """`tree.map`: a function of one leaf, and two trees"""
    effx.tree.map(total, [x], [x])  # expect: arg-type


def structure_as_a_number(x: Array) -> None:
    """`tree.structure`: the result taken for an int"""
    n: int = effx.tree.structure({"a": x})  # expect: assignment
    print(n)


def program_as_a_number(x: Array) -> None:
    """`make_jaxpr`: the result taken for an int"""
    n: int = effx.make_jaxpr(total)(x)  # expect: assignment
    print(n)


def device_put_as_a_number(x: Array) -> None:
    """`device_put`: the result taken for an int"""
    n: int = effx.device_put(x)  # expect: assignment
    print(n)


def device_get_as_a_number(x: Array) -> None:
    """`device_get`: the result taken for an int"""
    n: int = effx.device_get(x)  # missed: it copies trees, of which no type tells the leaves
    print(n)


def polyfit_as_a_number(x: Array) -> None:
    """`polyfit`: the result taken for an int"""
    n: int = enp.polyfit(x, x, 1)  # expect: assignment
    print(n)
