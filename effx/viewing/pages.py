"""A program as one interactive page.

The page is written here, and its script only folds, marks and searches, so it is tested as text, and acted on
in a browser where there is one.
"""

import linecache
import pkgutil
from html import escape
from typing import final

from effx.effects import user_scope
from effx.errors import resolve_source, source_of
from effx.ir.ops.control import Cond, HigherOrder, Scan, While
from effx.ir.ops.parallel import ParallelMap
from effx.ir.program import (
    Atom,
    Equation,
    Program,
    ProgramPrinter,
    Var,
    effect_row_text,
    literal_text,
    variable_name,
)
from effx.library.cost import format_number, peak_bytes, used_equations
from effx.viewing.costs import Costs, Price

__all__ = ["frame", "page"]

# In a notebook a longer program is shown as text, as its file would be slow to open.
LARGEST = 5000

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<p class="summary">{summary}</p>
<div class="tools">
<input id="search" type="search" placeholder="search: name, type, scope, line" aria-label="search">
<output id="found" for="search"></output>
<button id="open" type="button">open all</button>
<button id="close" type="button">fold all</button>
<label><input id="types" type="checkbox"> types of operands</label>
<button id="theme" type="button">dark or light</button>
</div>
</header>
<main>
{body}</main>
<script>
{script}</script>
</body>
</html>
"""


def _escaped_name(name: str) -> str:
    return (pkgutil.get_data("effx.viewing", name) or b"").decode()


def price_text(price: Price) -> str:
    """Returns `200 flops, 1.2kB`; `≥` where a while loop counts once."""
    least = "" if price.bounded else "≥ "
    return f"{least}{format_number(price.flops)} flops, {format_number(price.traffic)}B"


def times_text(e: Equation) -> str:
    """Returns how often an equation runs the programs that it holds."""
    match e.op:
        case Scan(length=length):
            return f"{length} times"
        case ParallelMap():
            return f"on {e.op.size} devices"
        case Cond():
            return "one of the branches"
        case While():
            return "until the condition fails"
        case _:
            return ""


@final
class _Page:
    """Writes programs, each once, where the first equation is that holds it."""

    def __init__(self) -> None:
        self.printer = ProgramPrinter()
        self.costs = Costs()
        self.numbers: dict[Var, int] = {}
        self.written: dict[Program, int] = {}
        self.equations = 0

    def write_program(self, program: Program, note: str = "") -> str:
        """Returns a program as something that can be folded."""
        name = escape(self.printer.print_function(program))
        if program in self.written:
            return f'<p class="again">@{name}: see <a href="#p{self.written[program]}">above</a></p>\n'
        n = self.written[program] = len(self.written)
        names: dict[Var, str] = {}

        def define(var: Var) -> str:
            self.numbers[var], names[var] = len(self.numbers), variable_name(len(names))
            t = escape(repr(var.type))
            return f'{value(var, " defines")}<span class="type">: {t}</span>'

        def value(var: Var, more: str = "") -> str:
            t = escape(repr(var.type))
            return (
                f'<span class="value{more}" tabindex="0" data-value="{self.numbers[var]}" title="{t}">'
                f"{names[var]}</span>"
            )

        def read(atom: Atom) -> str:
            if type(atom) is not Var:
                return f'<span class="literal">{escape(literal_text(atom))}</span>'
            return f'{value(atom)}<span class="operand type">: {escape(repr(atom.type))}</span>'

        total = self.costs.whole(program)
        inputs = ", ".join(map(define, program.inputs))
        head = (
            f'<details class="program" id="p{n}" open>\n<summary><span class="name">{name}</span>({inputs})'
            f'<span class="effects">{escape(effect_row_text(program.effects))}</span>'
            f'<span class="note">{escape(note)}</span><span class="price">{price_text(total)}</span></summary>\n'
        )
        parts = [head]
        read_by_any = set(map(id, used_equations(program)))
        for e in program.equations:
            # Operands before results: a name is defined from its equation on.
            operands = " ".join(map(read, e.inputs))
            parts.append(
                self.write_equation(
                    e, id(e) in read_by_any, ", ".join(map(define, e.outputs)), operands, total
                )
            )
        outputs = ", ".join(map(read, program.outputs))
        parts.append(f'<div class="return"><b>return</b> {outputs}</div>\n</details>\n')
        return "".join(parts)

    def write_equation(
        self, e: Equation, computed: bool, results: str, operands: str, total_price: Price
    ) -> str:
        """Returns one line, and the programs that it holds."""
        self.equations += 1
        inner_programs = e.op.programs if isinstance(e.op, HigherOrder) else ()
        price = self.costs.of(e)
        # What takes the time is the arithmetic, or where there is none the memory.
        part, total = (
            (price.flops, total_price.flops) if total_price.flops else (price.traffic, total_price.traffic)
        )
        share = part / total if total and computed else 0.0
        price_label = price_text(price) if computed else "never read"
        where, code = source_of(e.source), ""
        if e.source is not None:
            file, line, _ = resolve_source(e.source)
            code = linecache.getline(file, line).strip()
        line_text = f'<span class="line" title="{escape(code)}">{escape(where)}</span>' if e.source else ""
        below = "".join([self.write_program(p, times_text(e)) for p in inner_programs])
        return (
            f'<div class="equation">\n<div class="row"><code>{results}{" = " if results else ""}'
            f'<b class="operation">{escape(e.op.name)}</b>'
            f'<span class="parameters">{escape(self.printer.parameters_text(e.op))}</span> {operands}</code>'
            f'<span class="scope">{escape(user_scope(e.scope))}</span>'
            f'<span class="price" style="--share:{share:.3f}">{price_label}</span>{line_text}</div>\n'
            f"{below}</div>\n"
        )


def page(program: Program) -> str:
    """Returns one page of HTML that shows a program; it refers to nothing outside of it.

    >>> import effx, effx.numpy as enp
    >>> from effx import viewing
    >>> html = viewing.page(effx.make_jaxpr(lambda x: enp.sin(x) * 2.0)(1.0))
    >>> "2 equations in 1 programs" in html
    True
    """
    written = _Page()
    body = written.write_program(program)
    total = written.costs.whole(program)
    summary = (
        f"{written.equations} equations in {len(written.written)} programs; {price_text(total)}, "
        f"at most {format_number(peak_bytes(program))}B at once"
    )
    return PAGE.format(
        title=escape(program.name),
        summary=escape(summary),
        style=_escaped_name("page.css"),
        body=body,
        script=_escaped_name("page.js"),
    )


def count_equations(program: Program) -> int:
    """Counts the equations of a program and of those that it holds, each program once."""
    waiting, seen, equation_count = [program], {program}, 0
    while waiting:
        for e in waiting.pop().equations:
            equation_count += 1
            if isinstance(e.op, HigherOrder):
                waiting += [p for p in e.op.programs if p not in seen]
                seen.update(e.op.programs)
    return equation_count


def frame(program: Program) -> str | None:
    """Returns the page in a frame of its own, for notebooks; None where text will be better.

    >>> import effx, effx.numpy as enp
    >>> from effx import viewing
    >>> viewing.frame(effx.make_jaxpr(enp.sin)(1.0))[:7]
    '<iframe'
    """
    n = count_equations(program)
    if n > LARGEST:
        return None
    height = min(160 + 30 * n, 700)
    return (
        f'<iframe sandbox="allow-scripts" srcdoc="{escape(page(program))}" '
        f'style="width: 100%; height: {height}px; border: 0"></iframe>'
    )
