"""Sources of functions that are loaded as a new process would load them, and what becomes of their programs."""

import logging
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, final

import attrs
import numpy as np

import effx
from effx import monitoring

HEADER = """
import dataclasses, enum, functools, math, operator, typing
import attrs, numpy as np
import effx, effx.numpy as enp
"""


@final
@attrs.frozen
class Outcome:
    """What a call gave, whether its program came from disk, and why it was not stored."""

    value: Any
    hit: bool
    refusal: str


class Recorder(logging.Handler):
    """Keeps what effx logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def loaded(source: str, name: str = "users_code") -> ModuleType:
    """A module made of a source, as a new process would make it."""
    module = ModuleType(name)
    sys.modules[name] = module
    exec(compile(HEADER + source, f"{name}.py", "exec"), module.__dict__)
    return module


def outcome(call: Callable[[], Any], forget: bool = True) -> Outcome:
    """What happens where nothing of the function is in memory, if that is forgotten."""
    if forget:
        effx.clear_caches()
    hits: list[str] = []

    def listener(event: str, **_: object) -> None:
        if event == "/effx/stage/cache_dir_hit":
            hits.append(event)

    log, recorder = logging.getLogger("effx"), Recorder()
    monitoring.register_event_listener(listener)
    log.addHandler(recorder)
    try:
        with effx.explain_cache_misses():
            value = call()
    finally:
        log.removeHandler(recorder)
        monitoring.unregister_event_listener(listener)
    said = [line.partition("is not kept on disk: ")[2] for line in recorder.lines if "on disk" in line]
    return Outcome(effx.tree.map(lambda x: np.asarray(x), value), bool(hits), said[0] if said else "")


def run(source: str, call: str = "effx.jit(f)(3.0)", name: str = "users_code") -> Outcome:
    """What happens in a process that loads a source and calls."""
    module = loaded(source, name)
    return outcome(lambda: eval(call, module.__dict__))


def same(a: Any, b: Any) -> bool:
    """Says whether two results agree in structure, types and elements."""
    if effx.tree.structure(a) != effx.tree.structure(b):
        return False
    pairs = zip(effx.tree.leaves(a), effx.tree.leaves(b), strict=True)
    return all([x.dtype == y.dtype and np.array_equal(x, y) for x, y in pairs])
