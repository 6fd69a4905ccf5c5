"""What every test shares: quiet start-up and the hypothesis profile.

Never: imports effx at the top, so that collection shows import errors as test failures.
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
from collections.abc import Generator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
# Two workers share the cores; more threads each would only have them wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
# Parallel maps want devices; a CPU can pass for several.
os.environ.setdefault("EFFX_NUM_CPU_DEVICES", "8")

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import gpu_runs, profiles
from tools.slow_tests import read_list

profiles.load()


# What the hook leaves alone under --guard=core. effx.tree and autodiff.core: it stumbles over the positional-only `cls`
# of Partial.__new__, and takes `Callable[[Unpack[Ts]], R]` for a function of one argument. The rest is no core: tests hand
# wrong types to these modules on purpose, to see their own errors.
NOT_GUARDED = (
    "effx.tree", "effx.transforms.autodiff.core", "effx.ad", "effx.callbacks", "effx.checkpoint_policies", "effx.compat",
    "effx.custom_batching", "effx.custom_derivatives", "effx.debug", "effx.distributed", "effx.dlpack",
    "effx.example_libraries", "effx.experimental", "effx.export", "effx.ffi", "effx.flatten_util", "effx.image", "effx.laws",
    "effx.lazy", "effx.library", "effx.memory", "effx.monitoring", "effx.ops", "effx.profiler", "effx.program_cache",
    "effx.ref", "effx.scipy", "effx.sharding", "effx.stages", "effx.test_util", "effx.typing", "effx.viewing",
)  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--guard` says what typeguard's import hook checks at run time."""
    parser.addoption(
        "--guard", choices=("core", "library"), help="packages of effx under typeguard's import hook"
    )


def install_typeguard(part: str) -> None:
    """Has typeguard check calls and assignments of a part of effx, whose modules must not be imported yet."""
    from typeguard import TypeguardFinder, install_import_hook

    class Finder(TypeguardFinder):
        def should_instrument(self, module_name: str) -> bool:
            if part == "library":
                return module_name.startswith("effx.library")
            return module_name.startswith("effx.") and not module_name.startswith(NOT_GUARDED)

    install_import_hook(cls=Finder)


def pytest_configure(config: pytest.Config) -> None:
    """Installs typeguard where asked, and keeps it from reading the class of C++ functions, which have attributes each of
    their own.

    Symbolic sizes are ints for type checkers, so they are for typeguard.
    """
    if config.option.guard:
        install_typeguard(config.option.guard)
    from typeguard import TypeCheckError, checker_lookup_functions

    def lookup(origin: object, args: tuple[Any, ...], extras: tuple[Any, ...]) -> Any:
        if getattr(origin, "__qualname__", "") == "Jitted":
            return lambda value, origin, args, memo: None
        return an_int if origin is int else None

    def an_int(value: object, origin: object, args: object, memo: object) -> None:
        if not isinstance(value, int) and type(value).__qualname__ != "Dim":
            raise TypeCheckError("is not an instance of int")

    checker_lookup_functions.insert(0, lookup)


# What runs under typeguard's import hook, and only there: it slows effx down several times, so not the big tables.
GUARDED = ("handlers", "lower", "transforms", "library")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Guarded runs need not import the big tables, and a GPU has not the devices that other files ask for."""
    here = Path(__file__).parent
    if (
        str(config.option.markexpr).startswith("gpu")
        and here in collection_path.parents
        and collection_path.is_file()
    ):
        return not gpu_runs.is_for_gpu(collection_path) or None
    guarded = str(config.option.markexpr).startswith(("guarded", "library"))
    outside = collection_path.parent == here and collection_path.name not in GUARDED
    return True if guarded and outside and collection_path.is_dir() else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that run guarded, each test of the suite runs once, under the hook or without it; and slow cases."""
    here = Path(__file__).parent
    slow = read_list()
    for item in items:
        if item.nodeid in slow:
            item.add_marker("deep")
        if here not in item.path.parents:
            continue
        if gpu_runs.is_for_gpu(item.path):
            item.add_marker("gpu")
        first = item.path.relative_to(here).parts[0]
        if "unguarded" not in item.keywords and (first in GUARDED or first.endswith(".py")):
            item.add_marker("library" if first == "library" else "guarded")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Excuses on a GPU what is no defect there."""
    report = yield
    gpu_runs.excuse(report, call)
    return report


@pytest.fixture(scope="session", autouse=True)
def _full_precision(request: pytest.FixtureRequest) -> None:
    """Has GPUs compute products as CPUs do."""
    if str(request.config.option.markexpr).startswith("gpu"):
        import effx

        effx.config.update("default_matmul_precision", "highest")


def pytest_collection_finish() -> None:
    """Keeps what is here before the first test out of the collections of garbage, of which many tests ask for one."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def generator_states(request: pytest.FixtureRequest) -> list[tuple[Any, Any]]:
    """The bit generators that a test module keeps in its variables, and their states before its first test."""
    values = vars(request.module).values() if hasattr(request, "module") else ()
    generators = [x.bit_generator for x in values if isinstance(x, np.random.Generator)]
    return [(b, b.state) for b in generators]


@pytest.fixture(autouse=True)
def _generators_start_anew(generator_states: list[tuple[Any, Any]]) -> None:
    """Gives each test the same numbers, whichever tests of its module ran before it in this worker."""
    for generator, state in generator_states:
        generator.state = state


@pytest.fixture(scope="session", autouse=True)
def _modules_of_guarded_runs(request: pytest.FixtureRequest) -> None:
    """Imports all of effx before the first guarded test.

    The hook parses a module when it is first imported. Later that may be inside of a finalizer which the parser itself
    set off, and then Python 3.11 raises a SystemError.
    """
    if not request.config.option.guard:
        return
    import effx

    for module in pkgutil.walk_packages(effx.__path__, "effx."):
        # effx.compat.jax installs a hook by which `import jax` gives effx, which tests compare with jax itself; the other
        # module refuses to be imported.
        not_now = ("effx.compat.jax", "effx.experimental.host_callback")
        if not module.name.startswith("effx.laws") and module.name not in not_now:
            importlib.import_module(module.name)
    gc.freeze()
