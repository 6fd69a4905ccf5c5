"""Why a function is staged again: `explain_cache_misses`."""

import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from types import CodeType
from typing import TypeAlias, cast

from effx.errors import source_of, user_frame
from effx.ir.types import ArrayType
from effx.tracing.arguments import argument_path, origin_of, positional_names
from effx.tree.registry import PyTree, PyTreeDef

# Of a staged program: structure and types of the arguments, static ones, settings, axes in scope.
Key: TypeAlias = tuple[
    PyTreeDef, tuple[ArrayType, ...], Hashable, tuple[object, ...], tuple[tuple[Hashable, int], ...]
]
# What `tracing.trace_settings` returns, for people.
SETTINGS = (
    "a handler around that acts once",
    "enable_x64",
    "default_matmul_precision",
    "threefry_partitionable",
    "default_prng_impl",
    "numpy_rank_promotion",
    "numpy_dtype_promotion",
    "enable_checks",
    "debug_key_reuse",
    "the values of user contexts",
)

_log = logging.getLogger("effx")
# Code of functions that were staged while the flag was on.
_seen: set[CodeType] = set()


def explain(what: str, fun: Callable[..., PyTree], known: Collection[Key], key: Key) -> None:
    """Logs why a function has no program for what it is called with.

    Args:
        what: the transformation. fun: the user's function.
        known: its programs, by key. key: what it is called with.
    """
    frame = user_frame(2)
    at = "" if frame is None else f", called at {source_of((frame.f_code, frame.f_lasti))}"
    _log.warning("%s: staging %s%s: %s", what, origin_of(fun), at, _reason(fun, known, key))


def _reason(fun: Callable[..., PyTree], known: Collection[Key], key: Key) -> str:
    code = getattr(fun, "__code__", None)
    again = code in _seen
    if code is not None:
        _seen.add(code)
    if key in known:
        return "a value that it closed over belonged to a handler that has ended"
    if not known:
        if again:
            return (
                "a new function of the same code as one that was staged before; programs are kept with the function, "
                "so make it once and call it often"
            )
        return "for the first time"
    names = positional_names(fun)
    # Of those as near the last one, where only weakness differs before others.
    others = [_differences(key, other, names) for other in reversed(list(known))]
    found = min(others, key=lambda texts: (len(texts), -sum(["(weak" in text for text in texts])))
    many = f"; it has {len(known)} programs" if len(known) > 1 else ""
    return f"unlike the nearest call before, {', '.join(found)}{many}"


def _differences(new: Key, old: Key, names: Sequence[str]) -> list[str]:
    (tree, types, form, settings, axes), (tree_, types_, form_, settings_, axes_) = new, old
    found: list[str] = []
    if tree != tree_:
        found.append(f"the arguments have the structure {tree}, not {tree_}")
    else:
        found += [
            f"{_path(tree, i, names)} is {t!r}, not {t_!r}{_weakly(t, t_)}"
            for i, (t, t_) in enumerate(zip(types, types_, strict=True))
            if t is not t_
        ]
    found += _static(form, form_, names)
    found += [
        f"{name} is {a!r}, not {b!r}"
        for name, a, b in zip(SETTINGS, settings, settings_, strict=True)
        if a != b
    ]
    if axes != axes_:
        found.append(f"the axes in scope are {_named(axes)}, not {_named(axes_)}")
    return found


def _path(tree: PyTreeDef, leaf: int, names: Sequence[str]) -> str:
    return argument_path(tree.unflatten(range(tree.num_leaves)), leaf, names)


def _weakly(t: ArrayType, other: ArrayType) -> str:
    return " (weak: made of a Python number)" if t.strong() is other or other.strong() is t else ""


def _static(form: object, other: object, names: Sequence[str]) -> list[str]:
    if form == other:
        return []
    new = dict(cast("Iterable[tuple[int | str, object]]", form or ()))
    old = dict(cast("Iterable[tuple[int | str, object]]", other or ()))
    found = []
    for where in sorted({*new, *old}, key=str):
        if new.get(where) == old.get(where):
            continue
        name = names[where] if isinstance(where, int) and where < len(names) else where
        found.append(f"static argument {name} is {_shown(new, where)}, not {_shown(old, where)}")
    return found


def _shown(values: dict[int | str, object], where: int | str) -> str:
    if where not in values:
        return "left out"
    key = values[where]
    if not (isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], type)):
        return repr(key)
    return repr(float.fromhex(str(key[1])) if key[0] is float else key[1])


def _named(axes: Iterable[tuple[object, object]]) -> str:
    return ", ".join([f"{name}: {size}" for name, size in axes]) or "none"
