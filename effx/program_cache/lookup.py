"""What `jit` asks before it stages a function: has another process left the program on disk?

The walk over what the function reaches is done twice, before staging and after: where it gives another key the second
time, staging changed something, and the program is not kept.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Hashable, Sequence
from typing import Any, final

import attrs

from effx import flags
from effx.array import Array
from effx.effects import are_optional, current_frame
from effx.errors import BackendError
from effx.handlers.evaluate.debugging import debugging
from effx.ir.types import ArrayType
from effx.ir.values.array import HostData
from effx.lazy import started
from effx.lower.compile_options import CompilerOptions
from effx.lower.disk.cache_files import CacheFiles, say
from effx.lower.disk.compile_cache import files_in_force, key_of
from effx.lower.disk.executable_bytes import surroundings
from effx.lower.placement.backends import platform_of
from effx.lower.placement.shardings import Device
from effx.lower.placement.transfer_guards import guarding
from effx.lower.runtime.executables import Executable
from effx.monitoring import record_event
from effx.program_cache.bytecode import words
from effx.program_cache.entries import Restored, dump, load, unloadable
from effx.program_cache.staged_functions import outdated
from effx.program_cache.trusted_modules import meddling, newest, versions
from effx.program_cache.walk import Refusal, Walk
from effx.tracing.arguments import Statics, origin_of
from effx.tracing.cache_misses import Key
from effx.tracing.traces import Trace
from effx.tree.registry import PyTree

__all__ = ["Question"]

_log = logging.getLogger("effx")
# Of no influence on programs.
_IDLE = words(
    """cache_dir cache_max_size cache_min_compile_seconds cache_programs log_compiles explain_cache_misses
    traceback_filtering no_tracing no_execution transfer_guard transfer_guard_host_to_device
    transfer_guard_device_to_device transfer_guard_device_to_host array_garbage_collection_guard thread_guard
    pprint_use_color"""
)


def askable() -> bool:
    """Says whether programs on disk are asked for, here and now: not under handlers, nor while something is looked for."""
    if not flags.cache_programs.value or current_frame() is not None or debugging() or guarding():
        return False
    return not (flags.enable_checks.value or flags.check_tracer_leaks.value or flags.debug_key_reuse.value)


@final
@attrs.define(eq=False)
class Question:
    """A function with the kind of arguments that it is called with for the first time.

    Attributes:
        fun: the user's function. name: its name.
        kind: by what a trace of it would be found: structure and types of the dynamic arguments, settings.
        static: the other arguments.
        choices: what `jit` was told beside them.
        device, committed: where it runs, and whether it is bound to it.
        options: of XLA's compiler.
    """

    fun: Callable[..., PyTree]
    name: str
    kind: Key
    static: Statics
    choices: Hashable
    device: Device
    committed: bool
    options: CompilerOptions
    _key: str = ""

    def here(self) -> Hashable:
        """Returns by what a program that was found is known in this process."""
        return self.kind, self.device, self.committed

    @property
    def types(self) -> tuple[ArrayType, ...]:
        """The types of the dynamic arguments' arrays."""
        return self.kind[1]

    def answer(self) -> Restored | None:
        """Returns the program if it is on disk."""
        files = files_in_force()
        if files is None:
            return None
        try:
            self._key, met = self.look(True)
        except Refusal as refusal:
            self.explain(str(refusal))
            return None
        data = files.get(self._key)
        if data is None:
            return None
        try:
            found = load(data, self.types, met, self.device, self.committed, self.options)
        except BackendError as error:
            say(f"cache: an entry in {files.directory} is ignored: {error.message}")
            return None
        except Exception as error:  # noqa: BLE001  pickles of classes that are gone, say
            say(f"cache: an entry in {files.directory} is ignored: {type(error).__name__}: {error}")
            return None
        if found is not None:
            record_event("/effx/stage/cache_dir_hit", fun_name=self.name)
        return found

    def keep(self, trace: Trace, executable: Executable) -> None:
        """Writes a program that was staged and compiled for the question."""
        files = files_in_force()
        if files is None or not self._key:
            return
        try:
            self._keep(files, trace, executable)
        except Refusal as refusal:
            self.explain(str(refusal))
        except Exception as error:  # noqa: BLE001  a cache loses time at most
            self.explain(f"writing it raised {type(error).__name__}: {error}")

    def _keep(self, files: CacheFiles, trace: Trace, executable: Executable) -> None:
        reason = unloadable(executable, trace.out_tree)
        if reason:
            raise Refusal(reason)
        if trace.foreign or not are_optional(trace.program.effects):
            raise Refusal("it depends on handlers around it")
        own = key_of(executable.text, executable.devices, executable.options)
        if not files.holds(own):
            raise Refusal("it was compiled too quickly (cache_min_compile_seconds)")
        key, met = self.look()
        if key != self._key:
            raise Refusal("staging it changed what it reads")
        data = dump(executable, own, trace.captured, met, trace.out_tree)
        if data is None:
            raise Refusal("it closes over arrays that are made when it is staged")
        files.put(key, data)

    def look(self, before: bool = False) -> tuple[str, Sequence[Array | HostData]]:
        """Returns the key, and the arrays that the function reaches; `before` it is staged, or after.

        Raises:
            Refusal: there is no key.
        """
        changed = meddling(platform_of(self.device))
        if not changed and newest() > started:
            changed = "effx's source has changed since it was loaded"
        if changed:
            raise Refusal(changed)
        walk = Walk(before)
        try:
            walk.value(self.fun)
            walk.registered()
            walk.treedef(self.kind[0])
            for where, value in self.static:
                walk.put("static", where)
                walk.at(f"the static argument {where!r} ({type(value).__name__})", value)
            walk.put("settings")
            for name, flag in sorted(flags.FLAGS.items()):
                if name not in _IDLE:
                    walk.put("flag", name)
                    walk.at(f"the setting {name}", flag.read())
            for context in flags.user_contexts:
                walk.at("a user context", context.value)
            found = walk.key()
            changed = outdated(walk) if before else ""
            if changed:
                raise Refusal(changed)
        except RecursionError:
            raise Refusal("what it reaches is nested too deeply") from None
        except Exception as error:  # a cache loses time at most
            if isinstance(error, Refusal):
                raise
            raise Refusal(f"looking at what it reaches raised {type(error).__name__}: {error}") from error
        client = self.device.client
        around: list[Any] = [
            versions(),
            self.name,
            surroundings((self.device,)),
            (client.device_count(), client.process_index(), self.device.id, self.committed),
            os.environ.get("XLA_FLAGS", ""),
            self.options,
            repr(self.choices),
            list(map(repr, self.types)),
            [t.weak for t in self.types],
            found,
        ]
        return "p" + hashlib.sha256(json.dumps(around).encode()).hexdigest(), walk.arrays

    def explain(self, reason: str) -> None:
        if flags.explain_cache_misses.value:
            _log.warning("jit: %s is not kept on disk: %s", origin_of(self.fun), reason)
