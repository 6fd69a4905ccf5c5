"""The repository keeps its shape: file sizes, names, docstrings and who may import what.

Never: imports the modules it looks at, but for one run in a fresh interpreter.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tools.measure_house import House

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "effx"
HOUSE = House(ROOT)
FILES = sorted(PACKAGE.rglob("*.py"))

BANNED_WORDS = frozenset({"aval", "avals", "utils", "misc", "common", "helpers"})
# Names that are not ours to choose: jaxlib's C++ reads the first, the rest is public API elsewhere.
GIVEN = frozenset(
    {
        "aval",
        "aval_shape",
        "check_compatible_aval",
        "eliminate_common_subexpressions",
        "common_type",
        "do_p",
        "in_avals",
        "inner_aval",
        "out_avals",
        "to_tangent_aval",
    }
)

modules = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def words(name: str) -> list[str]:
    """Parts of a snake_case or CamelCase name.

    >>> words("out_avalsOfFoo")
    ['out', 'avals', 'of', 'foo']
    """
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", name)]


def defined_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Names that a module gives to things: functions, classes, parameters, variables, attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.arg():
                yield node.arg, node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr, node.lineno
            case ast.alias(asname=str(name)):
                yield name, node.lineno
            case _:
                pass


def imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Absolute modules that a module imports anywhere, in functions and under TYPE_CHECKING too."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield alias.name, node.lineno
            case ast.ImportFrom(module=str(module), level=0):
                yield module, node.lineno
            case _:
                pass


@modules
def test_docstring_states_the_responsibility(path: Path) -> None:
    """Each module begins with a docstring; a line that begins "Never: " says something."""
    docstring = ast.get_docstring(parse(path))
    assert docstring, "no module docstring"
    assert not re.search(r"^Never:\s*$", docstring, re.MULTILINE)


@modules
def test_no_banned_names(path: Path) -> None:
    """Nothing is called `*_p`, nor by a word that says nothing, nor is a file; in `effx.compat` names are JAX's."""
    if "compat" in path.relative_to(PACKAGE).parts:
        return
    bad = [
        f"line {line}: {name}"
        for name, line in defined_names(parse(path))
        if name not in GIVEN and (name.endswith("_p") or BANNED_WORDS.intersection(words(name)))
    ]
    bad += [part for part in path.relative_to(ROOT).with_suffix("").parts if part in BANNED_WORDS]
    assert not bad


@modules
def test_jax_is_not_imported(path: Path) -> None:
    """No module imports jax, and only effx.lower and effx.tree import jaxlib."""
    roots = {name.partition(".")[0] for name, _ in imported(parse(path))}
    assert "jax" not in roots
    inside = path.relative_to(PACKAGE).parts
    if inside[0] not in ("lower", "tree", "tree.py"):
        assert "jaxlib" not in roots


# What is not core may take what NumPy's or JAX's function takes; in the core these have a public signature.
ROOMS = frozenset(
    {"ir", "handlers", "lower", "tracing", "program_cache", "transforms", "array", "effects.py"}
)
PUBLIC_SIGNATURES = frozenset({"sum", "prod", "take", "custom_call", "xla_computation", "vmap"})


@modules
def test_few_positional_parameters(path: Path) -> None:
    """No function of the core takes more than six parameters by position: a call says what each further one is."""
    if path.relative_to(PACKAGE).parts[0] not in ROOMS:
        return
    long = []
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef) and node.name not in PUBLIC_SIGNATURES:
            names = [a.arg for a in (*node.args.posonlyargs, *node.args.args) if a.arg not in ("self", "cls")]
            long += [f"line {node.lineno}: {node.name}"] if len(names) > 6 else []
    assert not long


# Modules that import by a name which is no literal import, each for a reason; what stands above is reached by effx.ports.
IMPORT_BY_STRING = {
    "effx.lazy": "a namespace loads the module that its stub names when a name of it is asked for",
    "effx.handlers": "rules are many modules: a program that never differentiates loads none of those for it",
    "effx.ir.catalogue": "it lists all operations, so it loads every module that may hold one",
    "effx.compat.finder": "it answers imports of modules of jax, whose names are the user's",
    "effx.compat.primitives": "a primitive's operation is loaded when it is asked for; there are a hundred",
    "effx.compat.config": "absl, which few have",
    "effx.distributed.clusters": "mpi4py, which few have",
    "effx.experimental.array_serialization.stores": "tensorstore, an extra",
    "effx.export.writing": "flatbuffers, an extra",
    "effx.laws.portable.peers": "jax and torch, which have the same laws to keep, if they are installed",
    "effx.lower.placement.plugin_kernels": "the package of a GPU plugin has the plugin's version in its name",
    "effx.lower.text.hlo": "programs of JAX ask for jaxlib's modules of MLIR by name",
}


def test_imports_by_string_have_reasons() -> None:
    """What import-linter cannot see is listed here, and nothing else."""
    assert set(HOUSE.string_imports()) == set(IMPORT_BY_STRING)


def test_no_circle_hides() -> None:
    """Imports by string, those for type checkers and those in functions taken together, no module reaches
    itself by way of others.
    """
    assert HOUSE.largest_circle() == set()


def test_only_the_package_imports_the_wiring() -> None:
    """`effx.wiring` may import any layer, so nothing in a layer may import it."""
    assert [name for name, modules in HOUSE.imports.items() if "effx.wiring" in modules] == ["effx"]


def test_jax_is_not_loaded_at_run_time() -> None:
    """Importing effx and its function namespaces does not load jax, by whatever way."""
    code = (
        "import sys, effx, effx.tree; print(sorted(m for m in sys.modules if m.partition('.')[0] == 'jax'))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


WORK = """
import sys
import numpy
import effx
import effx.numpy as enp

x = enp.asarray([1.0, 2.0, 3.0])
y = effx.jit(effx.grad(lambda x: (x * x).sum()))(x)
assert numpy.asarray(y).tolist() == [2.0, 4.0, 6.0]
assert numpy.asarray(enp.ones(3, enp.bfloat16)).astype("f4").tolist() == [1.0, 1.0, 1.0]
assert float(effx.vmap(enp.sin)(x)[0]) > 0.8
assert y.tolist() == [2.0, 4.0, 6.0]
print(sorted(m for m in sys.modules if m.partition(".")[0] == "jax"))
"""


def test_jax_is_not_loaded_by_work() -> None:
    """Computing does not load jax either: some of jaxlib's functions import it where it is installed."""
    done = subprocess.run([sys.executable, "-c", WORK], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_pages_name_files_that_are_there() -> None:
    """Each path that ARCHITECTURE.md, CONTRIBUTING.md and the README name exists: in the repository, or in effx."""
    for page in ("ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        paths = set(re.findall(r"`([\w/]+(?:/|\.py|\.md|\.toml))`", text))
        missing = {path for path in paths if not any((base / path).exists() for base in (ROOT, PACKAGE))}
        assert not missing, page


def public_modules(module: ModuleType) -> Iterator[ModuleType]:
    """The modules that `dir` shows in a public one, and so on; the rules of effx.handlers are not for users."""
    for name in dir(module):
        value = getattr(module, name, None)
        if isinstance(value, ModuleType) and value.__name__ == f"{module.__name__}.{name}" != "effx.handlers":
            yield value
            yield from public_modules(value)


@pytest.mark.unguarded  # the hook adds names of its own to modules
def test_public_modules_show_their_own_names() -> None:
    """`dir`, and with it completion, shows what a module offers, and nothing of what it imports."""
    import effx.library

    # What `dir` finds must not depend on the tests that ran before.
    for module in pkgutil.walk_packages(effx.library.__path__, "effx.library."):
        importlib.import_module(module.name)
    modules = {
        *public_modules(effx),
        effx.image,
        effx.ops,
        effx.profiler,
        effx.numpy.fft,
        *public_modules(effx.library),
    }
    modules = {
        m for m in modules if hasattr(m, "__all__") and m.__name__ != "effx.handlers"
    }  # whose rules are no names
    assert len(modules) > 60
    extra = {m.__name__: {n for n in dir(m) if n[0] != "_"} - set(m.__all__) for m in modules}
    loaded = {name: {n for n in names if f"{name}.{n}" in sys.modules} for name, names in extra.items()}
    assert {name: names - loaded[name] for name, names in extra.items() if names - loaded[name]} == {}


def test_package_is_marked_as_typed() -> None:
    """Type checkers read the annotations of an installed effx."""
    assert (PACKAGE / "py.typed").exists()


def test_old_names_of_the_frozen_interfaces_work() -> None:
    """What 0.1 renames in `effx.handling`, `effx.library` and `effx.ir` keeps its old name, which warns."""
    import effx.dtypes
    from effx.ir import array_type
    from effx.library import laplacian, scaling, stepping

    t = array_type(effx.dtypes.float32, (3,))
    olds: list[tuple[object, str, str]] = [
        (laplacian, "Flow", "LaplacianValue"),
        (scaling, "Collective", "CollectiveCost"),
        (stepping, "Log", "StepLog"),
        (t, "cut", "explicit_sharding"),
        (t, "lying", "with_sharding"),
        (t, "varying", "with_vma"),
    ]
    for owner, old, new in olds:
        with pytest.warns(DeprecationWarning, match=rf"\.{old} is now called {new}$"):
            assert getattr(owner, old) == getattr(owner, new)
    for owner, typo in ((scaling, "Collectiv"), (t, "cuts")):
        with pytest.raises(AttributeError, match=f"has no attribute {typo!r}$"):
            getattr(owner, typo)
