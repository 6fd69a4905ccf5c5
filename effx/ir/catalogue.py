"""List all operation classes: those of the core, of the families, and of users.

Never: import a family at import time; families are imported when all classes are requested.
"""

import importlib
import pkgutil
import sys
from typing import Any

from effx.effects import Operation
from effx.ir.ops.base import ArrayOperation, TupleOperation

Kind = type[Operation[Any]]

PACKAGES = ("effx.ir.ops", "effx.families")


def import_operations() -> None:
    """Imports every module that defines operations of effx."""
    for name in PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
            importlib.import_module(module.name)


def _is_defined(kind: Kind) -> bool:
    # attrs replaces a class by one with slots; the first one exists until it is collected.
    return getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind


def operation_classes(*packages: str) -> list[Kind]:
    """Lists the concrete operation classes, by module and name.

    Args:
        packages: prefixes of their modules' names, by default effx's own; "" for users' operations too.

    >>> [kind.name for kind in operation_classes("effx.families.sort")]
    ['sort']
    """
    import_operations()
    classes: dict[tuple[str, str], Kind] = {}
    pending: list[Kind] = [ArrayOperation, TupleOperation]
    while pending:
        kind = pending.pop()
        subclasses = [k for k in kind.__subclasses__() if _is_defined(k)]
        pending += subclasses
        is_base = kind in (ArrayOperation, TupleOperation) or any(
            [b.__module__.startswith(PACKAGES) for b in subclasses]
        )
        if not is_base and kind.__module__.startswith(packages or PACKAGES):
            classes[kind.__module__, kind.__qualname__] = kind
    return [classes[key] for key in sorted(classes)]
