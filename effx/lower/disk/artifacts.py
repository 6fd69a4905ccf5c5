"""Encode StableHLO modules for later versions of XLA, decode them, and make them parts of other modules.

A module with symbolic sizes becomes part of another one whose sizes are known in two steps: XLA refines it, which makes
all of its sizes constants and checks them, and its functions are added to those of the other, under names that are free
there.
"""

import io
import re
from collections.abc import Sequence
from functools import lru_cache

from jaxlib import _jax

from effx.errors import BackendError, ShapeError
from effx.ir.sizes.dimensions import has_symbolic
from effx.ir.types import ArrayType
from effx.lower.text.emit import Body
from effx.lower.text.hlo import mlir_context, mlir_module
from effx.lower.text.sizes import INDEX

_DEFINED = re.compile(r"func\.func (?:public |private )?@([\w.$-]+)")


def encode_artifact(text: str) -> bytes:
    """Returns a module as a portable artifact, which XLA of up to four weeks before and of the years after reads."""
    from jaxlib.mlir.dialects import stablehlo  # 20 ms, for few

    requirement = stablehlo.StablehloCompatibilityRequirement.WEEK_4
    version = stablehlo.get_version_from_compatibility_requirement(requirement)
    artifact: bytes = _jax.mlir.serialize_portable_artifact(mlir_module(text), version)
    return artifact


@lru_cache(maxsize=64)
def decode_artifact(artifact: bytes) -> str:
    """Returns the module of a portable artifact as text.

    Raises:
        BackendError: the bytes are no module, or a later version wrote them.
    """
    try:
        return str(_jax.mlir.deserialize_portable_artifact(artifact, mlir_context()))
    except (ValueError, RuntimeError) as error:
        raise BackendError(f"deserialize: XLA cannot read the module: {error}") from error


def list_custom_calls(text: str) -> list[str]:
    """Returns the names of the foreign functions that a module calls, sorted."""
    return sorted(set(re.findall(r'custom_call @"?([\w.$-]+)', text)))


@lru_cache(maxsize=64)
def refine_module(
    artifact: bytes, types: tuple[ArrayType, ...], platform_index: int | None, check_sizes: bool
) -> str:
    """Returns a module with symbolic sizes refined for arrays of known sizes.

    Args:
        artifact: the module.
        types: of the arrays.
        platform_index: the platform's index among the module's; None where it is for one.
        check_sizes: False to leave out the module's own checks of sizes.

    Raises:
        ShapeError: the module is not valid for these sizes.
    """
    main_lines, functions = _split_module(decode_artifact(artifact))
    all_lines = [*main_lines, *functions]
    function_names = {name for line in all_lines for name in _DEFINED.findall(line)}
    inner_main = next(
        name
        for name in map("inner_main_{}".format, range(len(function_names) + 1))
        if name not in function_names
    )
    inner = _rename_functions(all_lines, {"main": inner_main})
    platform_arguments, argument_types, result_types = _parse_signature(decode_artifact(artifact))
    names = [f"%given{i}" for i in range(len(types))]
    arguments = ", ".join([f"{name}: {t.mlir}" for name, t in zip(names, types, strict=True)])
    body: list[str] = []
    operands = []
    if platform_index is not None:
        body.append(f"    %place = stablehlo.constant dense<{platform_index}> : {INDEX.mlir}")
        operands.append("%place")
    for name, t, argument_type in zip(names, types, argument_types[len(platform_arguments) :], strict=True):
        if t.mlir == argument_type:
            operands.append(name)
        else:
            body.append(f"    {name}_any = stablehlo.convert {name} : ({t.mlir}) -> {argument_type}")
            operands.append(f"{name}_any")
    result_count = f":{len(result_types)}" if len(result_types) > 1 else ""
    results = (
        [f"%found#{i}" for i in range(len(result_types))] if result_count else ["%found"] * len(result_types)
    )
    called = f"func.call @{inner_main}({', '.join(operands)}) : ({', '.join(argument_types)}) -> ({', '.join(result_types)})"
    body.append(f"    %found{result_count} = {called}" if result_types else f"    {called}")
    body.append(
        f"    return {', '.join(results)} : {', '.join(result_types)}" if result_types else "    return"
    )
    text = "\n".join(
        [
            "module @refined attributes {jax.uses_shape_polymorphism = true} {",
            f"  func.func public @main({arguments}) -> ({', '.join(result_types)}) {{",
            *body,
            "  }",
            *inner,
            "}",
        ]
    )
    buffer = io.BytesIO()
    mlir_module(text).operation.write_bytecode(buffer)
    try:
        refined_bytes = _jax.mlir.refine_polymorphic_shapes(buffer.getvalue(), check_sizes, True)
    except (ValueError, RuntimeError) as error:
        raise ShapeError(
            f"export: the module cannot be run on {', '.join(map(repr, types))}: {error}"
        ) from error
    return str(mlir_module(refined_bytes))


def call_module(
    body: Body,
    text: str,
    inputs: Sequence[str],
    types: Sequence[ArrayType],
    outs: Sequence[ArrayType],
    platform_index: int | None,
) -> tuple[str, ...]:
    """Writes a call of a module's `main`, whose functions become functions of the module that is being written."""
    module = body.module
    main_name = module.shared.get(("module", text))
    if main_name is None:
        main_lines, functions = _split_module(text)
        all_lines = [*main_lines, *functions]
        names = {
            name: module.fresh(name)
            for name in re.findall(r"func\.func (?:public |private )?@([\w.$-]+)", "\n".join(all_lines))
        }
        main_name = module.shared["module", text] = names["main"]
        module.functions += _rename_functions(all_lines, names)
    platform_arguments, argument_types, results = _parse_signature(text)
    operands = list(inputs)
    for i, (t, xla_type) in enumerate(zip(types, argument_types[len(platform_arguments) :], strict=True)):
        if t.mlir != xla_type:
            operands[i] = body.line(f"stablehlo.convert {operands[i]} : ({t.mlir}) -> {xla_type}")
    if platform_arguments:
        operands.insert(0, body.constant(platform_index or 0, INDEX))
    result_names = body.block(
        f"func.call @{main_name}({', '.join(operands)}) : ({', '.join(argument_types)}) -> ({', '.join(results)})",
        len(results),
    )
    return tuple(
        [
            name if t.mlir == xla_type else body.line(f"stablehlo.convert {name} : ({xla_type}) -> {t.mlir}")
            for name, t, xla_type in zip(result_names, outs, results, strict=True)
        ]
    )


def is_static(types: Sequence[ArrayType]) -> bool:
    """Says whether no size is symbolic."""
    return not any([has_symbolic(t.shape) for t in types])


def _split_module(text: str) -> tuple[list[str], list[str]]:
    """Splits a module into the lines of `main` and those of the other functions."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("module"))
    last = max([i for i, line in enumerate(lines) if line == "}"])
    body_lines = lines[first + 1 : last]
    start = next(i for i, line in enumerate(body_lines) if re.match(r"  func\.func (public )?@main\(", line))
    end = next(i for i in range(start, len(body_lines)) if body_lines[i] == "  }")
    return body_lines[start : end + 1], [*body_lines[:start], *body_lines[end + 1 :]]


def _rename_functions(lines: Sequence[str], names: dict[str, str]) -> list[str]:
    """Returns lines with other names of functions, all of them private."""

    def replace_name(match: re.Match[str]) -> str:
        before, name = match.groups()
        return match.group() if before or name not in names else f"@{names[name]}"

    return [
        re.sub(r"(custom_call )?@([\w.$-]+)", replace_name, line).replace(
            "func.func public ", "func.func private "
        )
        for line in lines
    ]


def _parse_signature(text: str) -> tuple[list[str], list[str], list[str]]:
    """Returns the leading arguments of `main` that are not arrays, and the types of all arguments and results."""
    head = next(line for line in text.splitlines() if re.match(r"  func\.func (public )?@main\(", line))
    arguments, _, results_text = head.partition(") -> ")
    if not results_text:
        arguments = head.rpartition(")")[0]
    index = re.findall(r'%\w+: \S+ {jax.global_constant = "_platform_index"', arguments)
    argument_types = re.findall(r"%\w+: (tensor<[^>]*>+)", arguments)
    result_types = re.findall(r"tensor<[^>]*>+", re.sub(r'"[^"]*"', "", results_text))
    return index, argument_types, result_types
