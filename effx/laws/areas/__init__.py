"""The laws, a file for each area; importing this registers them all.

Never: hold a strategy that users need; those are in `effx.laws`.
"""

from effx.laws.areas import (
    backward,
    batching,
    calculus,
    compiled,
    control,
    custom,
    forward,
    handler_rules,
    interceptors,
    linear,
    operation,
    parallel,
    staging,
    states,
    tools,
    user_handlers,
    user_transformations,
    values,
)
