"""Modules that a program's key names by version only: effx, NumPy and parts of the standard library.

effx is known by the sizes and times of its files too. A name and a version say enough only while nobody has
put functions or rules of their own into effx or NumPy: `find_tampering` looks for that each time. Names of
effx that are not loaded yet are not loaded for a walk.

Never: trust what reads or changes a state: random numbers, files, clocks.
"""

import builtins
import functools
import hashlib
import importlib.util
import os
import sys
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from effx import version
from effx.array import Array, Box, HostArray
from effx.effects import Handler, RuleTable
from effx.lazy import loaded_values
from effx.lower.placement.concrete import ConcreteArray
from effx.lower.text import emit
from effx.program_cache.bytecode import word_set

__all__ = [
    "dependency_versions",
    "find_tampering",
    "is_denied",
    "is_effx",
    "is_genuine",
    "is_library",
    "is_pure_builtin",
    "is_trusted",
    "latest_source_time",
]

_PACKAGE_DIRECTORY = os.path.dirname(os.path.abspath(version.__file__)) + os.sep
_STANDARD_DIRECTORY = os.path.dirname(os.__file__) + os.sep
_TRUSTED_PACKAGES = word_set(
    """effx numpy ml_dtypes attr attrs math cmath operator _operator functools _functools itertools collections
    _collections _collections_abc typing typing_extensions types dataclasses enum abc _abc numbers fractions string copy
    re bisect _bisect heapq _heapq contextlib opt_einsum"""
)
# Names, including all their members, that do more than compute.
_DENIED_NAMES = word_set(
    """numpy.random numpy.load numpy.save numpy.savez numpy.savez_compressed numpy.loadtxt numpy.savetxt
    numpy.genfromtxt numpy.fromfile numpy.fromregex numpy.memmap numpy.seterr numpy.seterrcall numpy.setbufsize
    numpy.set_printoptions numpy.geterr numpy.get_printoptions numpy.lib._npyio_impl numpy.lib.npyio numpy.lib.format
    numpy.testing numpy.ctypeslib numpy.f2py numpy.show_config numpy.info
    effx.numpy.files effx.numpy.load effx.numpy.save effx.numpy.savez effx.numpy.fromfile effx.monitoring effx.profiler
    effx.live_arrays effx.print_environment_info effx.laws effx.test_util effx.lower effx.handlers effx.caching
    effx.make_user_context effx.experimental.serialize_executable effx.ffi.register_ffi_target effx.viewing
    typing.get_type_hints typing_extensions.get_type_hints attrs.resolve_types attr.resolve_types
    contextlib.redirect_stdout contextlib.redirect_stderr contextlib.chdir"""
)
_PURE_BUILTINS = word_set(
    """abs all any ascii bin bool bytearray bytes callable chr classmethod complex dict divmod enumerate filter float
    format frozenset getattr hasattr hex int isinstance issubclass iter len list map max min next object oct ord pow
    property range repr reversed round set slice sorted staticmethod str sum super tuple type zip NotImplemented
    Ellipsis"""
)


def root_package(module: str) -> str:
    return module.partition(".")[0]


def is_trusted(module: object) -> bool:
    """Returns whether a module, by its name, is trusted."""
    return isinstance(module, str) and root_package(module) in _TRUSTED_PACKAGES


def is_effx(function: FunctionType) -> bool:
    """Returns whether effx's own source defines a function."""
    return function.__code__.co_filename.startswith(_PACKAGE_DIRECTORY)


def is_library(function: FunctionType) -> bool:
    """Returns whether a trusted package's own source defines a function."""
    module = function.__globals__.get("__name__")
    if not is_trusted(module):
        return False
    package = sys.modules.get(root_package(str(module)))
    file = getattr(package, "__file__", None)
    if file is None:
        return False
    package_path = os.path.dirname(file) + os.sep if os.path.basename(file) == "__init__.py" else file
    filename = function.__code__.co_filename
    return filename.startswith((package_path, "<frozen ")) or filename == package_path


def is_denied(path: str) -> bool:
    """Returns whether a dotted name leads to code that does more than compute."""
    parts = path.split(".")
    return any([".".join(parts[: i + 1]) in _DENIED_NAMES for i in range(len(parts))])


def is_pure_builtin(name: str) -> bool:
    """Returns whether a name of `builtins` only computes."""
    builtin = vars(builtins).get(name)
    return name in _PURE_BUILTINS or (isinstance(builtin, type) and issubclass(builtin, BaseException))


def is_genuine(module: ModuleType, name: str, value: object) -> bool:
    """Returns whether a name in a module of effx comes from effx's source, and not from a user."""
    if loaded_values.get((module.__name__, name)) is value:
        return True
    if isinstance(value, ModuleType):
        return sys.modules.get(value.__name__) is value and is_trusted(value.__name__)
    return getattr(value, "__module__", None) == module.__name__ and getattr(value, "__name__", None) == name


def find_tampering(platform: str) -> str:
    """Returns what a user changed inside effx, since keys contain only effx's version; "" for nothing.

    Rules of users' own handlers, and for their own operations, do not count: functions that use those have no key.
    """
    tables: list[RuleTable[Any]] = [emit.rules_for(platform)]
    for name, module in list(sys.modules.items()):
        is_effx_module = (name == "effx" or name.startswith("effx.")) and not name.startswith("effx.laws")
        if not is_effx_module or not isinstance(module, ModuleType):
            continue
        for attribute, value in list(vars(module).items()):
            if type(value) is FunctionType:
                if value.__globals__ is not module.__dict__ and not _is_from_trusted_code(value):
                    return f"{name}.{attribute} is not effx's own"
            elif isinstance(value, RuleTable):
                tables.append(value)
            elif isinstance(value, type) and issubclass(value, Handler) and is_trusted(value.__module__):
                tables += [
                    vars(value)[table_name]
                    for table_name in ("rules", "recursions")
                    if table_name in vars(value)
                ]
    for cls in (Array, Box, HostArray, ConcreteArray):
        for attribute, value in vars(cls).items():
            if type(value) is FunctionType and not is_effx(value) and not _is_from_trusted_code(value):
                return f"{cls.__qualname__}.{attribute} is not effx's own"
    for table in tables:
        if isinstance(table, RuleTable):
            for kind, rule in table.own_rules().items():
                # In a doctest a user's class looks like a builtin one.
                is_importable = getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind
                if is_importable and is_trusted(kind.__module__) and not _is_effx_rule(rule):
                    return f"the rule of {table.owner} for {kind.__name__} is not effx's own"
            for declared in table.declared_rules():
                if not _is_effx_rule(declared.rule):
                    return f"the rule of {table.owner} for what classes declare as {declared.attribute} is not effx's own"
    return ""


def _is_from_trusted_code(function: FunctionType) -> bool:
    return is_trusted(function.__globals__.get("__name__")) or _is_standard_library(function)


def _is_standard_library(function: FunctionType) -> bool:
    file = function.__code__.co_filename
    return file.startswith(("<attrs generated", "<frozen ")) or (
        file.startswith(_STANDARD_DIRECTORY) and "-packages" not in file[len(_STANDARD_DIRECTORY) :]
    )


def _is_effx_rule(rule: object) -> bool:
    if type(rule) is tuple:  # a rule with its registration data
        return _is_effx_rule(rule[0])
    if isinstance(rule, functools.partial):
        return _is_effx_rule(rule.func) and all(map(_is_effx_rule, rule.args))
    if type(rule) is not FunctionType:
        return True
    if not (
        rule.__code__.co_filename.startswith((_PACKAGE_DIRECTORY, "<attrs generated")) or is_library(rule)
    ):
        return False
    return all([_is_effx_rule(c.cell_contents) for c in rule.__closure__ or () if _is_filled_cell(c)])


def _is_filled_cell(cell: object) -> bool:
    try:
        cell.cell_contents  # type: ignore[attr-defined]  # noqa: B018  a cell
    except ValueError:
        return False
    return True


def latest_source_time() -> float:
    """Returns the time of the last change of effx's source files, in seconds."""
    return _source_fingerprint()[1]


@functools.cache
def _source_fingerprint() -> tuple[str, float]:
    """Returns a hash of the sizes and times of effx's files, and the latest time."""
    digest, latest = hashlib.sha256(), 0.0
    for directory, names, files in os.walk(_PACKAGE_DIRECTORY):
        names[:] = sorted([n for n in names if n != "__pycache__"])
        for file in sorted(files):
            state = os.stat(os.path.join(directory, file))
            relative_path = f"{directory[len(_PACKAGE_DIRECTORY) :]}/{file}"
            digest.update(f"{relative_path} {state.st_size} {state.st_mtime_ns}\n".encode())
            latest = max(latest, state.st_mtime)
    return digest.hexdigest(), latest


@functools.cache
def dependency_versions() -> str:
    """Returns a text that changes with any trusted package, including effx's source."""
    stamps = []
    for package in ("attr", "ml_dtypes", "opt_einsum"):
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            state = os.stat(spec.origin)
            stamps.append(f"{package} {state.st_size} {state.st_mtime_ns}")
    return "\n".join([version.__version__, _source_fingerprint()[0], np.__version__, sys.version, *stamps])
