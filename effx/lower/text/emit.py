"""Emit programs as StableHLO text: modules, functions, names, constants, locations.

The text is written directly, because MLIR's Python builders cost 20 to 58 microseconds an operation
where a line of text costs about one.

Never: emit one particular operation; `effx.lower.text.stablehlo` does, a family a file.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_float
from functools import partial
from typing import TypeVar, final

import attrs
import numpy as np

from effx import dtypes
from effx.effects import Operation, RuleTable, scope_within, transformed_scope
from effx.errors import (
    BackendError,
    EffxError,
    NoRuleError,
    Source,
    explain_rule_error,
    resolve_source,
    set_error_position,
)
from effx.ir.ops.collective import AxisName
from effx.ir.ops.control import Call, HigherOrder
from effx.ir.ops.host import Hosted
from effx.ir.ops.shape import Iota
from effx.ir.passes.key_words import spell_keys_in_words
from effx.ir.program import Atom, Equation, Literal, Program, Scalar, Var
from effx.ir.sizes.dimensions import has_symbolic
from effx.ir.types import INVARIANT, ArrayType, Shape, array_type
from effx.lower.placement.shardy import mesh_line
from effx.lower.text import sizes
from effx.lower.text.fences import NO_FENCES, find_fences
from effx.lower.text.foreign_calls import Attribute, custom_call_text
from effx.lower.text.joined_sums import find_sum_chains
from effx.lower.text.sizes import INDEX
from effx.lower.text.sizes import integer_list as integer_list

O = TypeVar("O", bound=Operation[object])  # noqa: E741 - the literature's name

Rule = Callable[["Body", O, tuple[Atom, ...], tuple[Var, ...]], "str | tuple[str, ...]"]

# What gives an operation's results by other operations: `(op, *operands)` to an array, or to several.
Form = Callable[..., object]
F = TypeVar("F", bound=Form)

rules: RuleTable[Rule[Operation[object]]] = RuleTable("stablehlo")


PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
_rules_by_platform: dict[str, RuleTable[Rule[Operation[object]]]] = {}


def rules_for(platform: str) -> RuleTable[Rule[Operation[object]]]:
    """Returns the emission rules of a platform: its own before those of all."""
    return _rules_by_platform.get(platform, rules)


def emits(*kinds: type[O], platform: str | None = None) -> Callable[[Rule[O]], Rule[O]]:
    """Registers the StableHLO emission rule of operation classes; the rule returns the names of the results.

    Args:
        kinds: the classes.
        platform: "cpu", "cuda", "rocm" or "tpu" for a form that only it has; None for all.

    Raises:
        BackendError: there is no such platform.

    >>> from effx.handling import Unary, emits
    >>> class Twice(Unary):
    ...     __slots__ = ()
    ...     kinds = "f"
    >>> @emits(Twice)
    ... def _(body, op, inputs, outputs):
    ...     x, t = body.name(inputs[0]), inputs[0].type
    ...     return body.line(f"stablehlo.add {x}, {x} : {t.mlir}")
    >>> print(Twice()(3.0))
    6.0
    """
    table = rules
    if platform is not None:
        if platform not in PLATFORMS:
            raise BackendError(f"emits: platform must be one of {', '.join(PLATFORMS)}, got {platform!r}")
        table = _rules_by_platform.setdefault(platform, RuleTable(f"stablehlo of {platform}", rules))
    return table.register_function(*kinds)  # type: ignore[return-value]  # the table holds rules of all operations


# Where a loop or a branch waits for the device.
ACCELERATORS = ("cuda", "rocm", "tpu")


def emits_form(kind: type[O], *platforms: str) -> Callable[[F], F]:
    """Registers what an operation class is on some platforms: a function `(op, *operands)` that performs other operations.

    Args:
        kind: the class.
        platforms: of "cpu", "cuda", "rocm" and "tpu".

    Raises:
        BackendError: there is no such platform.
    """

    def register(form: F) -> F:
        for platform in platforms:
            emits(kind, platform=platform)(partial(emit_form, form))
        return form

    return register


def consists_of_operations(kind: type[Operation[object]], platform: str) -> bool:
    """Says whether an operation is written as other operations on a platform, which may depend on settings."""
    rule = rules_for(platform).find(kind)
    return rule is None or (isinstance(rule, partial) and rule.func is emit_form)


def runs_on_host(program: Program) -> bool:
    """Says whether a program, or one that it calls, holds an operation that runs on the host."""
    waiting, seen = [program], {program}
    while waiting:
        for op in [e.op for e in waiting.pop().equations]:
            if isinstance(op, Hosted):
                return True
            inner = [p for p in op.programs if p not in seen] if isinstance(op, HigherOrder) else []
            waiting += inner
            seen.update(inner)
    return False


def constant_text(value: Scalar, t: ArrayType) -> str:
    """Returns the text inside `dense<...>` of a scalar of type `t`."""
    kind = t.kind
    if t.dtype == dtypes.float0:
        return "false"  # for an element without bytes
    if dtypes.is_key(t.dtype):
        # The zeros of memory before keys are written there.
        return constant_text(0, array_type(dtypes.storage(t.dtype)))
    if kind == "b":
        return "true" if value else "false"
    if kind in "iu":
        assert not isinstance(value, complex)
        return str(int(value))
    if kind == "c":
        part = dtypes.float64 if t.dtype == dtypes.complex128 else dtypes.float32
        number = complex(value)
        return f"({_float_text(number.real, part)}, {_float_text(number.imag, part)})"
    assert not isinstance(value, complex)
    return _float_text(float(value), t.dtype)


def _float_text(value: float, dtype: dtypes.DType) -> str:
    if math.isfinite(value) or not dtypes.has_nan(dtype):
        if dtype is dtypes.float32:
            rounded = c_float(value).value  # a tenth of NumPy's time
        else:
            with np.errstate(over="ignore"):
                rounded = float(np.asarray(value, dtype))
        if math.isfinite(rounded):
            text = repr(rounded)
            if "e" in text and "." not in text:
                text = text.replace("e", ".0e")
            return text
        value = rounded
    raw = np.asarray(value, dtype)
    width = raw.dtype.itemsize
    return f"0x{int(raw.view(f'u{width}')):0{2 * width}X}"


@final
@attrs.frozen
class Axis:
    """An axis that an enclosing parallel map binds: its replica's index is (position // stride) % size.

    Attributes:
        name: for collectives. size: the number of indices. stride: see above.
        order: for each position in the grid its device's number in the module; () where these are equal.
    """

    name: object
    size: int
    stride: int
    order: tuple[int, ...] = ()


@final
@attrs.frozen
class HostedCall:
    """A call of an operation that runs on the host.

    Attributes:
        op: the operation.
        in_types, out_types: of its operands and results as XLA hands them over.
        channels: on a TPU the numbers of the channels of the operands, and then of the results.
    """

    op: Hosted
    in_types: tuple[ArrayType, ...]
    out_types: tuple[ArrayType, ...]
    channels: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())


@final
class Module:
    """One StableHLO module: a main function and the private functions that it calls.

    A program that several calls share becomes one private function, written once.

    Attributes:
        platform: "cpu", "cuda", "rocm" or "tpu"; a rule may choose another form for it.
        devices: how many run the module together.
        replicated: whether these are replicas in XLA's sense, each with arguments of its own; else
            they are partitions of one computation.
        debug_info: whether lines carry locations.
        axes: the axes that enclosing parallel maps bind, outermost first; none outside of them.
        partly: inside a parallel map over some axes of a mesh, the mesh and the axes left to the partitioner.
        ids: the ids of the devices, where they are known.
        meshes: grids of the devices by name, with their sizes and the devices' order where it is not the module's.
        variables: the dimension variables, whose values are the first arguments of each function.
        on_first: whether the first device computes something for all.
        writes_parts_in_place: whether loops' bodies and branches stand in their loop or branch, so that their
            operations' names say where they are, even if that writes them several times.
        is_foreign: whether a foreign function is called, which may fail.
        hosted: the calls of operations that run on the host, in the order of their numbers in the text.
    """

    __slots__ = (
        "_programs",
        "_taken",
        "axes",
        "debug_info",
        "devices",
        "functions",
        "hosted",
        "ids",
        "is_foreign",
        "locations",
        "meshes",
        "on_first",
        "partly",
        "platform",
        "replicated",
        "shared",
        "variables",
        "writes_parts_in_place",
    )

    def __init__(
        self,
        platform: str,
        devices: int = 1,
        debug_info: bool = True,
        axes: tuple[Axis, ...] | None = None,
        variables: Sequence[str] = (),
        ids: tuple[int, ...] = (),
    ) -> None:
        self.platform = platform
        self.devices = devices
        self.debug_info = debug_info
        self.variables = tuple(variables)
        self.replicated = axes is not None
        self.axes: tuple[Axis, ...] = axes or ()
        self.partly: tuple[str, tuple[int, ...]] | None = None
        self.meshes: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self.ids = ids
        self.functions: list[str] = []
        self.hosted: list[HostedCall] = []
        self.is_foreign = False
        self.on_first = False
        self._programs: dict[object, str] = {}
        self._taken: set[str] = {"main"}
        self.shared: dict[object, str] = {}
        self.locations: dict[tuple[str, str, int], str] = {}
        self.writes_parts_in_place = False

    def share_names(self, other: "Module") -> None:
        """Shares function names with another module, whose text gets this one's functions: no name occurs twice."""
        self._taken, self.locations = other._taken, other.locations

    def fresh(self, name: str) -> str:
        """Returns an unused function name."""
        base = "".join(c if c.isalnum() or c in "_." else "_" for c in name) or "f"
        result, n = base, 0
        while result in self._taken:
            n += 1
            result = f"{base}_{n}"
        self._taken.add(result)
        return result

    def function_of(self, program: Program, name_hint: str | None = None) -> str:
        """Returns the name of the private function for a program, writing it the first time, by default by its own name."""
        # The same collective has other groups of devices inside another parallel map.
        key: object = (program, self.axes, self.partly) if self.axes else program
        name = self._programs.get(key)
        if name is None:
            name = self._programs[key] = self.fresh(name_hint or program.name)
            self.functions += function_lines(self, program, name, "private")
        return name

    def shared_function(self, key: object, name: str, write: Callable[[str], str]) -> str:
        """Returns the name of a private function that rules share; `write(name)` gives its text once."""
        function_name = self.shared.get(key)
        if function_name is None:
            function_name = self.shared[key] = self.fresh(name)
            self.functions.append(write(function_name))
        return function_name

    def arguments(self, types: Sequence[ArrayType]) -> list[str]:
        """Returns the arguments of a private function: dimension variables, then `%arg0` and so on."""
        variables = [f"{sizes.variable_name(i)}: {INDEX.mlir}" for i in range(len(self.variables))]
        return [*variables, *[f"%arg{i}: {t.mlir}" for i, t in enumerate(types)]]

    def mesh(self, grid: tuple[int, ...], ids: tuple[int, ...] | None = None) -> str:
        """Returns the name of a mesh of all devices, in the module's order or in that of their ids."""
        order = self.order(ids)
        name = f"mesh_{'_'.join(map(str, grid))}"
        known = [n for n, key in self.meshes.items() if key == (grid, order)]
        if known:
            return known[0]
        if name in self.meshes:
            name = f"{name}_{len(self.meshes)}o"
        self.meshes[name] = (grid, order)
        return name

    def order(self, ids: tuple[int, ...] | None) -> tuple[int, ...]:
        """Returns the numbers of devices in the module; () where they are in its order."""
        if ids is None or not self.ids or ids == self.ids:
            return ()
        at = {d: k for k, d in enumerate(self.ids)}
        return tuple([at[d] for d in ids])

    def mesh_lines(self) -> list[str]:
        """Returns the definitions of the meshes."""
        lines = ["  sdy.mesh @one = <[], device_ids=[0]>"] if self.on_first else []
        return lines + [mesh_line(name, grid, order) for name, (grid, order) in self.meshes.items()]

    def location(self, label: str, source: Source) -> str:
        """Returns ` loc(#locN)` for an equation; nothing without debug information."""
        if not self.debug_info:
            return ""
        # A position is (code object, instruction offset) until here: most programs are never printed.
        file, line = "-", 0
        if source is not None:
            file, line, _ = resolve_source(source)
        key = (label, file, line)
        alias = self.locations.get(key)
        if alias is None:
            alias = self.locations[key] = f" loc(#loc{len(self.locations)})"
        return alias

    def location_lines(self) -> list[str]:
        """Returns the definitions of the location aliases."""
        return [
            f"#loc{i} = loc({json.dumps(label)}({json.dumps(file)}:{line}:0))"
            for i, (label, file, line) in enumerate(self.locations)
        ]


@final
class Body:
    """The lines of one function under construction.

    Attributes:
        module: the module of shared functions.
        lines: the text so far.
        sizes: the names of symbolic sizes that have been written.
        sums: chains of sums over axes that are one sum over all of them; see `find_sum_chains`.
        where: the names around the equation that is being written, in profiles.
        arguments: the arguments of the module's public function, which are the same at each use; XLA may compute any
            other value once for each use, with other roundings.
        stacks: of arrays that are two along an axis of two elements: that axis, and their names.
        pairs: of arrays that are another's elements by two: the axis that was split, and the other's name and type.
        token: the name of what the next transfer to a host comes after, on TPUs; "" where there is none before.

    >>> from effx.handling import Unary, emits
    >>> class Half(Unary):
    ...     __slots__ = ()
    ...     kinds = "f"
    >>> @emits(Half)
    ... def _(body, op, inputs, outputs):
    ...     x, t = body.name(inputs[0]), inputs[0].type
    ...     return body.line(f"stablehlo.multiply {x}, {body.constant(0.5, t)} : {t.mlir}")
    >>> print(Half()(3.0))
    1.5
    """

    __slots__ = (
        "_caller",
        "_constants",
        "_count",
        "_joined",
        "_location",
        "_source",
        "_whole",
        "arguments",
        "indent",
        "lines",
        "module",
        "names",
        "pairs",
        "sizes",
        "stacks",
        "sums",
        "token",
        "where",
    )

    def __init__(self, module: Module) -> None:
        self.module = module
        self.lines: list[str] = []
        self.sums: dict[Var, tuple[AxisName, ...]] = {}
        self.arguments: frozenset[Atom] = frozenset()
        self._whole, self._joined = self.lines, 0
        self.names: dict[Var, str] = {}
        self._constants: dict[tuple[str, ArrayType | str], str] = {}
        self.sizes: dict[int, str] = {}
        self.pairs: dict[str, tuple[int, str, ArrayType]] = {}
        self.stacks: dict[str, tuple[int, str, str]] = {}
        self._count = 0
        self._location = ""
        self._source: Source = None
        self.token = ""
        self.where = ""
        self._caller = ""
        self.indent = "    "

    def line(self, text: str, results: int = 1) -> str:
        """Writes `%n = text` and returns `%n`."""
        n = self._count
        self._count = n + 1
        if results == 1:
            self.lines.append(f"    %{n} = {text}{self._location}")
        else:
            self.lines.append(f"    %{n}:{results} = {text}{self._location}")
        return f"%{n}"

    def fresh(self) -> int:
        """Returns a number that no other name of this function has."""
        self._count += 1
        return self._count - 1

    def constant(self, value: Scalar, t: ArrayType) -> str:
        """Returns the name of a splat constant of type `t`, written once."""
        text, symbolic = constant_text(value, t), has_symbolic(t.shape)
        key = (text, t.strong() if symbolic else t.mlir)
        name = self._constants.get(key)
        if name is None and symbolic:
            scalar = array_type(t.dtype)
            name = self._constants[key] = self.broadcast(self.constant(value, scalar), scalar, t)
        elif name is None:
            name = self._constants[key] = f"%c{len(self._constants)}"
            self.lines.append(f"    {name} = stablehlo.constant dense<{text}> : {t.mlir}")
        return name

    def name(self, atom: Atom) -> str:
        """Returns the name of a variable or literal."""
        if type(atom) is Var:
            return self.names[atom]
        return self.constant(atom.value, atom.type)

    def fit(self, atom: Atom, shape: Shape) -> str:
        """Returns the name of an atom in a shape: rank-0 atoms are broadcast."""
        t = atom.type
        if t.shape == shape:
            return self.names[atom] if type(atom) is Var else self.name(atom)
        target = array_type(t.dtype, shape)
        if type(atom) is Literal:
            return self.constant(atom.value, target)
        return self.broadcast(self.name(atom), t, target)

    def broadcast(self, name: str, t: ArrayType, target: ArrayType) -> str:
        """Broadcasts a rank-0 value."""
        return sizes.broadcast_in_dim(self, name, t, target, ())

    def program(self, program: Program) -> None:
        """Writes a program's equations, whose inputs have names."""
        if len(self.module.axes) > 1:
            self.sums.update(find_sum_chains(program))
        caller, self._caller = self._caller, program.name
        self.equations(program.equations)
        self._caller = caller

    def equations(self, equations: Sequence[Equation]) -> None:
        """Writes equations in order."""
        names, lines = self.names, self.lines
        find = rules_for(self.module.platform).find
        locate = self.module.location
        fenced = find_fences(equations) if self.module.platform == "cpu" else NO_FENCES
        path = self.where
        for equation in equations:
            op = equation.op
            rule = find(type(op))
            if rule is None:
                if not op.can_decompose():
                    missing = NoRuleError(f"{op.name}: has no StableHLO form for {self.module.platform}")
                    set_error_position(missing, equation.source)
                    raise missing
                rule = emit_decomposition
            self.where = scope_within(path, transformed_scope(equation.scope))
            self._source = equation.source
            self._location = locate(self._label(path, equation), equation.source)
            outputs = equation.outputs
            try:
                result = rule(self, op, equation.inputs, outputs)
            except Exception as error:
                if isinstance(error, EffxError):
                    set_error_position(error, equation.source)
                explain_rule_error(
                    error,
                    rule,
                    f"lowering to {self.module.platform}: the rule for {op.name}",
                    equation.source,
                )
                raise
            if type(result) is str:
                names[outputs[0]] = result
            else:
                for var, name in zip(outputs, result, strict=True):
                    names[var] = name
            if fenced:
                for var in outputs:
                    if var in fenced:
                        self.fence(op, var)
            if lines is self._whole and len(lines) >= self._joined + 1024:
                # A string takes 57 bytes besides its text. The lines of a region are needed one by one.
                lines[self._joined :] = ["\n".join(lines[self._joined :])]
                self._joined += 1
        self.where, self._location = path, ""

    def _label(self, path: str, equation: Equation) -> str:
        """Returns the name of an equation in profiles: that of a call is the called function's."""
        op = equation.op
        if type(op) is Call and not op.inline:
            name = _function_name(op.program.name, equation.scope, self._caller)
            if name == equation.scope.rpartition("/")[2]:  # by `named_call`
                return self.where
            return scope_within(path, transformed_scope(scope_within(equation.scope, f"jit({name})")))
        return scope_within(self.where, op.name)

    def barrier(self, *values: tuple[str, ArrayType]) -> tuple[str, ...]:
        """Writes a barrier, across which XLA computes none of the values again; returns their names behind it."""
        names, types = ", ".join([x for x, _ in values]), ", ".join([t.mlir for _, t in values])
        return self.block(f"stablehlo.optimization_barrier {names} : {types}", len(values))

    def fence(self, op: Operation[object], var: Var) -> None:
        """Writes a barrier between a value and its uses; see `effx.lower.text.fences`."""
        name, t = self.names[var], var.type
        if type(op) is Iota and t.ndim > 1:
            # One row goes through memory instead of the whole array.
            row = array_type(t.dtype, (t.shape[op.axis],))
            name = sizes.iota(self, row, 0)
            (name,) = self.barrier((name, row))
            name = sizes.broadcast_in_dim(self, name, row, t, (op.axis,))
        else:
            (name,) = self.barrier((name, t))
        self.names[var] = name

    def widened(self, atom: Atom) -> tuple[str, ArrayType]:
        """Returns a value widened to a dtype of whole bytes, where XLA:CPU is wrong for smaller ones."""
        t = atom.type
        if not dtypes.is_sub_byte(t.dtype):
            return self.name(atom), t
        wide = array_type({"f": dtypes.float16, "i": dtypes.int8, "u": dtypes.uint8}[t.kind], t.shape)
        return self.convert(self.name(atom), t, wide), wide

    def widen_short_float(self, name: str, t: ArrayType) -> tuple[str, ArrayType]:
        """Returns a float of up to 16 bits as a float32, and other values as they are."""
        if t.kind != "f" or t.dtype.itemsize > 2:
            return name, t
        wide = t.with_dtype(dtypes.float32)
        return self.convert(name, t, wide), wide

    def convert(self, name: str, t: ArrayType, out: ArrayType) -> str:
        """Writes a conversion; none where the types are the same."""
        return name if t is out else self.line(f"stablehlo.convert {name} : ({t.mlir}) -> {out.mlir}")

    def call(self, program: Program, inputs: Sequence[str]) -> tuple[str, ...]:
        """Calls a program as a private function."""
        if any([0 in t.shape for t in program.in_types]):
            # XLA ends the process on calls with empty operands in a loop's condition.
            return self.inline(program, inputs)
        if self.module.platform == "tpu" and runs_on_host(program):
            # Each transfer has a channel of its own, also where a program is called twice.
            return self.inline(program, inputs)
        return self.call_function(
            self.module.function_of(program), inputs, program.in_types, program.out_types
        )

    def call_part(self, program: Program, inputs: Sequence[str], part: str) -> tuple[str, ...]:
        """Calls a part of the operation that is being written, such as a loop's body; its operations are named after it."""
        where, source = self.where, self._source
        self.where = scope_within(where, part)
        self._location = self.module.location(self.where, source)
        results = (
            self.inline(program, inputs) if self.module.writes_parts_in_place else self.call(program, inputs)
        )
        self.where, self._source = where, source
        return results

    def call_function(
        self, name: str, inputs: Sequence[str], in_types: Sequence[ArrayType], out_types: Sequence[ArrayType]
    ) -> tuple[str, ...]:
        """Calls a private function of the module by its name."""
        variables = [sizes.variable_name(i) for i in range(len(self.module.variables))]
        types = ", ".join([*[INDEX.mlir] * len(variables), *[t.mlir for t in in_types]])
        outs = ", ".join([t.mlir for t in out_types])
        text = f"func.call @{name}({', '.join([*variables, *inputs])}) : ({types}) -> ({outs})"
        return self.block(text, len(out_types))

    def region(
        self,
        write: Callable[[], Sequence[str]],
        types: Sequence[ArrayType],
        terminator: str = "stablehlo.return",
    ) -> list[str]:
        """Returns the lines of a region that `write` fills and whose results it names.

        Names that are defined inside are valid inside only, constants included.
        """
        outer, constants, location, written = self.lines, self._constants, self._location, self.sizes
        token, self.token = self.token, ""
        self.lines, self._constants, self.sizes = [], dict(constants), dict(written)
        results = write()
        self.lines.append(
            f"    {terminator} {', '.join(results)} : {', '.join([t.mlir for t in types])}"
            if results
            else f"    {terminator}"
        )
        lines = ["  " + line for line in self.lines]
        self.lines, self._constants, self._location, self.sizes = outer, constants, location, written
        self.token = token
        return lines

    def block(self, text: str, results: int) -> tuple[str, ...]:
        """Writes an operation of several lines with any number of results and returns their names."""
        if not results:
            self.lines.append(f"    {text}{self._location}")
            return ()
        name = self.line(text, results)
        return (name,) if results == 1 else tuple([f"{name}#{i}" for i in range(results)])

    def custom_call(
        self,
        target: str,
        inputs: Sequence[Atom],
        out_types: Sequence[ArrayType],
        attributes: Mapping[str, Attribute] | None = None,
        in_layouts: Sequence[Sequence[int] | None] | None = None,
        out_layouts: Sequence[Sequence[int] | None] | None = None,
        has_side_effect: bool = False,
        aliases: Mapping[int, int] | None = None,
    ) -> tuple[str, ...]:
        """Calls a foreign function by its registered name and returns the results' names; see `effx.lower.ffi`."""
        types = [x.type for x in inputs]
        names = [self.name(x) for x in inputs]
        shapes: list[int] = []
        if any([has_symbolic(t.shape) for t in out_types]):
            # The sizes of the results are operands; memory is not shared.
            aliases, shapes = None, list(range(len(names), len(names) + len(out_types)))
            for t in out_types:
                vector, kind = sizes.write_sizes(self, t.shape)
                names.append(vector)
                types.append(kind)
            in_layouts = None if in_layouts is None else [*in_layouts, *[None] * len(shapes)]
        text = custom_call_text(
            target,
            names,
            types,
            out_types,
            attributes=attributes,
            in_layouts=in_layouts,
            out_layouts=out_layouts,
            has_side_effect=has_side_effect,
            aliases=aliases,
            shapes=shapes,
        )
        return self.block(text, len(out_types))

    def inline(self, program: Program, inputs: Sequence[str]) -> tuple[str, ...]:
        """Writes a program's body in place."""
        location = self._location
        for var, name in zip(program.inputs, inputs, strict=True):
            self.names[var] = name
        self.program(program)
        self._location = location
        return tuple([self.name(atom) for atom in program.outputs])


_PREFIXES = ("jvp_", "vmap_", "transpose_", "linear_")


def _function_name(name: str, scope: str, caller: str) -> str:
    """Returns the name of a user's function from that of the program that transformations have made of it.

    Args:
        name: the program's, such as `vmap_f`. scope: the name stack of the call. caller: the name of the calling program.
    """
    if "(" in scope or caller.startswith(_PREFIXES):
        while name.startswith(_PREFIXES):
            name = name.partition("_")[2]
    return name


# Stages a form of an operation, as a program; set by effx.handlers.staging.stage, which is above this layer.
stage_form: list[Callable[[Form, Operation[object], tuple[ArrayType, ...]], Program]] = []


def emit_form(
    form: Form, body: Body, op: Operation[object], inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    """Emits an operation by a form of it: a function `(op, *operands)` that performs other operations."""
    # The mesh axes along which values vary are checked where a program is staged.
    program = stage_form[0](form, op, tuple([x.type.with_vma(INVARIANT) for x in inputs]))
    if [t.strong() for t in program.out_types] != [v.type.with_vma(INVARIANT).strong() for v in outputs]:
        raise NoRuleError(
            f"{op.name}: decomposes into ({', '.join(map(repr, program.out_types))}), "
            f"but its typing rule gives ({', '.join([repr(v.type) for v in outputs])})"
        )
    return body.inline(program, [body.name(x) for x in inputs])


def apply_decomposition(op: Operation[object], *operands: object) -> object:
    """Returns what an operation's decomposition gives: its form on all platforms."""
    return op.decompose(*operands)  # type: ignore[arg-type]  # of the class's own operands


emit_decomposition = partial(emit_form, apply_decomposition)


def function_lines(
    module: Module,
    program: Program,
    name: str,
    visibility: str,
    *,
    attributes: Sequence[str] = (),
    result_attributes: Sequence[str] = (),
    constants: Sequence[str] = (),
) -> list[str]:
    """Returns the lines of one function.

    Args:
        attributes: of the arguments, "" for none. result_attributes: of the results.
        constants: the texts inside `dense<...>` of the first inputs' values, which are then no arguments.
    """
    if module.platform != "cpu":
        program = spell_keys_in_words(program)
    body = Body(module)
    if visibility == "public":
        body.arguments = frozenset(program.inputs)
    arguments = module.arguments(program.in_types[len(constants) :])
    hidden = len(arguments) - len(program.inputs) + len(constants)
    for var, text in zip(program.inputs, constants, strict=False):
        body.names[var] = body.line(f"stablehlo.constant dense<{text}> : {var.type.mlir}")
    for i, var in enumerate(program.inputs[len(constants) :]):
        body.names[var] = f"%arg{i}"
        if attributes and attributes[i]:
            arguments[hidden + i] += f" {{{attributes[i]}}}"
    body.program(program)
    results = [body.name(atom) for atom in program.outputs]
    types = ", ".join([atom.type.mlir for atom in program.outputs])
    declared = types
    if result_attributes:
        declared = ", ".join(
            [
                f"{atom.type.mlir} {{{extra}}}" if extra else atom.type.mlir
                for atom, extra in zip(program.outputs, result_attributes, strict=True)
            ]
        )
    tail = f"return {', '.join(results)} : {types}" if results else "return"
    head = f"  func.func {visibility} @{name}({', '.join(arguments)}) -> ({declared}) {{"
    return [head, *body.lines, f"    {tail}", "  }"]
