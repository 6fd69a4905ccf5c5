"""Write a program as one StableHLO module for several platforms and for all sizes, to be exported.

The calling convention is JAX's, version 10, so that either runs the other's modules. The public `main` takes, where the
module is for several platforms, first the platform's index among them, and then the arrays. It computes the values of
the dimension variables from the arrays' sizes, checks all sizes, and calls the function that does the work, which
takes these values first.

Never: write or read files (`effx.export` does).
"""

import json
from collections.abc import Callable, Sequence

import numpy as np

from effx import dtypes
from effx.effects import all_optional
from effx.errors import BackendError
from effx.ir.program import Program
from effx.ir.sizes.dimensions import Dim, size_from_terms
from effx.ir.sizes.monomials import format_terms
from effx.ir.sizes.solving import Solution
from effx.ir.types import ArrayType, array_type
from effx.lower.placement.concrete import ConcreteArray
from effx.lower.text import sizes
from effx.lower.text.emit import Body, Module, function_lines
from effx.lower.text.sizes import INDEX

PLATFORM_INDEX = '{jax.global_constant = "_platform_index"}'
WRAPPED = "_wrapped_jax_export_main"
BOOL = array_type(dtypes.bool_)


def portable_module(
    program: Program,
    constants: Sequence[ConcreteArray],
    platforms: Sequence[str],
    solution: Solution,
    say: Callable[[int], str],
    kept_mask: Sequence[bool],
) -> str:
    """Returns the text of a module.

    Args:
        program: its first inputs are the constants.
        constants: the values of the first inputs, which are written into the module.
        platforms: "cpu", "cuda", "rocm", "tpu".
        solution: how the dimension variables follow from all arrays, those left out included.
        say: returns the name of an array in errors.
        kept_mask: for each array whether `main` takes it.
    """
    if not all_optional(program.effects):
        raise BackendError(
            f"export: {program.name} leaves effects open: {sorted(map(repr, program.effects))}"
        )
    modules = [Module(p, variables=solution.names) for p in platforms]
    written = [_write_function(program, m, m.fresh(WRAPPED)) for m in modules]
    several = len({"\n".join([*lines, *m.functions]) for m, lines in zip(modules, written, strict=True)}) > 1
    if any([m.hosted for m in modules]):
        raise BackendError(
            f"export: {program.name} calls Python functions, which another process does not have; "
            f"leave callbacks and prints out of what is exported"
        )
    first = modules[0]
    if several:
        modules = [Module(p, variables=solution.names) for p in platforms]
        first = modules[0]
        for other in modules[1:]:
            other.share_names(first)
        names = [first.fresh(f"{WRAPPED}_{p}") for p in platforms]
        written = [_write_function(program, m, name) for m, name in zip(modules, names, strict=True)]
        functions = [
            line for m, lines in zip(modules, written, strict=True) for line in (*lines, *m.functions)
        ]
        locations = first
    else:
        names = [WRAPPED]
        functions, locations = [*written[0], *first.functions], first
    main = _write_main(
        program,
        constants,
        solution,
        say,
        kept_mask=kept_mask,
        names=names,
        indexed=len(platforms) > 1,
        module=first,
    )
    name = "".join([c if c.isalnum() or c == "_" else "_" for c in program.name])
    symbolic = "jax.uses_shape_polymorphism = true, " if solution.names else ""
    return "\n".join(
        [
            f"module @jit_{name} attributes {{{symbolic}mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32}} {{",
            *main,
            *functions,
            "}",
            *locations.location_lines(),
            "",
        ]
    )


def _write_function(program: Program, module: Module, name: str) -> list[str]:
    return function_lines(module, program, name, "private")


def _write_main(
    program: Program,
    constants: Sequence[ConcreteArray],
    solution: Solution,
    say: Callable[[int], str],
    *,
    kept_mask: Sequence[bool],
    names: Sequence[str],
    indexed: bool,
    module: Module,
) -> list[str]:
    """Returns the lines of the public function."""
    body = Body(module)
    types = program.in_types[len(constants) :]
    arguments = [f"%platform: {INDEX.mlir} {PLATFORM_INDEX}"] if indexed else []
    arguments += [f"%arg{i}: {t.mlir}" for i, t in enumerate(types) if kept_mask[i]]
    _write_dimension_values(body, types, solution, say, kept_mask)
    inputs = [_write_constant(body, x) for x in constants]
    for i, t in enumerate(types):
        # An array that the program does not read is still an argument of the function.
        inputs.append(f"%arg{i}" if kept_mask[i] else body.constant(0, t))
    call = [
        lambda name=n: body.call_function(name, inputs, program.in_types, program.out_types) for n in names
    ]
    if len(names) == 1:
        results: Sequence[str] = call[0]()
    else:
        regions = ["\n".join(body.region(c, program.out_types)) for c in call]
        outs = ", ".join([t.mlir for t in program.out_types])
        joined = "\n    }, {\n".join(regions)
        results = body.block(
            f'"stablehlo.case"(%platform) ({{\n{joined}\n    }}) : ({INDEX.mlir}) -> ({outs})',
            len(program.out_types),
        )
    outs = ", ".join([t.mlir for t in program.out_types])
    tail = f"return {', '.join(results)} : {outs}" if results else "return"
    return [
        f"  func.func public @main({', '.join(arguments)}) -> ({outs}) {{",
        *body.lines,
        f"    {tail}",
        "  }",
    ]


def _write_constant(body: Body, x: ConcreteArray) -> str:
    """Writes an array as a constant; elements of less than a byte as bytes, since MLIR has changed their packing."""
    t, data = x.type, x.host("export")
    if not t.size:
        return body.line(f"stablehlo.constant dense<> : {t.mlir}")
    if t.dtype == dtypes.float0:
        return body.constant(False, t)
    stored = t
    if dtypes.is_sub_byte(t.dtype) or t.kind == "b":
        stored = array_type(
            {"f": dtypes.float16, "u": dtypes.uint8, "b": dtypes.uint8}.get(t.kind, dtypes.int8), t.shape
        )
        data = data.astype(stored.dtype)
    elements = np.ascontiguousarray(data).tobytes().hex().upper()
    return body.convert(body.line(f'stablehlo.constant dense<"0x{elements}"> : {stored.mlir}'), stored, t)


# --- sizes -----------------------------------------------------------------------------------------------


def _write_dimension_values(
    body: Body,
    types: Sequence[ArrayType],
    solution: Solution,
    say: Callable[[int], str],
    kept_mask: Sequence[bool],
) -> None:
    """Writes the values of the dimension variables, and the checks of all sizes."""
    place_of = {v: i for i, v in enumerate(solution.names)}

    def array_size(array: int, axis: int) -> str:
        return body.line(
            f"stablehlo.get_dimension_size %arg{array}, dim = {axis} : ({types[array].mlir}) -> {INDEX.mlir}"
        )

    def compared(relation: str, x: str, y: str) -> str:
        return body.line(
            f"stablehlo.compare {relation}, {x}, {y}, SIGNED : ({INDEX.mlir}, {INDEX.mlir}) -> {BOOL.mlir}"
        )

    for step in solution.steps:
        solved_size = array_size(step.location.array, step.location.axis)
        if step.rest:
            solved_size = body.line(
                f"stablehlo.subtract {solved_size}, {sizes.write_size(body, step.rest)} : {INDEX.mlir}"
            )
        if step.coefficient != 1:
            divisor = sizes.write_size(body, step.coefficient)
            solved_size = body.line(f"stablehlo.divide {solved_size}, {divisor} : {INDEX.mlir}")
        name = sizes.variable_name(place_of[step.name])
        zero = body.constant(0, INDEX)
        body.lines.append(f"    {name} = stablehlo.add {solved_size}, {zero} : {INDEX.mlir}")
        _write_assertion(
            body,
            compared("GE", name, body.constant(1, INDEX)),
            f"dimension variable {step.name} must be at least 1, and {say(step.location.array)} axis {step.location.axis}, "
            f"which must be {step.location.size!r}, makes it {{0}}",
            [name],
        )
    for size_location in solution.locations:
        if type(size_location.size) is Dim and kept_mask[size_location.array]:
            actual, compared_sizes = (
                array_size(size_location.array, size_location.axis),
                sizes.write_size(body, size_location.size),
            )
            _write_assertion(
                body,
                compared("EQ", actual, compared_sizes),
                f"{say(size_location.array)} axis {size_location.axis} has size {{0}}, which must be "
                f"{size_location.size!r}, that is {{1}}",
                [actual, compared_sizes],
            )
    for least in solution.scope.at_least:
        value = sizes.write_size(body, least)
        text = f"the constraint {least!r} >= 0 does not hold: it is {{0}}"
        _write_assertion(body, compared("GE", value, body.constant(0, INDEX)), text, [value])
    for product, n in solution.equal:
        left, right = sizes.write_size(body, size_from_terms({product: 1})), sizes.write_size(body, n)
        text = f"the constraint {format_terms([(product, 1)])} == {n!r} does not hold: {{0}} is not {{1}}"
        _write_assertion(body, compared("EQ", left, right), text, [left, right])


def _write_assertion(body: Body, test: str, message: str, values: Sequence[str]) -> None:
    """Writes a check that XLA makes when the sizes are fixed; `{0}` in the message is the first value."""
    names = ", ".join([test, *values])
    kinds = ", ".join([BOOL.mlir, *[INDEX.mlir] * len(values)])
    body.lines.append(
        f"    stablehlo.custom_call @shape_assertion({names}) {{api_version = 2 : i32, "
        f"error_message = {json.dumps(message)}, has_side_effect = true}} : ({kinds}) -> ()"
    )
