"""Every public name of the namespaces is the function, whatever was asked for before.

Never: looks at what functions do.
"""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

PACKAGES = ("effx.lax", "effx.nn", "effx.random", "effx.tree", "effx.tree_util")


@pytest.mark.parametrize("name", PACKAGES)
def test_no_module_hides_a_function(name: str) -> None:
    """A module becomes an attribute of its package when it is imported."""
    package = importlib.import_module(name)
    inner = {m.name for m in pkgutil.iter_modules(package.__path__)}
    assert inner & set(package.__all__) <= {"initializers", "linalg"}
    for public in package.__all__:
        assert public in ("initializers", "linalg") or not isinstance(getattr(package, public), ModuleType)


@pytest.mark.parametrize("name", PACKAGES)
def test_each_package_imports_alone(name: str) -> None:
    """What performs needs the outermost handler, also where `import effx` never ran before."""
    code = f"from {name} import *; import {name} as m; print(len(m.__all__))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 15
