"""Sharing arrays with other libraries through DLPack, without copying."""

from effx.lower.concrete import from_dlpack

__all__ = ["from_dlpack"]


def __dir__() -> list[str]:
    return sorted(__all__)
