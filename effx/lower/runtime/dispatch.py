"""jaxlib's C++ fast path: functions that find a compiled program by their arguments without Python.

A `PjitFunction` flattens its arguments, looks up (tree, types, shardings, flags), and on a hit
runs the executable and builds the result in C++. On a miss it calls Python. Where the private
interface is missing, `make_fallback` gives a Python object with the same results.

Never: trace.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from jaxlib import _jax

from effx import caching, flags, presence
from effx.flags import Flag
from effx.ir.types import ArrayType
from effx.lower.placement.backends import fork_counts
from effx.lower.placement.concrete import ConcreteArray, deletion_listeners, result_structure
from effx.lower.placement.resharding import restore_default_layout
from effx.lower.placement.shards import assemble_buffer
from effx.lower.runtime.executables import Executable
from effx.tree.registry import check_nesting_depth, dispatch


class FastPath(NamedTuple):
    """The attributes that jaxlib's C++ reads, under these names, to run without Python."""

    xla_executable: _jax.LoadedExecutable
    out_pytree_def: Any
    in_shardings: list[object]
    out_shardings: list[object]
    out_avals: list[ArrayType]
    out_committed: list[bool]
    kept_var_bitvec: list[bool]
    in_device_local_layouts: list[None]
    const_args: list[object]


Miss = Callable[..., tuple[object, FastPath | None, bool]]

has_fast_path = hasattr(_jax, "pjit") and hasattr(_jax, "PjitFunctionCache")

# One configuration state for each flag that changes what a call means: their global values are part of the C++
# look-up key. Overrides belong to a context, which C++ does not read: jit checks for them first.
KEYED = flags.flags_that_change(flags.Changes.CALLS)


def _watch(name: str, value: object) -> None:
    change = presence.discard_key if value in (False, "allow") else presence.add_key
    change(name)


# Flags that need Python are rare: while one is on, each call of a jitted function goes through Python.
for _flag in flags.flags_that_change(flags.Changes.NOTHING):
    if _flag.needs_python:
        _watch(_flag.name, _flag.value)
        _flag.subscribe_global(partial(_watch, _flag.name))


def _mirror(flag: Flag[Any]) -> "_jax.config.Config[Any]":
    state = _jax.config.Config(f"effx_{flag.name}", flag.value, include_in_jit_key=True)
    flag.subscribe_global(state.set_global)
    return state


_states = {flag.name: _mirror(flag) for flag in KEYED}


def _on_device_override(_: object) -> None:
    # C++ finds kernels of single operations under any override; only the device's matters to them.
    # So the thread's own value is part of C++'s key, where a context overrides it.
    overridden = flags.default_device in (flags.overrides() or ())
    state = _states["default_device"]
    state.set_local(flags.default_device.value if overridden else _jax.config.unset)


flags.default_device.subscribe(_on_device_override)


def _on_mode_override(_: object) -> None:
    # A kernel that was compiled fast in a block must not serve outside of it.
    overridden = flags.compile in (flags.overrides() or ())
    _states["compile"].set_local(flags.compile.value if overridden else _jax.config.unset)


flags.compile.subscribe(_on_mode_override)

# While some context has a handler that intercepts, or an override, C++ finds nothing: Python reads the context.
# Handlers and overrides of flags are in context variables, which C++ cannot see, and a copy for each thread
# would be wrong where contexts move between threads and tasks. So one state says whether any context of the
# process holds one. While it does, C++ misses and Python reads the context: 2 us for such calls and nothing
# for all others, where a Python function in front of C++ would cost each call 0.2.
_contexts: "_jax.config.Config[bool]" = _jax.config.Config("effx_contexts", False, include_in_jit_key=True)
presence.listeners.append(_contexts.set_global)
# A new number invalidates all of C++'s entries: a buffer that an executable has as a constant was deleted, or a user's
# own setting has another global value.
_losses: "_jax.config.Config[int]" = _jax.config.Config("effx_losses", 0, include_in_jit_key=True)


# After a fork it sends each call to Python, which raises an error; arrays on the host can still be read.
def _on_loss() -> None:
    _losses.set_global(_losses.get_global() + 1)


deletion_listeners.append(_on_loss)
fork_counts.append(_on_loss)
flags.user_context_listeners.append(_on_loss)

# jaxlib reads three states of its own. effx or jax sets them, whichever is imported first, and jax overwrites
# them if it is imported later; effx then uses only calls that do not depend on them.
# (Under effx.compat a module `jax` is effx itself: JAX's is recognized by its module that sets them.)
if "jax._src.config" not in sys.modules:
    _jax.jax_jit.set_disable_jit_state(
        _jax.config.Config("effx_cpp_disable_jit", False, include_in_jit_key=False)
    )
    _jax.jax_jit.set_enable_x64_state(_states["enable_x64"])
    _jax.jax_jit.set_post_hook_state(_jax.config.Config("effx_cpp_post_hook", None, include_in_jit_key=False))


def reads_scalars() -> bool:
    """Says whether C++ types Python scalars as effx does: not where jax's or a context's settings are in force."""
    return "jax._src.config" not in sys.modules and flags.overrides() is None


def fast_path(executable: Executable, result: object) -> FastPath | None:
    """Returns the data with which C++ runs an executable that has run, and builds results of `result`'s structure.

    None where the program's Python functions need Python around the run: for the caller's overrides, and to end the run
    where one raises.
    """
    outputs, calls = len(executable.out_types), executable.calls
    if calls is not None and not (calls.is_pure_before_first_call and flags.overrides() is None):
        return None
    # The hidden arguments precede the caller's, and the executable takes them all.
    kept_mask = [True] * len(executable.constants) + list(executable.kept_mask)
    return FastPath(
        xla_executable=executable.runnable(),
        out_pytree_def=result_structure(
            result, None if calls is None else calls.check_first_result(ConcreteArray)
        ),
        in_shardings=list(executable.in_shardings),
        out_shardings=list(executable.out_shardings),
        out_avals=list(executable.out_types),
        out_committed=[executable.committed] * outputs,
        kept_var_bitvec=kept_mask,
        in_device_local_layouts=[None] * sum(kept_mask),
        const_args=list(executable.constants),
    )


def place_arguments(values: Sequence[Any], shardings: Sequence[Any], *rest: object) -> list[object]:
    # Called by C++ for arguments with other shardings than the executable's.
    result: list[object] = []
    for value, sharding in zip(values, shardings, strict=True):
        buffer = value.buffer if type(value) is ConcreteArray else value
        device = sharding._device
        t = cast("ArrayType", buffer.aval)
        result.append(assemble_buffer(t, sharding, [restore_default_layout(buffer, t)], [device], True))
    return result


_NOTHING: tuple[object, ...] = ()


def refuse_pending(args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """Raises an error for arguments in which C++ reached the recursion limit: it calls with an error set, not raised.

    It must come first, since the next call of a function in C would find the error.

    Raises:
        TreeError: they are nested too deeply.
    """
    try:
        _NOTHING * -1  # where Python looks for one
    except RecursionError:
        check_nesting_depth((args, kwargs))
        raise


# The number of signatures that C++ caches, for all functions. More than jaxlib's 4096: when it is full, each call of an
# evicted signature goes through Python, and jaxlib 0.10 then decrements the count of the wrong function.
_CAPACITY = 1 << 14
_cache = _jax.PjitFunctionCache(_CAPACITY) if has_fast_path else None
if _cache is not None:
    caching.other_caches.append(_cache.clear)


def make_fast_function(
    name: str,
    fun: Callable[..., object],
    miss: Miss,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
    key: object = None,
) -> Callable[..., Any]:
    """Returns a function that dispatches in C++ and calls `miss` for new signatures.

    Functions made of one `fun` share C++'s cache if their keys are equal; None is a key of its own.
    """
    if not has_fast_path:
        return make_fallback(fun, miss)
    # What users call is jaxlib's C++ object itself. On a call that takes jax 2.95 us, 2.3 of them XLA's own
    # execution, our arrays cost 0.05 us to unwrap an argument and 0.15 to build a result. One eager operation
    # is faster than jax's where jax goes through Python (`x * y`, `x + 1.0`), and takes 1.2 times jax's time
    # for `sin(x)`, where jax's function *is* the C++ object. Making effx's that object too would bring it to
    # 1.1 and cost every traced operation 0.43 us, a sixth of staging: not done.
    return _jax.pjit(
        name,
        fun,
        miss,
        list(static_argnums),
        sorted(static_argnames),
        (name, object() if key is None else key),
        dispatch,
        place_arguments,
        _cache,
    )


class Fallback:
    """The substitute of `make_fast_function` without the private interface: every call goes through Python."""

    def __init__(self, fun: Callable[..., object], miss: Miss) -> None:
        self.__wrapped__ = fun
        self._cache_miss = miss

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self._cache_miss(*args, **kwargs)[0]

    def __get__(self, instance: object, owner: type | None = None) -> object:
        if instance is None:
            return self
        from types import MethodType

        return MethodType(self, instance)

    def _cache_size(self) -> int:
        return 0

    def _clear_cache(self) -> None:
        """Does nothing: there is no cache."""


def make_fallback(fun: Callable[..., object], miss: Miss) -> Callable[..., Any]:
    """Returns a function that takes the miss path each time."""
    return cast("Callable[..., Any]", Fallback(fun, miss))


FastFunction: type[object] = _jax.PjitFunction if has_fast_path else Fallback
"""The class of the functions that `make_fast_function` returns."""
