"""A program as a graph in Graphviz's language."""

from typing import final

from effx.effects import user_scope
from effx.errors import source_of
from effx.ir.ops.control import HigherOrder
from effx.ir.program import Atom, Program, ProgramPrinter, Var, literal_text, variable_name

__all__ = ["graph"]

LONGEST = 60  # characters of parameters


def quote(text: str) -> str:
    """Returns a string of the language that shows a text as it is.

    >>> print(quote('say "a"'))
    "say \\"a\\""
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "").replace("\n", "\\n")
    return f'"{escaped}"'


@final
class _Graph:
    """The lines of one graph. Each program is a cluster, inside that of the first equation that holds it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.runs: list[str] = []
        self.clusters: dict[Program, int] = {}
        self.printer = ProgramPrinter()

    def write_cluster(self, program: Program, indent: str) -> int:
        """Writes a program, the first time, and returns its number."""
        entry = self.clusters.get(program)
        if entry is not None:
            return entry
        n = self.clusters[program] = len(self.clusters)
        inner = indent + "  "
        write = self.lines.append
        write(f"{indent}subgraph cluster_{n} {{")
        write(f"{inner}label={quote(self.printer.print_function(program))};")
        # An edge to a cluster must end at a node in it, and a program may have neither inputs nor equations.
        write(f'{inner}p{n} [shape=point, style=invis, label=""];')
        ends: dict[Var, str] = {}
        names: dict[Var, str] = {}

        def define(var: Var, node: str) -> None:
            ends[var], names[var] = node, variable_name(len(names))

        def edge(atom: Atom, node: str) -> None:
            if type(atom) is Var:
                label = f"{names[atom]}: {atom.type!r}"
                write(f"{inner}{ends[atom]} -> {node} [label={quote(label)}];")

        for i, var in enumerate(program.inputs):
            define(var, f"p{n}_in{i}")
            label = f"{names[var]}: {var.type!r}"
            write(f"{inner}p{n}_in{i} [shape=oval, label={quote(label)}];")
        for i, e in enumerate(program.equations):
            node = f"p{n}_eq{i}"
            parameters = self.printer.parameters_text(e.op)
            parameters = parameters if len(parameters) <= LONGEST else parameters[: LONGEST - 1] + "…"
            literals = "".join([f" {literal_text(x)}" for x in e.inputs if type(x) is not Var])
            text = "\n".join([t for t in (e.op.name + literals, parameters, user_scope(e.scope)) if t])
            tip = "" if e.source is None else f", tooltip={quote(source_of(e.source))}"
            write(f"{inner}{node} [shape=box, label={quote(text)}{tip}];")
            for x in e.inputs:
                edge(x, node)
            for var in e.outputs:
                define(var, node)
            for inner_program in e.op.programs if isinstance(e.op, HigherOrder) else ():
                k = self.write_cluster(inner_program, inner)
                self.runs.append(f"  {node} -> p{k} [lhead=cluster_{k}, style=dashed];")
        for i, atom in enumerate(program.outputs):
            text = "return" if type(atom) is Var else f"return {literal_text(atom)}"
            write(f"{inner}p{n}_out{i} [shape=oval, style=bold, label={quote(text)}];")
            edge(atom, f"p{n}_out{i}")
        write(f"{indent}}}")
        return n


def graph(program: Program) -> str:
    """Returns a program as a graph: equations and inputs are nodes, values edges with their types, programs clusters.

    A dashed edge leads from an equation to the program that it runs.

    >>> import effx, effx.numpy as enp
    >>> from effx import viewing
    >>> dot = viewing.graph(effx.make_jaxpr(enp.sin)(1.0))
    >>> dot.startswith('digraph "sin"'), '[label="a: f32[]~"]' in dot
    (True, True)
    """
    writer = _Graph()
    writer.write_cluster(program, "  ")
    return "\n".join(
        [
            f"digraph {quote(program.name)} {{",
            "  compound=true;",
            '  node [fontname="monospace", fontsize=10];',
            '  edge [fontname="monospace", fontsize=9];',
            '  fontname="monospace";',
            *writer.lines,
            *writer.runs,
            "}",
            "",
        ]
    )
