"""The array API standard's inspection of a namespace: revision, capabilities, devices and dtypes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, TypedDict, final

import attrs

from effx import dtypes
from effx.errors import ArrayApiError
from effx.lower.placement.backends import devices
from effx.numpy.scalars import KINDS, isdtype

if TYPE_CHECKING:
    from types import ModuleType

    from effx.dtypes import DType
    from effx.lower.placement.shardings import Device

__all__ = ["__array_api_version__", "__array_namespace_info__"]

__array_api_version__: Final = "2025.12"

# Each revision keeps what those before it have.
_REVISIONS = ("2021.12", "2022.12", "2023.12", "2024.12", __array_api_version__)

_DTYPES = (
    dtypes.bool_, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.uint16, dtypes.uint32,
    dtypes.uint64, dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128,
)  # fmt: skip

Capabilities = TypedDict(
    "Capabilities", {"boolean indexing": bool, "data-dependent shapes": bool, "max dimensions": int}
)
DefaultDTypes = TypedDict(
    "DefaultDTypes",
    {"real floating": "DType", "complex floating": "DType", "integral": "DType", "indexing": "DType"},
)


@final
@attrs.frozen
class ArrayNamespaceInfo:
    """The inspection of the namespace `effx.numpy` by the array API standard."""

    def capabilities(self) -> Capabilities:
        """What does not hold of every namespace.

        Returns:
            False for what needs the values of arrays, which a program that is traced has not; and the greatest
            number of axes.
        """
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> Device | None:
        """None, which means the default device wherever a device is an argument."""
        return None

    def devices(self) -> tuple[Device | None, ...]:
        """None, which means the default device, and the devices of the default platform."""
        return None, *devices()

    def default_dtypes(self, *, device: object = None) -> DefaultDTypes:
        """The default dtypes of arrays, by kind; of 64 bits where these are enabled.

        Args:
            device: has no influence: all devices have the same dtypes.
        """
        del device
        return {
            "real floating": dtypes.canonicalize(dtypes.float64),
            "complex floating": dtypes.canonicalize(dtypes.complex128),
            "integral": dtypes.canonicalize(dtypes.int64),
            "indexing": dtypes.canonicalize(dtypes.int64),
        }

    def dtypes(self, *, device: object = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """The standard's dtypes by name; those of more than 32 bits to a number where they are enabled.

        Args:
            device: has no influence: all devices have the same dtypes.
            kind: "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating",
                "numeric", or a tuple of these; None for all.

        Raises:
            ArrayApiError: another kind.
        """
        del device
        kinds = tuple(KINDS) if kind is None else kind if isinstance(kind, tuple) else (kind,)
        for k in kinds:
            if k not in KINDS:
                raise ArrayApiError(f"dtypes: kind must be one of {', '.join(KINDS)}, got {k!r}")
        known = [t for t in _DTYPES if dtypes.canonicalize(t) == t]
        return {t.name: t for t in known if isdtype(t, kinds)}


def __array_namespace_info__() -> ArrayNamespaceInfo:  # noqa: N807 - the standard's name
    """The capabilities of the namespace, its devices and dtypes, as the array API standard defines.

    >>> __array_namespace_info__().dtypes(kind="complex floating")
    {'complex64': dtype('complex64')}
    """
    return ArrayNamespaceInfo()


def namespace(api_version: str | None) -> ModuleType:
    """Returns `effx.numpy`, for `x.__array_namespace__()`.

    Args:
        api_version: a revision of the standard, "2025.12" or an earlier one; None for any.

    Raises:
        ArrayApiError: a revision that is not known.
    """
    if api_version is not None and api_version not in _REVISIONS:
        raise ArrayApiError(
            f"__array_namespace__: api_version must be one of {', '.join(_REVISIONS)}, got {api_version!r}"
        )
    return sys.modules["effx.numpy"]
