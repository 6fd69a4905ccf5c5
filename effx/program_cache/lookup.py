"""Look up a function's program on disk before `jit` stages it, and store it afterwards.

The walk over the values that the function reaches is done before staging and after: if the keys differ, staging
changed something, and the program is not stored.
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
from effx.effects import all_optional, current_frame
from effx.errors import BackendError
from effx.handlers.evaluate.debugging import is_debugging
from effx.ir.types import ArrayType
from effx.ir.values.array import HostData
from effx.lazy import start_time
from effx.lower.compile_options import CompilerOptions
from effx.lower.disk.cache_files import CacheFiles, warn_once
from effx.lower.disk.compile_cache import active_cache_files, cache_key
from effx.lower.disk.executable_bytes import environment_fingerprint
from effx.lower.placement.backends import platform_of
from effx.lower.placement.shardings import Device
from effx.lower.placement.transfer_guards import has_active_guards
from effx.lower.runtime.executables import Executable
from effx.monitoring import record_event
from effx.program_cache.entries import (
    RestoredProgram,
    deserialize_program,
    serialize_program,
    uncacheable_reason,
)
from effx.program_cache.staged_functions import stale_callee
from effx.program_cache.trusted_modules import dependency_versions, find_tampering, latest_source_time
from effx.program_cache.walk import FunctionHasher, Refusal
from effx.tracing.arguments import StaticArguments, function_origin
from effx.tracing.cache_misses import TraceKey
from effx.tracing.traces import FunctionTrace
from effx.tree.registry import PyTree

__all__ = ["ProgramQuery"]

_log = logging.getLogger("effx")


def can_query() -> bool:
    """Returns whether the disk cache is in use: not under handlers, nor with debugging flags."""
    if not flags.cache_programs.value or current_frame() is not None or is_debugging() or has_active_guards():
        return False
    return not (flags.enable_checks.value or flags.check_tracer_leaks.value or flags.debug_key_reuse.value)


@final
@attrs.define(eq=False)
class ProgramQuery:
    """A function with the signature of its arguments, in its first call of this signature.

    Attributes:
        fun: the user's function. name: its name.
        kind: the key of its trace: structure and types of the dynamic arguments, settings.
        static: the static arguments.
        choices: the options of `jit`.
        device, committed: the device to run on, and whether the call is committed to it.
        options: XLA compiler options.
    """

    fun: Callable[..., PyTree]
    name: str
    kind: TraceKey
    static: StaticArguments
    choices: Hashable
    device: Device
    committed: bool
    options: CompilerOptions
    program: RestoredProgram | None = None
    _key: str = ""

    @property
    def types(self) -> tuple[ArrayType, ...]:
        """The types of the dynamic arguments' arrays."""
        return self.kind[1]

    def look_up(self, restored: dict[Hashable, RestoredProgram]) -> None:
        """Sets the program, from those read by this process or from disk."""
        local_key = self.kind, self.device, self.committed
        self.program = restored.get(local_key)
        if self.program is None and (program := self.read_from_disk()) is not None:
            self.program = restored[local_key] = program

    def read_from_disk(self) -> RestoredProgram | None:
        """Returns the program if it is on disk."""
        files = active_cache_files()
        if files is None:
            return None
        try:
            self._key, reachable = self.compute_key(True)
        except Refusal as refusal:
            self.log_refusal(str(refusal))
            return None
        data = files.get(self._key)
        if data is None:
            return None
        try:
            program = deserialize_program(
                data, self.types, reachable, self.device, self.committed, self.options
            )
        except BackendError as error:
            warn_once(f"cache: an entry in {files.directory} is ignored: {error.message}")
            return None
        except Exception as error:  # noqa: BLE001  pickles of removed classes, for example
            warn_once(f"cache: an entry in {files.directory} is ignored: {type(error).__name__}: {error}")
            return None
        if program is not None:
            record_event("/effx/stage/cache_dir_hit", fun_name=self.name)
        return program

    def store(self, trace: FunctionTrace, executable: Executable) -> None:
        """Writes a program that was staged and compiled for this query."""
        files = active_cache_files()
        if files is None or not self._key:
            return
        try:
            self._store(files, trace, executable)
        except Refusal as refusal:
            self.log_refusal(str(refusal))
        except Exception as error:  # noqa: BLE001  a cache failure only costs time
            self.log_refusal(f"writing it raised {type(error).__name__}: {error}")

    def _store(self, files: CacheFiles, trace: FunctionTrace, executable: Executable) -> None:
        reason = uncacheable_reason(executable, trace.out_tree)
        if reason:
            raise Refusal(reason)
        if trace.foreign or not all_optional(trace.program.effects):
            raise Refusal("it depends on handlers around it")
        executable_key = cache_key(executable.text, executable.devices, executable.options)
        if not files.has_entry(executable_key):
            raise Refusal("it was compiled too quickly (cache_min_compile_seconds)")
        key, reachable = self.compute_key()
        if key != self._key:
            raise Refusal("staging it changed what it reads")
        data = serialize_program(executable, executable_key, trace.captured, reachable, trace.out_tree)
        if data is None:
            raise Refusal("it closes over arrays that are made when it is staged")
        files.write(key, data)

    def compute_key(self, before_staging: bool = False) -> tuple[str, Sequence[Array | HostData]]:
        """Returns the key, and the arrays that the function reaches, before staging or after.

        Raises:
            Refusal: the function cannot have a key.
        """
        problem = find_tampering(platform_of(self.device))
        if not problem and latest_source_time() > start_time:
            problem = "effx's source has changed since it was loaded"
        if problem:
            raise Refusal(problem)
        walk = FunctionHasher(before_staging)
        try:
            walk.add_value(self.fun)
            walk.add_registered_classes()
            walk.add_treedef(self.kind[0])
            for where, value in self.static:
                walk.add_tagged("static", where)
                walk.add_named(f"the static argument {where!r} ({type(value).__name__})", value)
            walk.add_tagged("settings")
            for flag in flags.flags_that_change(flags.Changes.PROCESSES):
                walk.add_tagged("flag", flag.name)
                walk.add_named(f"the setting {flag.name}", flag.value)
            for context in flags.user_contexts:
                walk.add_named("a user context", context.value)
            function_key = walk.digest()
            problem = stale_callee(walk) if before_staging else ""
            if problem:
                raise Refusal(problem)
        except RecursionError:
            raise Refusal("what it reaches is nested too deeply") from None
        except Exception as error:  # a cache failure only costs time
            if isinstance(error, Refusal):
                raise
            raise Refusal(f"looking at what it reaches raised {type(error).__name__}: {error}") from error
        client = self.device.client
        key_parts: list[Any] = [
            dependency_versions(),
            self.name,
            environment_fingerprint((self.device,)),
            (client.device_count(), client.process_index(), self.device.id, self.committed),
            os.environ.get("XLA_FLAGS", ""),
            self.options,
            repr(self.choices),
            list(map(repr, self.types)),
            [t.weak for t in self.types],
            function_key,
        ]
        return "p" + hashlib.sha256(json.dumps(key_parts).encode()).hexdigest(), walk.arrays

    def log_refusal(self, reason: str) -> None:
        if flags.explain_cache_misses.value:
            _log.warning("jit: %s is not kept on disk: %s", function_origin(self.fun), reason)
