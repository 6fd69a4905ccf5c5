"""The public namespaces and how the API reference groups their names: as people look for them, not as files lie."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType

import attrs

from effx.lazy import find_homes

# Titles of the navigation, each with its namespaces. A module that is in none is an implementation's, or a program to run.
SECTIONS: dict[str, tuple[str, ...]] = {
    "Handlers": ("effx.handling", "effx.handling.ops", "effx.laws", "effx.laws.portable", "effx.ir"),
    "Transformations": (
        "effx",
        "effx.custom_derivatives",
        "effx.custom_batching",
        "effx.checkpoint_policies",
        "effx.ad_checkpoint",
        "effx.ad",
        "effx.ref",
        "effx.callbacks",
        "effx.stages",
    ),
    "Arrays": (
        "effx.numpy",
        "effx.numpy.fft",
        "effx.numpy.linalg",
        "effx.lax",
        "effx.lax.linalg",
        "effx.nn",
        "effx.nn.initializers",
        "effx.random",
        "effx.image",
        "effx.ops",
        "effx.dtypes",
        "effx.dlpack",
        "effx.typing",
    ),
    "SciPy": (
        "effx.scipy.cluster.vq",
        "effx.scipy.fft",
        "effx.scipy.integrate",
        "effx.scipy.interpolate",
        "effx.scipy.linalg",
        "effx.scipy.ndimage",
        "effx.scipy.optimize",
        "effx.scipy.signal",
        "effx.scipy.sparse.linalg",
        "effx.scipy.spatial.transform",
        "effx.scipy.special",
        "effx.scipy.stats",
    ),
    "Trees": ("effx.tree", "effx.tree_util", "effx.flatten_util"),
    "Library of handlers": (
        "effx.library.autocast",
        "effx.library.checkify",
        "effx.library.cost",
        "effx.library.intervals",
        "effx.library.jets",
        "effx.library.laplacian",
        "effx.library.lora",
        "effx.library.nan_guard",
        "effx.library.padding",
        "effx.library.parameters",
        "effx.library.probability",
        "effx.library.progress",
        "effx.library.quantize",
        "effx.library.remat",
        "effx.library.scaling",
        "effx.library.sowing",
        "effx.library.sparsity",
        "effx.library.stepping",
        "effx.library.units",
    ),
    "Devices and files": (
        "effx.sharding",
        "effx.distributed",
        "effx.memory",
        "effx.export",
        "effx.ffi",
    ),
    "Looking inside": (
        "effx.debug",
        "effx.errors",
        "effx.flags",
        "effx.monitoring",
        "effx.profiler",
        "effx.viewing",
        "effx.test_util",
    ),
    "With JAX's names": (
        "effx.compat",
        "effx.example_libraries.optimizers",
        "effx.example_libraries.stax",
        "effx.experimental.array_serialization.serialization",
        "effx.experimental.array_serialization.pytree_serialization",
        "effx.experimental.checkify",
        "effx.experimental.jet",
        "effx.experimental.layout",
        "effx.experimental.multihost_utils",
        "effx.experimental.ode",
        "effx.experimental.rnn",
        "effx.experimental.serialize_executable",
        "effx.experimental.sparse",
        "effx.experimental.topologies",
    ),
}

# Of namespaces whose names come from many places, or that have no `__all__`: titles, each with its names.
GROUPS: dict[str, dict[str, str]] = {
    "effx.handling": {
        "Handlers": "BoxHandler InterceptHandler Handler Default Site Frame handle isolated mask",
        "Operations and effects": (
            "Operation ArrayOperation TupleOperation Elementwise Unary Binary Linear Monotone PiecewiseConstant Structural "
            "Effect Label perform forward ArrayType array_type"
        ),
        "Rules of operations": (
            "jvp_rule jvp_tuple_rule Tangent tangent_of transpose_rule transpose_tuple_rule Cotangent LinearOperand "
            "vmap_rule vmap_tuple_rule Vmap materialize masked_form reference_rule reference_tuple_rule Reference "
            "decomposes emits Body register_ffi_target lapack_target"
        ),
        "Named functions": "named_function",
        "Programs and analyses": (
            "Program Equation Atom Var Literal Forward Backward Place places decompose coverage Coverage operation_classes"
        ),
        "Mutable references": "RefOperation RefNew RefGet RefSet RefSwap RefAddUpdate",
    },
    "effx.dtypes": {
        "": "bfloat16 canonicalize_dtype extended finfo float0 iinfo issubdtype prng_key result_type scalar_type_of"
    },
}

# Of the package itself: titles, each with the beginnings of the modules that its names come from.
HOMES: dict[str, tuple[str, ...]] = {
    "Derivatives": ("effx.transforms.autodiff",),
    "Maps": ("effx.transforms.maps", "effx.library.padding"),
    "Compilation": ("effx.transforms.jit", "effx.lower.compile_options"),
    "Rules of your own": ("effx.transforms.custom",),
    "Arrays and types": ("effx.ir.values", "effx.dtypes", "effx.array"),
    "Devices, meshes, placement": ("effx.transforms.placement", "effx.lower.placement", "effx.ir.meshes"),
    "Names and callbacks": ("effx.tracing.name_scopes", "effx.callbacks"),
    "Mutable references": ("effx.transforms.refs",),
    "Settings": ("effx.flags", "effx.caching"),
}


# Titles of groups where the name of the file says too little.
TITLES: dict[str, str] = {
    "applying": "Functions along axes",
    "binary": "Elementwise, of two arrays",
    "choose": "Choices",
    "compare": "Comparisons",
    "conv_shapes": "Shapes of convolutions",
    "convert": "Conversions",
    "einsums": "Sums of products",
    "elementwise": "Elementwise, of one array",
    "exchange": "Collectives that exchange",
    "files": "Files and buffers",
    "foreign": "NumPy's own objects",
    "index": "Gather and scatter",
    "linear": "Products",
    "log_sums": "Logarithms of sums",
    "monoids": "Reductions by a function",
    "nanreductions": "Reductions that skip NaN",
    "numbertheory": "Integers",
    "parts": "Complex numbers",
    "placing": "Replacing elements",
    "registry": "Registering types",
    "renamed": "Other names",
    "scalars": "Constants and dtypes",
    "sinks": "Values that are kept",
    "solves": "Implicit functions",
    "systems": "Linear systems",
}


@attrs.frozen
class Group:
    """Names that belong together.

    Attributes:
        title: the heading; "" if the namespace has one group only.
        names: in the order in which they are shown.
        summary: a sentence about them.
    """

    title: str
    names: tuple[str, ...]
    summary: str = ""


@attrs.frozen
class Namespace:
    """A public module.

    Attributes:
        module: the module.
        groups: its names.
    """

    module: ModuleType
    groups: tuple[Group, ...]

    @property
    def name(self) -> str:
        """The module's full name."""
        return self.module.__name__

    @property
    def submodules(self) -> tuple[str, ...]:
        """The public modules that only it lists, as `effx.scipy.stats` lists distributions; the package lists all."""
        listed = {name for names in SECTIONS.values() for name in names}
        modules = [getattr(self.module, n) for n in getattr(self.module, "__all__", ())]
        names = [m.__name__ for m in modules if inspect.ismodule(m)]
        return () if self.name == "effx" else tuple([n for n in names if n not in listed])

    @property
    def count(self) -> int:
        """The number of its names."""
        return sum([len(group.names) for group in self.groups])


def first_sentence(docstring: str) -> str:
    """Returns the first sentence of a docstring; "" if there is none."""
    sentence = " ".join(docstring.partition("\n\n")[0].split()).partition(". ")[0].rstrip(".")
    return f"{sentence}." if sentence else ""


def load_namespace(name: str) -> Namespace:
    """Returns a namespace with its names in groups.

    Raises:
        ValueError: a table of groups lacks a name, or has one that is not there.
    """
    module = importlib.import_module(name)
    public = getattr(module, "__all__", ())
    names = [n for n in public if not n.startswith("_") and not inspect.ismodule(getattr(module, n))]
    if name in GROUPS:
        groups = tuple([Group(title, tuple(text.split())) for title, text in GROUPS[name].items()])
    elif Path(module.__file__ or "").with_suffix(".pyi").is_file():
        groups = _group_by_homes(name, names)
    else:
        groups = (Group("", tuple(names)),)
    shown = [n for group in groups for n in group.names]
    if public and sorted(shown) != sorted(names):
        raise ValueError(
            f"{name}: the groups differ from the public names in {sorted(set(shown) ^ set(names))}"
        )
    return Namespace(module, groups)


def _group_by_homes(namespace: str, names: list[str]) -> tuple[Group, ...]:
    """Groups names by the modules that define them, and sorts the groups by title.

    Raises:
        ValueError: a name of the package comes from a module that `HOMES` does not have.
    """
    homes = find_homes(namespace)
    by_title: dict[str, list[str]] = {}
    summaries: dict[str, str] = {}
    for name in sorted(names):
        home = homes[name][0]
        if namespace == "effx":
            titles = [t for t, starts in HOMES.items() if home.startswith(starts)]
            if not titles:
                raise ValueError(f"effx.{name} comes from {home}, which HOMES does not have")
            title = titles[0]
        elif home.startswith(f"{namespace}."):
            file = home.rpartition(".")[2]
            title = TITLES.get(file, file.replace("_", " ").capitalize())
            summaries[title] = first_sentence(inspect.getdoc(importlib.import_module(home)) or "")
        else:
            title = "Types" if home.startswith("effx.ir.values") else "Other"
        by_title.setdefault(title, []).append(name)
    if len(by_title) == 1:
        return (Group("", tuple(sorted(names))),)
    order = [*HOMES] if namespace == "effx" else sorted(by_title, key=lambda t: (t == "Other", t))
    return tuple([Group(t, tuple(by_title[t]), summaries.get(t, "")) for t in order if t in by_title])
