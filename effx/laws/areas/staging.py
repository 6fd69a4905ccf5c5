"""Laws of staging: programs agree with the function, print and parse, and passes keep their values."""

from collections.abc import Callable
from itertools import compress

import effx
from effx import tree
from effx.array import Array
from effx.handlers.staging.stage import run_program, stage
from effx.ir.checker import check_program
from effx.ir.passes import (
    drop_unneeded,
    eliminate_common_subexpressions,
    eliminate_dead_code,
    inline_calls,
    prune_program,
)
from effx.ir.program import Program, effect_row
from effx.ir.text import parse_program, print_program
from effx.laws.areas.subjects import ANY, FLAT, SMALL, SMOOTH, Function, Points, weighted_sum_loss
from effx.laws.comparing import directions, leaves, same
from effx.laws.registry import law

AREA = "staging"


def stage_and_check(f: Function, xs: Points) -> tuple[Program, list[Array]]:
    """Returns a checked program of a function, and its arguments: the closed-over values first."""
    staged_program = stage(lambda ys: leaves(f(*ys)), [x.type for x in xs], "law")
    return check_program(staged_program.program), [*staged_program.captured, *xs]


@law(AREA, "run(stage f)(x) = f(x)", ANY)
def programs_mean_the_function(f: Function, xs: Points) -> None:
    program, operands = stage_and_check(f, xs)
    same(run_program(program, operands), f(*xs))


@law(AREA, "check(stage(T f)) for T = jvp, grad, vmap of grad", SMALL)
def transformed_programs_check(f: Function, xs: Points) -> None:
    indices = tuple(range(len(xs)))
    for g, at in (
        (lambda *a: effx.jvp(f, a, directions(xs)), list(xs)),
        (effx.grad(weighted_sum_loss(f), indices), list(xs)),
        (effx.vmap(effx.grad(weighted_sum_loss(f), indices)), [x[None] for x in xs]),
    ):
        program, operands = stage_and_check(g, at)
        same(run_program(program, operands), g(*at))


@law(AREA, "print(parse(print p)) = print p", SMOOTH)
def text_parses_back(f: Function, xs: Points) -> None:
    for g in (f, effx.grad(weighted_sum_loss(f))):
        text = print_program(stage_and_check(g, xs)[0])
        assert print_program(check_program(parse_program(text))) == text


@law(AREA, "run(parse(print p)) = run(p)", ANY)
def parsed_programs_mean_the_same(f: Function, xs: Points) -> None:
    program, operands = stage_and_check(f, xs)
    same(run_program(parse_program(print_program(program)), operands), run_program(program, operands))


@law(AREA, "stage f = stage f: staging twice gives one program", SMOOTH)
def staging_is_deterministic(f: Function, xs: Points) -> None:
    assert str(stage_and_check(f, xs)[0]) == str(stage_and_check(f, xs)[0])


@law(AREA, "stage(run p) = p", ANY)
def staging_a_program_gives_it_back(f: Function, xs: Points) -> None:
    program, operands = stage_and_check(f, xs)
    again, _ = stage_and_check(lambda *ys: run_program(program, ys), operands)
    assert print_program(again) == print_program(program)


@law(AREA, "stage(x -> f(x)) run at y = f(y): a program does not remember where it was staged", FLAT)
def programs_do_not_depend_on_values(f: Function, xs: Points) -> None:
    program, operands = stage_and_check(f, xs)
    captured = operands[: len(operands) - len(xs)]
    others = directions(xs, 5)
    same(run_program(program, [*captured, *others]), f(*others))


@law(AREA, "stage(() -> f(x)) = f(x): what a function closes over is an input", SMALL)
def closures_become_inputs(f: Function, xs: Points) -> None:
    program, operands = stage_and_check(lambda: f(*xs), [])
    same(run_program(program, operands), f(*xs))


@law(AREA, "eval_shape f = types of f(x)", ANY)
def shapes_are_predicted(f: Function, xs: Points) -> None:
    shapes = tree.leaves(effx.eval_shape(f, *xs))
    results = leaves(f(*xs))
    assert [(s.shape, s.dtype) for s in shapes] == [(y.shape, y.dtype) for y in results]


@law(AREA, "run(dead_code p) = run(p), with no more equations", ANY)
def dead_code_keeps_values(f: Function, xs: Points) -> None:
    check_pass(eliminate_dead_code, f, xs)


@law(AREA, "run(needed_only p) = run(p), and pruned to one result gives that one", ANY)
def pruning_keeps_values(f: Function, xs: Points) -> None:
    check_pass(drop_unneeded, f, xs)
    program, operands = stage_and_check(lambda *ys: (f(*ys), *ys), xs)
    want = run_program(program, operands)
    for i, y in enumerate(want):
        smaller, left = prune_program(
            program, [i == k for k in range(len(want))], [False] * len(operands), final=True
        )
        same(run_program(check_program(smaller), list(compress(operands, left))), [y])


@law(AREA, "run(common_subexpressions p) = run(p), with no more equations", ANY)
def merged_expressions_keep_values(f: Function, xs: Points) -> None:
    check_pass(eliminate_common_subexpressions, f, xs)


@law(AREA, "run(inline p) = run(p)", ANY)
def inlining_keeps_values(f: Function, xs: Points) -> None:
    program, operands = stage_and_check(f, xs)
    same(run_program(check_program(inline_calls(program)), operands), run_program(program, operands))


@law(AREA, "pass(pass p) = pass p for every pass", ANY)
def passes_are_idempotent(f: Function, xs: Points) -> None:
    program, _ = stage_and_check(f, xs)
    for each in (eliminate_dead_code, eliminate_common_subexpressions, inline_calls, drop_unneeded):
        once = each(program)
        assert print_program(each(once)) == print_program(once), each.__name__


@law(AREA, "passes in any order keep values and types", SMALL)
def passes_compose(f: Function, xs: Points) -> None:
    program, operands = stage_and_check(effx.grad(weighted_sum_loss(f)), xs)
    want = run_program(program, operands)
    for passes in (
        (inline_calls, eliminate_common_subexpressions, eliminate_dead_code),
        (eliminate_dead_code, eliminate_common_subexpressions, inline_calls, eliminate_dead_code),
    ):
        changed = program
        for each in passes:
            changed = check_program(each(changed))
        assert (changed.in_types, changed.out_types) == (program.in_types, program.out_types)
        same(run_program(changed, operands), want)


@law(AREA, "the effect row of a program is the union of its operations' effects", SMALL)
def effect_rows_are_unions(f: Function, xs: Points) -> None:
    program, _ = stage_and_check(f, xs)
    assert program.effects == effect_row(program.equations) == frozenset()

    def communicating(*ys: Array) -> object:
        return effx.lax.psum(f(*ys), "i")

    batched = effx.vmap(communicating, axis_name="i")
    named = effx.make_jaxpr(batched)(*[x[None] for x in xs])
    assert check_program(named).effects == frozenset(), "vmap takes the effect of the name that it binds"


@law(AREA, "lower(f) = lower(f): the StableHLO of a function is one text", FLAT, compiles=True)
def lowering_is_deterministic(f: Function, xs: Points) -> None:
    texts = [effx.jit(lambda *ys: f(*ys)).lower(*xs).as_text() for _ in range(2)]
    assert texts[0] == texts[1]


def check_pass(change: Callable[[Program], Program], f: Function, xs: Points) -> None:
    """Checks that a pass keeps values and types, and adds no equations."""
    program, operands = stage_and_check(f, xs)
    changed = check_program(change(program))
    assert (changed.in_types, changed.out_types) == (program.in_types, program.out_types)
    assert len(changed.equations) <= len(program.equations)
    same(run_program(changed, operands), run_program(program, operands))
