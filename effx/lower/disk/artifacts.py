"""StableHLO modules as bytes that later versions of XLA read, and such modules as parts of others.

A module with symbolic sizes becomes part of another one whose sizes are known in two steps: XLA refines it, which makes all
of its sizes constants and checks them, and its functions are put beside those of the other, under names that are free there.
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


def to_artifact(text: str) -> bytes:
    """Returns a module as a portable artifact, which XLA of up to four weeks before and of the years after reads."""
    from jaxlib.mlir.dialects import stablehlo  # 20 ms, for few

    requirement = stablehlo.StablehloCompatibilityRequirement.WEEK_4
    version = stablehlo.get_version_from_compatibility_requirement(requirement)
    artifact: bytes = _jax.mlir.serialize_portable_artifact(mlir_module(text), version)
    return artifact


@lru_cache(maxsize=64)
def artifact_text(artifact: bytes) -> str:
    """Returns the module of a portable artifact as text.

    Raises:
        BackendError: the bytes are none, or a later version wrote them.
    """
    try:
        return str(_jax.mlir.deserialize_portable_artifact(artifact, mlir_context()))
    except (ValueError, RuntimeError) as error:
        raise BackendError(f"deserialize: XLA cannot read the module: {error}") from error


def custom_calls(text: str) -> list[str]:
    """Returns the names of the foreign functions that a module calls, sorted."""
    return sorted(set(re.findall(r'custom_call @"?([\w.$-]+)', text)))


@lru_cache(maxsize=64)
def refined(artifact: bytes, types: tuple[ArrayType, ...], place: int | None, check_sizes: bool) -> str:
    """Returns a module, with symbolic sizes, for arrays of known sizes.

    Args:
        artifact: the module.
        types: of the arrays.
        place: of the platform among the module's; None where it is for one.
        check_sizes: False to leave out the module's own checks of sizes.

    Raises:
        ShapeError: the module has no meaning for these sizes.
    """
    lines, functions = _parts(artifact_text(artifact))
    every = [*lines, *functions]
    taken_names = {name for line in every for name in _DEFINED.findall(line)}
    inside = next(
        name for name in map("inner_main_{}".format, range(len(taken_names) + 1)) if name not in taken_names
    )
    inner = _renamed(every, {"main": inside})
    given, taken, outs = _signature(artifact_text(artifact))
    names = [f"%given{i}" for i in range(len(types))]
    arguments = ", ".join([f"{name}: {t.mlir}" for name, t in zip(names, types, strict=True)])
    body: list[str] = []
    operands = []
    if place is not None:
        body.append(f"    %place = stablehlo.constant dense<{place}> : {INDEX.mlir}")
        operands.append("%place")
    for name, t, kind in zip(names, types, taken[len(given) :], strict=True):
        if t.mlir == kind:
            operands.append(name)
        else:
            body.append(f"    {name}_any = stablehlo.convert {name} : ({t.mlir}) -> {kind}")
            operands.append(f"{name}_any")
    many = f":{len(outs)}" if len(outs) > 1 else ""
    results = [f"%found#{i}" for i in range(len(outs))] if many else ["%found"] * len(outs)
    called = f"func.call @{inside}({', '.join(operands)}) : ({', '.join(taken)}) -> ({', '.join(outs)})"
    body.append(f"    %found{many} = {called}" if outs else f"    {called}")
    body.append(f"    return {', '.join(results)} : {', '.join(outs)}" if outs else "    return")
    text = "\n".join(
        [
            "module @refined attributes {jax.uses_shape_polymorphism = true} {",
            f"  func.func public @main({arguments}) -> ({', '.join(outs)}) {{",
            *body,
            "  }",
            *inner,
            "}",
        ]
    )
    buffer = io.BytesIO()
    mlir_module(text).operation.write_bytecode(buffer)
    try:
        found = _jax.mlir.refine_polymorphic_shapes(buffer.getvalue(), check_sizes, True)
    except (ValueError, RuntimeError) as error:
        raise ShapeError(
            f"export: the module cannot be run on {', '.join(map(repr, types))}: {error}"
        ) from error
    return str(mlir_module(found))


def call_module(
    body: Body,
    text: str,
    inputs: Sequence[str],
    types: Sequence[ArrayType],
    outs: Sequence[ArrayType],
    place: int | None,
) -> tuple[str, ...]:
    """Writes a call of a module's `main`, whose functions become functions of the module that is being written."""
    module = body.module
    known = module.shared.get(("module", text))
    if known is None:
        lines, functions = _parts(text)
        every = [*lines, *functions]
        names = {
            name: module.fresh(name)
            for name in re.findall(r"func\.func (?:public |private )?@([\w.$-]+)", "\n".join(every))
        }
        known = module.shared["module", text] = names["main"]
        module.functions += _renamed(every, names)
    given, taken, results = _signature(text)
    operands = list(inputs)
    for i, (t, kind) in enumerate(zip(types, taken[len(given) :], strict=True)):
        if t.mlir != kind:
            operands[i] = body.line(f"stablehlo.convert {operands[i]} : ({t.mlir}) -> {kind}")
    if given:
        operands.insert(0, body.constant(place or 0, INDEX))
    found = body.block(
        f"func.call @{known}({', '.join(operands)}) : ({', '.join(taken)}) -> ({', '.join(results)})",
        len(results),
    )
    return tuple(
        [
            name if t.mlir == kind else body.line(f"stablehlo.convert {name} : ({kind}) -> {t.mlir}")
            for name, t, kind in zip(found, outs, results, strict=True)
        ]
    )


def is_static(types: Sequence[ArrayType]) -> bool:
    """Says whether no size is symbolic."""
    return not any([has_symbolic(t.shape) for t in types])


def _parts(text: str) -> tuple[list[str], list[str]]:
    """Splits a module into the lines of `main` and those of the other functions."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("module"))
    last = max([i for i, line in enumerate(lines) if line == "}"])
    inside = lines[first + 1 : last]
    start = next(i for i, line in enumerate(inside) if re.match(r"  func\.func (public )?@main\(", line))
    end = next(i for i in range(start, len(inside)) if inside[i] == "  }")
    return inside[start : end + 1], [*inside[:start], *inside[end + 1 :]]


def _renamed(lines: Sequence[str], names: dict[str, str]) -> list[str]:
    """Returns lines with other names of functions, all of them private."""

    def other(found: re.Match[str]) -> str:
        before, name = found.groups()
        return found.group() if before or name not in names else f"@{names[name]}"

    return [
        re.sub(r"(custom_call )?@([\w.$-]+)", other, line).replace("func.func public ", "func.func private ")
        for line in lines
    ]


def _signature(text: str) -> tuple[list[str], list[str], list[str]]:
    """Returns the leading arguments of `main` that are no arrays, the types of all arguments, and those of the results."""
    head = next(line for line in text.splitlines() if re.match(r"  func\.func (public )?@main\(", line))
    arguments, _, rest = head.partition(") -> ")
    if not rest:
        arguments = head.rpartition(")")[0]
    index = re.findall(r'%\w+: \S+ {jax.global_constant = "_platform_index"', arguments)
    kinds = re.findall(r"%\w+: (tensor<[^>]*>+)", arguments)
    outs = re.findall(r"tensor<[^>]*>+", re.sub(r'"[^"]*"', "", rest))
    return index, kinds, outs
