"""Compares the public names of the installed jax, and their parameters, with effx's: `docs/tables/coverage.md`.

python -m tools.jax_coverage            writes the page; refuses to where more is left to do than the page says
python -m tools.jax_coverage --check    says whether the page is fresh
python -m tools.jax_coverage --update   writes the page in any case: jax has grown
"""

from __future__ import annotations

import ast
import fnmatch
import importlib
import inspect
import pkgutil
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace

import attrs
import numpy as np

PAGE = Path(__file__).resolve().parent.parent / "docs" / "tables" / "coverage.md"
TO_DO = "to do"
PRIMITIVE = "a primitive; effx has operations (`effx.ir`)"
INTERNAL = "internal to JAX"
RAISED = "errors are raised by the library, with its own words"
TOKENS = "experimental there; in effx effects have the order of the program, and no value stands for it"
SUMS_ONLY = "what is unreduced is a sum: maxima and minima over devices are taken where they arise"
ASYNCHRONOUS = "XLA starts and ends collectives by itself"
UNORDERED = "ignored there: the elements of a sparse array stand in no order along its axes"
SETTING = "a setting's value, which has the same name for all here; a switch without one is on"
NAMED = "the parameters have names here"
LIVE = "experimental there; here a process that fails ends the others"
EXPERIMENTAL = "experimental there, and not planned here"
DECORATOR = "without a function it is a decorator"
ACCUMULATORS = "for the accumulators of its `experimental.hijax`"
REMAT_RULES = "needs settings that are off there"
MADE = "users do not make one, `export` does"
ONE_DEVICE = "what is exported runs on one device, so that it has no shardings"

# Why something is not there: names, parameters as `name(parameter)`, or patterns of either. A module's reason holds
# for all in it. A reason that fits nothing, or something that is there, is an error.
REASONS: dict[str, str] = {
    "*(_*)": "private there",
    "jax.*_p": PRIMITIVE,
    "jax.ShapeDtypeStruct.": "references are no part of a shape and a dtype here",
    "jax.ShapeDtypeStruct(is_ref)": "undocumented there; here a reference itself says what a function takes",
    "jax.ad_checkpoint.checkpoint_name_fwd": "undocumented there",
    "jax.api_util": INTERNAL,
    "jax.auto_pcast": "a switch for what is always so here: types in `shard_map` vary where an operand does",
    "jax.checkpoint(fun)": DECORATOR,
    "jax.custom_gradient(remat)": REMAT_RULES,
    "jax.custom_gradient(with_accums)": ACCUMULATORS,
    "jax.custom_vjp.": f"`defremat`: {REMAT_RULES}; accumulators: {ACCUMULATORS}",
    "jax.device_put(src)": "an array says itself where it is",
    "jax.fwd_and_bwd(argnums)": "0 where it is left out, as for `grad`",
    "jax.jax2tf_associative_scan_reductions": "for `jax2tf`, which is experimental there, and not planned here",
    "jax.linear_transpose(reduce_axes)": "refused there",
    "jax.remat(fun)": DECORATOR,
    "jax.remove_size_one_mesh_axis_from_type": "undocumented there but for one line; an axis of one device is an axis here",
    "jax.softmax_custom_jvp": "for a change there; here softmax has this derivative always",
    "jax.collect_profile": "a script",
    "jax.core": INTERNAL,
    "jax.extend": "for libraries that change JAX itself; in effx `effx.handling` and `effx.ir`",
    "jax.ffi.abstract_token": "effects are not values in effx: a call with `has_side_effect` takes and gives no token",
    "jax.ffi.*ffi_lowering*(*lowering_args)": "the parameters of the call have names here",
    "jax.ffi.register_ffi_target(*kwargs)": "the parameters of XLA's function have names here",
    "jax.interpreters": "for libraries that change JAX itself; in effx `effx.handling` and `effx.ir`",
    "jax.debug.visualize_array_sharding(*kwargs)": "the parameters of visualize_sharding have names here",
    "jax.lax.after_all": TOKENS,
    "jax.lax.create_token": TOKENS,
    "jax.lib": INTERNAL,
    "jax.Ref(aval)": "there as here, `new_ref` makes one",
    "jax.Ref(refs)": "there as here, `new_ref` makes one",
    "jax.ref.AbstractRef.": "for the compilers of kernels there; in effx a reference's type is what it holds",
    "jax.tools": "scripts",
    "jax.version": INTERNAL,
    "jax.[!t]*(new_val)": SETTING,
    "jax.thread_guard(new_val)": SETTING,
    "jax.threefry_partitionable(new_val)": SETTING,
    "jax.transfer_guard_*(new_val)": SETTING,
    "jax.errors.*(context)": RAISED,
    "jax.errors.*(msg)": RAISED,
    "jax.errors.*(tracer)": RAISED,
    "jax.numpy.fromfile(*kwargs)": "the parameters of NumPy's function have names here",
    "jax.numpy.fromiter(*kwargs)": "the parameters of NumPy's function have names here",
    "jax.numpy.set_printoptions(*kwargs)": "the parameters of NumPy's function have names here",
    "jax.numpy.lexsort(batch_size)": "all keys are sorted at once, so that there are no batches of them",
    "jax.numpy.vectorize(pyfunc)": "without a function it is a decorator, as NumPy's",
    "jax.P(unreduced_kind)": SUMS_ONLY,
    "jax.P.": SUMS_ONLY,
    "jax.ds(size)": "left out it is None here",
    "jax.sharding.ManualAxisType.": SUMS_ONLY,
    "jax.sharding.ManualAxisType.update(*kwargs)": SUMS_ONLY,
    "jax.sharding.ManualAxisType(unreduced_kind)": SUMS_ONLY,
    "jax.jit(*_shardings)": "None says nothing, there as here",
    "jax.jit(fun)": f"it may be named here; {DECORATOR}, there as here",
    "jax.NamedSharding.update(*kwargs)": NAMED,
    "jax.P.update(*kwargs)": NAMED,
    "jax.sharding.AbstractMesh.update(*kwargs)": NAMED,
    "jax.lax.dce_sink(prevent_mlir_dce)": "undocumented there; XLA drops what no result needs",
    "jax.sharding.UnreducedKind": SUMS_ONLY,
    "jax.sharding.no_collectives": "XLA chooses collectives; `jit(f).lower(x).compile().as_text()` shows them",
    "jax.sharding.AbstractMesh.": "what is missing is refused there, or copies and pickles, which needs no method here",
    "jax.sharding.Mesh.": "devices do not pickle, there as here",
    **{
        f"jax.stages.{name}": "users do not make stages, `jit` does"
        for name in (
            "ArgInfo(d*)",
            *[
                f"Compiled({p})"
                for p in (
                    "executable",
                    "const_args",
                    "args_info",
                    "out_tree",
                    "no_kwargs",
                    "*_types",
                    "signature",
                )
            ],
            *[f"Lowered({p})" for p in ("lowering", "args_info", "out_tree", "no_kwargs", "*_types")],
            *[f"Traced({p})" for p in ("meta_tys_flat", "params", "*_tree", "consts", "fun_sourceinfo")],
        )
    },
    "jax.stages.Lowered.compile(device_assignment)": "a function runs where its arguments and shardings say",
    "jax.stages.Compiled.": "a compiled function is called itself",
    "jax.stages.Traced.": INTERNAL,
    "jax.use_abstract_mesh.": "a class there; here what it gives is the context manager",
    "jax.tree_util.Partial(func)": "keywords are the function's: one may be called `func`",
    "jax.set_mesh.": "a class there; here what it gives is the context manager",
    "jax.lax.psum_scatter_start": ASYNCHRONOUS,
    "jax.scipy.stats.gaussian_kde.": "what is missing is refused there, or registers the class as a pytree",
    "jax.experimental.EArray": "the class of its arrays of keys; here these are arrays like others",
    "jax.experimental.primal_tangent_dtype": "undocumented there, for dtypes of one's own, which effx does not have",
    "jax.export.Exported.mlir_module(serialized)": "for the objects of MLIR's bindings; here the module is text",
    "jax.export.Exported(in_shardings_hlo)": ONE_DEVICE,
    "jax.export.Exported(out_shardings_hlo)": ONE_DEVICE,
    **{
        f"jax.export.Exported({p})": MADE
        for p in (
            "nr_devices",
            "platforms",
            "*ordered_effects",
            "disabled_safety_checks",
            "mlir_module_serialized",
            "calling_convention_version",
            "module_kept_var_idx",
            "uses_global_constants",
        )
    },
    "jax.test_util.check_?*p(eps)": "left out it is what the dtype asks for",
    "jax.experimental.array_serialization.*save(overwrite)": "a checkpoint is replaced only where that is asked for",
    "jax.experimental.array_serialization.pytree_serialization_utils": INTERNAL,
    "jax.experimental.array_serialization.serialization.logger": INTERNAL,
    "jax.experimental.array_serialization.tensorstore_impl": INTERNAL,
    "jax.experimental.checkify.Error.": "what is missing registers the class as a pytree",
    "jax.experimental.checkify.checkify(errors)": "the checks of users, there as here",
    "jax.experimental.jet.[!j]*": INTERNAL,
    "jax.experimental.jet.jet[!(]*": INTERNAL,
    "jax.experimental.jet.jet(*_)": "ignored there",
    "jax.experimental.multihost_utils.*_impl": INTERNAL,
    "jax.experimental.multihost_utils.*_abstract_eval": INTERNAL,
    "jax.experimental.multihost_utils.ltg_batcher": INTERNAL,
    "jax.experimental.multihost_utils.live_devices": LIVE,
    "jax.experimental.multihost_utils.ProcessFailureError": LIVE,
    "jax.experimental.multihost_utils.reached_preemption_sync_point": "XLA's service for it takes SIGTERM for itself",
    "jax.experimental.ode.[!o]*": INTERNAL,
    "jax.experimental.ode.optimal_step_size": INTERNAL,
    "jax.experimental.sparse.bcoo_conv_general_dilated(out_sharding)": UNORDERED,
    "jax.experimental.sparse.[A-Z]*(*kwargs)": "the parameters that mean something for sparse arrays have names here",
    "jax.experimental.sparse.SparseTracer": "a tracer; in effx the handler `Sparsify`, which rules can be added to",
    "jax.experimental.sparse.*(sharding)": UNORDERED,
    "jax.experimental.sparse.test_util": INTERNAL,
    **{
        f"jax.experimental.sparse.{module}": "its names are those of `jax.experimental.sparse`"
        for module in ("ad", "api", "bcoo", "bcsr", "coo", "csr", "random", "transform", "util")
    },
}
# Experimental modules that effx has or will have; the others get EXPERIMENTAL.
EXPERIMENTS = frozenset(
    {
        "array_serialization",
        "checkify",
        "jet",
        "multihost_utils",
        "ode",
        "pjit",
        "serialize_executable",
        "shard_map",
        "sparse",
        "topologies",
    }
)


@attrs.frozen
class Item:
    """One thing that jax offers.

    Attributes:
        name: in full, as jax.numpy.sum, or jax.numpy.sum(axis) for a parameter.
        gap: what differs here; "" if nothing does.
        reason: why, where jax itself says it is deprecated.
    """

    name: str
    gap: str = ""
    reason: str = ""


@attrs.frozen
class Namespace:
    """What a module of jax offers; `reason` if effx has no such module and will have none."""

    name: str
    items: Sequence[Item] = ()
    reason: str = ""


# --- what jax offers ------------------------------------------------------------------------------


def modules(name: str = "jax") -> Iterator[tuple[str, str]]:
    """Lists jax's public modules with the reason why effx has none of the name, "" where it should; a module
    with a reason is neither imported nor looked into.
    """
    parent, _, last = name.rpartition(".")
    if parent == "jax.experimental" and last not in EXPERIMENTS:
        yield name, EXPERIMENTAL
        return
    reason = REASONS.get(name, "")
    yield name, reason
    if not reason:
        for found in pkgutil.iter_modules(getattr(importlib.import_module(name), "__path__", ())):
            if not found.name.startswith("_"):
                yield from modules(f"{name}.{found.name}")


def public_names(module: ModuleType) -> set[str]:
    """Returns a module's public names but for modules.

    A module that only collects names means all that it has. One that defines functions means these, and what it imports
    under the same name (`from x import f as f`).
    """
    listed: list[str] | None = getattr(module, "__all__", None)
    body = ast.parse(inspect.getsource(module)).body
    if listed is not None:
        found = set(listed)
    elif any([isinstance(node, ast.FunctionDef | ast.ClassDef) for node in body]):
        found = {name for node in body for name in _bound(node)}
    else:
        found = set(dir(module))
    return {
        n for n in found if not n.startswith("_") and not isinstance(getattr(module, n, None), ModuleType)
    } | set(deprecated(module))


def _bound(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.ImportFrom(names=aliases):
            yield from [alias.name for alias in aliases if alias.asname == alias.name]
        case _:
            pass


def deprecated(module: ModuleType) -> dict[str, str]:
    """Returns the names that a module warns of or refuses when they are looked up, with the reason."""
    table: dict[str, tuple[str, object]] = getattr(module, "_deprecations", {})
    return {
        name: "removed there" if value is None else "deprecated there" for name, (_, value) in table.items()
    }


def members(thing: object) -> set[str]:
    """Returns the public names that an object offers beside being called: methods and attributes of a class or a ufunc,
    with the operators that a class defines, and the names of a namespace object.
    """
    if isinstance(thing, SimpleNamespace):
        return set(vars(thing))
    if (
        isinstance(thing, type)
        and type(thing).__name__ != "_ScalarMeta"
        and not issubclass(thing, np.generic)
    ):
        above = [b for b in thing.__mro__ if b.__module__ in ("builtins", "typing", "abc", "enum")]
        known = {name for b in above for name in vars(b)}
        found = {name for b in thing.__mro__ if b not in above for name in vars(b)} - known
        return {name for name in found if not name.startswith("_") or _is_operator(thing, name)}
    if type(thing).__name__ == "ufunc":
        return {name for name in dir(thing) if not name.startswith("_")}
    return set()


# What classes have for Python's or their own sake.
_SILENT = re.compile(
    r"__(getattr|setstate|getstate|post_init|init_subclass|class_getitem|replace|del|attrs_\w+|dataclass_\w+|"
    r"signature|jax_\w+|nb_\w+|abstractmethods|weakref|subclasshook|instancecheck|subclasscheck|set_name)__$"
)


def _is_operator(thing: type, name: str) -> bool:
    return name.startswith("__") and not _SILENT.match(name) and callable(getattr(thing, name, None))


# --- the comparison -------------------------------------------------------------------------------

ABSENT = object()


def look_up(name: str, attribute: str) -> object:
    """Returns what a module of effx has under a name; ABSENT if it, or the module, is not there."""
    try:
        return getattr(importlib.import_module(name), attribute, ABSENT)
    except ImportError:
        return ABSENT


def compare(name: str, theirs: object, ours: object) -> Iterator[Item]:
    """Yields an item for a name, and one for each of its parameters, if it is there, and of its methods' parameters."""
    yield Item(name, "missing" if ours is ABSENT else "")
    if ours is ABSENT:
        return
    offered = members(theirs)
    absent = sorted([member for member in offered if not hasattr(ours, member)])
    if absent:
        yield Item(f"{name}.", f"has no {', '.join(absent)}")
    if isinstance(theirs, type):
        for member in sorted(offered.difference(absent)):
            if not member.startswith("__"):  # nobody names an operator's parameters
                yield from parameters(f"{name}.{member}", getattr(theirs, member), getattr(ours, member))
    yield from parameters(name, theirs, ours)


def signature(thing: object) -> list[inspect.Parameter]:
    """Returns the parameters of a callable; [] for what has none that Python knows."""
    if not callable(thing):
        return []
    try:
        return list(inspect.signature(thing).parameters.values())
    except (TypeError, ValueError):
        return []


KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional only",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional or keyword",
    inspect.Parameter.KEYWORD_ONLY: "keyword only",
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


def parameters(name: str, theirs: object, ours: object) -> Iterator[Item]:
    """Yields an item for each parameter of jax's function, and one for each that ours alone requires.

    >>> def theirs(x, /, shape, axis=0, dtype=None): ...
    >>> def ours(a, /, size, *, axis=1): ...
    >>> for item in parameters("jax.f", theirs, ours):
    ...     print(item.name, item.gap or "is the same")
    jax.f(x) is the same
    jax.f(shape) called size
    jax.f(axis) keyword only, there positional or keyword; default 1, there default 0
    jax.f(dtype) refused
    """
    expected, present = signature(theirs), signature(ours)
    if not (expected and present):
        return
    variadic = {p.kind for p in present if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    here = {p.name: p for p in present}
    unknown = set(here).difference([p.name for p in expected])
    for i, p in enumerate(expected):
        q, other = here.get(p.name), present[i] if i < len(present) else None
        if other is not None and other.kind is p.kind is p.POSITIONAL_ONLY:
            q = other  # nobody can use the name
            unknown.discard(q.name)
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            rest = [r.name for r in present[i:] if r.kind < r.VAR_POSITIONAL and p.kind is p.VAR_POSITIONAL]
            named = unknown.intersection(rest)  # *args there, x and y here
            unknown -= named
            yield Item(f"{name}({KINDS[p.kind]}{p.name})", "" if p.kind in variadic or named else "refused")
        elif q is not None:
            yield Item(f"{name}({p.name})", "; ".join(_differences(i, p, present.index(q), q)))
        elif other is not None and other.kind is p.POSITIONAL_OR_KEYWORD and other.name in unknown:
            unknown.discard(other.name)
            yield Item(f"{name}({p.name})", f"called {other.name}")
        else:
            taken = p.VAR_POSITIONAL if p.kind is p.POSITIONAL_ONLY else p.VAR_KEYWORD
            if taken not in variadic or not p.name.startswith("_"):  # a private one is no name among others
                yield Item(f"{name}({p.name})", "" if taken in variadic else "refused")
    for q in [here[n] for n in here if n in unknown]:
        if q.default is q.empty and q.kind not in variadic:
            yield Item(f"{name}({q.name})", "required, there unknown")


def _differences(i: int, p: inspect.Parameter, j: int, q: inspect.Parameter) -> Iterator[str]:
    if p.kind is not q.kind:
        yield f"{KINDS[q.kind]}, there {KINDS[p.kind]}"
    elif i != j and p.kind is not p.KEYWORD_ONLY:
        yield f"at index {j}, there at {i}"
    there, here = shown(p.default), shown(q.default)
    if there != here:
        yield f"{here}, there {there}"


def shown(default: object) -> str:
    """Returns a default in words that do not depend on the library: classes and enumerations by their names, NumPy's
    scalars by their values, an object that stands for "not given" as `unset`.
    """
    if default is inspect.Parameter.empty:
        return "required"
    if isinstance(default, type):
        return f"default {default.__name__}"
    if type(default).__module__ == "numpy":
        default = getattr(default, "item", lambda: default)()
    if type(default).__module__ == "builtins" and type(default) is not object:
        return f"default {getattr(default, '__name__', repr(default))}"
    return f"default {getattr(default, 'name', 'unset')}"


def collect() -> list[Namespace]:
    """Compares all of jax with effx."""
    found: list[Namespace] = []
    known: set[tuple[int, int]] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for name, reason in modules():
            if reason:
                found.append(Namespace(name, reason=reason))
                continue
            module, here = importlib.import_module(name), "effx" + name.removeprefix("jax")
            gone = deprecated(module)
            items: list[Item] = []
            for attribute in sorted(public_names(module)):
                theirs, ours = getattr(module, attribute, None), look_up(here, attribute)
                compared = list(compare(f"{name}.{attribute}", theirs, ours))
                if attribute in gone:
                    compared = [attrs.evolve(compared[0], reason=gone[attribute])]
                elif (id(theirs), id(ours)) in known:  # the same pair by another name
                    del compared[1:]
                known.add((id(theirs), id(ours)))
                items += compared
            if items:
                found.append(Namespace(name, items))
    return found


def explained(namespaces: Sequence[Namespace], reasons: dict[str, str]) -> list[Namespace]:
    """Returns the namespaces with a reason for each gap, if only "to do".

    Raises:
        ValueError: a reason fits nothing, or something that is there.

    >>> explained([Namespace("jax", [Item("jax.f", "missing"), Item("jax.g")])], {"jax.?": "no"})
    Traceback (most recent call last):
    ...
    ValueError: the reason for 'jax.?' fits jax.g, which is there
    """
    patterns = {p: re.compile(fnmatch.translate(p)) for p in reasons}
    unused = set(patterns).difference([n.name for n in namespaces if n.reason])
    result: list[Namespace] = []
    for namespace in namespaces:
        items: list[Item] = []
        for item in namespace.items:
            fitting = [p for p, pattern in patterns.items() if pattern.match(item.name)]
            if fitting and not item.gap:
                raise ValueError(f"the reason for {fitting[0]!r} fits {item.name}, which is there")
            unused.difference_update(fitting)
            why = item.reason or (reasons[fitting[0]] if fitting else TO_DO)
            items.append(attrs.evolve(item, reason=why) if item.gap else item)
        result.append(attrs.evolve(namespace, items=items))
    if unused:
        raise ValueError(f"reasons that fit nothing which is missing: {', '.join(sorted(unused))}")
    return result


# --- the page -------------------------------------------------------------------------------------

HEAD = """# Coverage

Every public name and parameter of jax {version} that effx lacks or has otherwise. This page is written by
`python -m tools.jax_coverage` from the two packages, and a test fails when it is stale. A parameter is written
`name(parameter)`; what a class or a ufunc lacks, `name.`.

To do: {names} names, {parameters} parameters and members.

"""


def is_name(item: Item) -> bool:
    """Says whether an item is a name, and no parameter or member."""
    return not item.name.endswith((")", "."))


def left(namespaces: Iterable[Namespace]) -> tuple[int, int]:
    """Counts what is to do: names, and then parameters and members."""
    open_ = [is_name(item) for n in namespaces for item in n.items if item.reason == TO_DO]
    return sum(open_), len(open_) - sum(open_)


def render(namespaces: Sequence[Namespace], version: str) -> str:
    """Returns the page."""
    names, others = left(namespaces)
    table = [_row("namespace", "names", "there", "with a reason", TO_DO, "parameters to do"), _rule(6)]
    apart: dict[str, list[str]] = {}
    sections: list[str] = []
    for n in namespaces:
        if n.reason:
            apart.setdefault(n.reason, []).append(f"`{n.name}`")
            continue
        listed = [item for item in n.items if is_name(item)]
        absent = sum([bool(item.gap) for item in listed])
        to_do, open_ = left([n])
        counts = (len(listed), len(listed) - absent, absent - to_do, to_do, open_)
        table.append(_row(f"`{n.name}`", *map(str, counts)))
        gaps = [item for item in n.items if item.gap]
        if gaps:
            rows = [_row(f"`{i.name.removeprefix(n.name)[1:]}`", i.gap, i.reason) for i in gaps]
            sections.append("\n".join([f"## {n.name}\n", _row("name", "here", "why"), _rule(3), *rows]))
    head = HEAD.format(version=version, names=names, parameters=others)
    rows = [_row("not compared", "why"), _rule(2), *[_row(", ".join(m), why) for why, m in apart.items()]]
    return "\n\n".join([head + "\n".join(table), "\n".join(rows), *sections]) + "\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join([c.replace('|', chr(92) + '|') for c in cells])} |"


def _rule(columns: int) -> str:
    return f"|{'---|' * columns}"


_FIRST = re.compile(r"of jax (\S+) that.*?To do: (\d+) names, (\d+) parameters", re.DOTALL)


def baseline(page: str) -> tuple[str, int, int]:
    """Returns the version of jax that a page is about, and what it says is to do.

    Raises:
        ValueError: it does not say.

    >>> baseline(render([Namespace("jax", [Item("jax.f", "missing", TO_DO)])], "1.0"))
    ('1.0', 1, 0)
    """
    match = _FIRST.search(page)
    if match is None:
        raise ValueError(f"{PAGE.name}: does not say of which jax it is, and what is to do")
    return match[1], int(match[2]), int(match[3])


def grown(page: str, namespaces: Sequence[Namespace]) -> str:
    """Says by how much there is more to do than the page says; "" if there is not. A new name may bring parameters."""
    _, *allowed = baseline(page)
    now, limit = sum(left(namespaces)), sum(allowed)
    return f"{now} names and parameters are to do, {PAGE.name} allows {limit}" if now > limit else ""


def main(arguments: list[str]) -> int:
    """Writes the page or checks it."""
    version: str = importlib.import_module("jax").__version__
    namespaces = explained(collect(), REASONS)
    text = render(namespaces, version)
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else None
    if page is not None and "--update" not in arguments:
        of = baseline(page)[0]
        if of != version:
            print(f"{PAGE.name} is of jax {of}, installed is {version}", file=sys.stderr)
            return 2
        more = grown(page, namespaces)
        if more:
            print(more, file=sys.stderr)
            return 1
    if "--check" in arguments:
        if page != text:
            print(f"{PAGE.name} is stale: python -m tools.jax_coverage writes it", file=sys.stderr)
        return int(page != text)
    PAGE.write_text(text, encoding="utf-8")
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
