"""Markers for `vjp`'s cotangents with mutable references, named as in `jax.ad`."""

from effx.transforms.autodiff.pullbacks import (
    VJP,
    DidntWant,
    DontWant,
    GradRef,
    GradValue,
    NotNeeded,
    NotSaveable,
)

__all__ = ["VJP", "DidntWant", "DontWant", "GradRef", "GradValue", "NotNeeded", "NotSaveable"]


def __dir__() -> list[str]:
    return sorted(__all__)
