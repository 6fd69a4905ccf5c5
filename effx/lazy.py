"""Packages of functions that load their modules when a name is asked for (PEP 562).

Never: import another effx module before a name is asked for.
"""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence

__all__ = ["lazy"]


def lazy(
    package: str, modules: Mapping[str, str], public: Sequence[str] = ()
) -> tuple[Callable[[str], object], list[str]]:
    """Returns a module `__getattr__` and `__all__` for a package, and makes `dir` list all names.

    Args:
        package: its full name.
        modules: for each module in it the names that it gives, separated by spaces.
        public: modules that are names themselves.
    """
    home = {name: module for module, names in modules.items() for name in names.split()}
    # Loading a module sets its name in the package, over a function of the same name.
    assert not set(home) & set(modules), f"{package}: modules and functions share names"

    def find(name: str) -> object:
        if name in public:
            return importlib.import_module(f"{package}.{name}")
        module = home.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # Whatever the name is for, its results will be worked with: the outermost handler must be there.
        importlib.import_module("effx.handlers.evaluate")
        value = getattr(importlib.import_module(f"{package}.{module}"), name)
        setattr(sys.modules[package], name, value)  # found without this function from now on
        return value

    names = sorted([*home, *public])
    module = sys.modules.get(package)
    if module is not None:
        setattr(module, "__dir__", lambda: sorted({*vars(module), *names}))  # noqa: B010 - a module's attribute
    return find, names
