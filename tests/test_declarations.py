"""Functions that are declared in a statement are functions of their modules, as if they were written there."""

from __future__ import annotations

import importlib
import inspect
import pickle
from types import FunctionType, ModuleType

import pytest

from effx.array.declared import declare_function
from effx.program_cache.walk import FunctionHasher

MODULES = [
    importlib.import_module(f"effx.{name}")
    for name in (
        "lax.compare", "lax.elementwise.arithmetic", "lax.elementwise.bits", "lax.elementwise.exponential",
        "lax.elementwise.gamma", "lax.elementwise.special", "lax.elementwise.trigonometric", "nn.initializers",
        "numpy.binary", "numpy.elementwise", "numpy.logic",
    )
]  # fmt: skip


def declared_functions(module: ModuleType) -> dict[str, FunctionType]:
    """The functions of a module whose code stands in another file, with the functions that ufuncs wrap."""
    functions = {name: getattr(value, "func", value) for name, value in vars(module).items()}
    return {
        name: function
        for name, function in functions.items()
        if type(function) is FunctionType
        and function.__module__ == module.__name__
        and function.__closure__ is not None
        and not hasattr(function, "__wrapped__")
    }


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_declared_function_stands_in_its_module(module: ModuleType) -> None:
    """Name, globals, pickle and documentation are those of a function of the module."""
    functions = declared_functions(module)
    assert functions
    for function in functions.values():
        own = vars(module)[function.__name__]
        assert getattr(own, "func", own) is function
        assert function.__globals__ is vars(module)
        assert function.__qualname__ == function.__code__.co_name == function.__code__.co_qualname
        assert pickle.loads(pickle.dumps(own)) is own
        assert "\n>>> " in inspect.cleandoc(function.__doc__ or "")
        assert inspect.signature(function).return_annotation is not inspect.Signature.empty


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_declared_functions_have_keys_of_their_own(module: ModuleType) -> None:
    """Functions of one template have different keys in the cache of programs."""
    functions = {id(function): function for function in declared_functions(module).values()}
    keys = set()
    for function in functions.values():
        walk = FunctionHasher()
        walk.add_value(function)
        keys.add(walk.digest())
    assert len(keys) == len(functions)


def test_template_reads_no_globals() -> None:
    """A template with globals, which the module of the declaration need not have, is refused."""
    with pytest.raises(TypeError) as caught:
        declare_function(lambda: MODULES, "modules", {}, "Returns modules.")
    assert str(caught.value) == "modules: the template reads globals: MODULES"
