"""Namespaces that import their modules on first use of a name (PEP 562), as listed in their stub `__init__.pyi`.

A public name is written once, in `__all__` of the module that defines it. The stub says which modules a namespace
takes its names from, to type checkers and to `lazy` alike.

Never: import another effx module before a name is used.
"""

import ast
import importlib
import pkgutil
import re
import sys
import time
import warnings
from collections.abc import Callable

__all__ = ["find_homes", "lazy", "loaded_values", "old_names", "start_time"]

start_time = time.time()  # later changes on disk are not in the running code
# The loaded value of each (namespace, name): a user may have replaced it since.
loaded_values: dict[tuple[str, str], object] = {}
_ALL = re.compile(r"^__all__ = \[(.*?)\]", re.MULTILINE | re.DOTALL)


def lazy(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` for a package with a stub.

    A name that cannot be loaded, because an optional requirement is not installed, is an AttributeError;
    `import` says what is missing.

    Args:
        package: its full name.
    """
    homes: dict[str, tuple[str, str]] = {}

    def load_homes() -> dict[str, tuple[str, str]]:
        if not homes:
            homes.update(find_homes(package))
        return homes

    def public_names() -> list[str]:
        return [name for name in load_homes() if not name.startswith("_")]

    def find(name: str) -> object:
        if name == "__all__":
            return public_names()
        # Python reads dunder names; the stub need not be read for these. Some names of the array API look alike.
        is_dunder = name.startswith("__") and not name.startswith("__array_")
        home = None if is_dunder else load_homes().get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = home
        try:
            value: object = importlib.import_module(module)
        except ImportError as error:
            raise AttributeError(f"module {package!r} cannot load {name!r}: {error}") from error
        if attribute:
            value = getattr(value, attribute)
        loaded_values[package, name] = value
        setattr(sys.modules[package], name, value)  # found without this function from now on
        return value

    return find, lambda: sorted(public_names())


def find_homes(package: str) -> dict[str, tuple[str, str]]:
    """Returns for each name of a namespace its module and its name there, "" for the module itself."""
    homes: dict[str, tuple[str, str]] = {}
    for node in ast.parse(pkgutil.get_data(package, "__init__.pyi") or b"").body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=first_name)):
                homes[name] = homes[first_name]  # `from x import y as z` would export no z to type checkers
                continue
            case ast.ImportFrom():
                pass
            case _:
                continue
        for alias in node.names:
            name = alias.asname or alias.name
            if node.module is None:  # from . import module
                homes[name] = f"{package}.{alias.name}", ""
            elif alias.name == "*":
                homes.update({public: (node.module, public) for public in _public_names(node.module)})
            else:
                homes[name] = node.module, alias.name
    return dict(sorted(homes.items()))


def _public_names(module: str) -> list[str]:
    """Returns a module's `__all__` without loading the module, where its source is there."""
    parent, _, name = module.rpartition(".")
    try:
        source = pkgutil.get_data(parent, f"{name}.py") or b""
    except OSError:
        public: list[str] = importlib.import_module(module).__all__
        return public
    match = _ALL.search(source.decode())
    assert match is not None, f"{module}: has no __all__"
    return re.findall(r'"(\w+)"', match[1])


def list_names(names: list[str]) -> Callable[[], list[str]]:
    """Returns `__dir__` for a public module: what `dir` and completion show are its own names, not those it imports."""
    return lambda: sorted(names)


def old_names(module: str, names: dict[str, str]) -> Callable[[str], object]:
    """Returns `__getattr__` for a module whose names have changed: an old name gives what the new one does, with a warning.

    Args:
        module: its full name.
        names: the new name of each old one.
    """

    def find(name: str) -> object:
        new = names.get(name)
        if new is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(f"{module}.{name} is now called {new}", DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[module], new)

    return find
