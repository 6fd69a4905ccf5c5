"""`explain_cache_misses`: log why a function is staged again."""

import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from types import CodeType
from typing import TypeAlias, cast

from effx.errors import source_of, user_frame
from effx.flags import Changes, flags_that_change
from effx.ir.types import ArrayType
from effx.tracing.arguments import argument_path, function_origin, positional_parameter_names
from effx.tree.registry import PyTree, PyTreeDef

# A program's key: structure and types of the arguments, static arguments, settings, axes in scope.
TraceKey: TypeAlias = tuple[
    PyTreeDef, tuple[ArrayType, ...], Hashable, tuple[object, ...], tuple[tuple[Hashable, int], ...]
]
# Descriptions of the entries of `tracing.trace_settings`.
SETTING_NAMES = (
    "a handler around that acts once",
    *[flag.name for flag in flags_that_change(Changes.TRACES)],
    "the values of user contexts",
)

_log = logging.getLogger("effx")
# Code of functions that were staged while the flag was on.
_seen: set[CodeType] = set()


def log_cache_miss(
    transform_name: str, fun: Callable[..., PyTree], known: Collection[TraceKey], key: TraceKey
) -> None:
    """Logs why a function has no program for its arguments.

    Args:
        transform_name: the transformation. fun: the user's function.
        known: its programs, by key. key: the key of the call.
    """
    frame = user_frame(2)
    call_site = "" if frame is None else f", called at {source_of((frame.f_code, frame.f_lasti))}"
    _log.warning(
        "%s: TRACING CACHE MISS for %s%s: %s",
        transform_name,
        function_origin(fun),
        call_site,
        _miss_reason(fun, known, key),
    )


def _miss_reason(fun: Callable[..., PyTree], known: Collection[TraceKey], key: TraceKey) -> str:
    code = getattr(fun, "__code__", None)
    is_known_code = code in _seen
    if code is not None:
        _seen.add(code)
    if key in known:
        return "a value that it closed over belonged to a handler that has ended"
    if not known:
        if is_known_code:
            return (
                "never seen function, but another function defined on the same line was staged before; programs are kept "
                "with the function, so make it once and call it often"
            )
        return "never seen function"
    names = positional_parameter_names(fun)
    # Among equally near keys the last; one that differs only in weak types comes before others.
    differences = [_differences(key, other, names) for other in reversed(list(known))]
    nearest = min(differences, key=lambda texts: (len(texts), -sum(["(weak" in text for text in texts])))
    count_note = f"; it has {len(known)} programs" if len(known) > 1 else ""
    return f"unlike the nearest call before, {'; '.join(nearest)}{count_note}"


def _differences(new: TraceKey, old: TraceKey, names: Sequence[str]) -> list[str]:
    """Returns what differs, each with the kind of key that it belongs to."""
    (tree, types, form, settings, axes), (tree_, types_, form_, settings_, axes_) = new, old
    differences: list[str] = []
    if tree != tree_:
        differences.append(f"different input pytree: now {tree} and before {tree_}")
    else:
        differences += [
            f"different input types: at {_leaf_description(tree, i, names)}, now {t!r} and before {t_!r}"
            f"{_weak_type_note(t, t_)}"
            for i, (t, t_) in enumerate(zip(types, types_, strict=True))
            if t is not t_
        ]
    differences += _static_differences(form, form_, names)
    differences += [
        f"different tracing context: {name}, now {a} and before {b}"
        for name, a, b in zip(SETTING_NAMES, settings, settings_, strict=True)
        if a != b
    ]
    if axes != axes_:
        differences.append(
            f"different tracing context: axes in scope, now {_format_axes(axes)} and before {_format_axes(axes_)}"
        )
    return differences


def _leaf_description(tree: PyTreeDef, leaf: int, names: Sequence[str]) -> str:
    return argument_path(tree.unflatten(range(tree.num_leaves)), leaf, names).removeprefix("argument ")


def _weak_type_note(t: ArrayType, other: ArrayType) -> str:
    return " (weak: made of a Python number)" if t.strong() is other or other.strong() is t else ""


def _static_differences(form: object, other: object, names: Sequence[str]) -> list[str]:
    if form == other:
        return []
    new = dict(cast("Iterable[tuple[int | str, object]]", form or ()))
    old = dict(cast("Iterable[tuple[int | str, object]]", other or ()))
    differences = []
    for argument in sorted({*new, *old}, key=str):
        if new.get(argument) == old.get(argument):
            continue
        name = names[argument] if isinstance(argument, int) and argument < len(names) else argument
        differences.append(
            f"different static arguments: at {name}, now {_format_static(new, argument)} and before "
            f"{_format_static(old, argument)}"
        )
    return differences


def _format_static(values: dict[int | str, object], argument: int | str) -> str:
    if argument not in values:
        return "left out"
    key = values[argument]
    if not (isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], type)):
        return repr(key)
    return repr(float.fromhex(str(key[1])) if key[0] is float else key[1])


def _format_axes(axes: Iterable[tuple[object, object]]) -> str:
    return ", ".join([f"{name}: {size}" for name, size in axes]) or "none"
