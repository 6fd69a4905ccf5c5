"""Choose the outermost handler: one that runs operations on XLA, or one that also checks their results."""

from effx import effects
from effx.effects import Handler
from effx.flags import debug_infs, debug_key_reuse, debug_nans, enable_checks, no_execution
from effx.handlers.evaluate.handler import Evaluate

_FLAGS = (debug_nans, debug_infs, debug_key_reuse, enable_checks, no_execution)


def handler() -> Handler:
    """Returns the outermost handler that the flags require."""
    if not any([flag.value for flag in _FLAGS]):
        return Evaluate()
    from effx.handlers.evaluate.result_checks import (
        CheckedEvaluate,  # not imported before one of the flags is on
    )

    return CheckedEvaluate()


def _look_at_results(on: bool) -> None:
    # For good: other contexts may have the flag on. Each operation costs 0.2 us more from then on.
    if on:
        effects.set_outermost(handler())


for _flag in _FLAGS:
    _flag.subscribe(_look_at_results)
