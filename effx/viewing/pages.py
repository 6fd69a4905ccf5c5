"""A program as one interactive page."""

import linecache
import pkgutil
from html import escape
from typing import final

from effx.errors import resolve, source_of
from effx.ir.ops.control import Cond, HigherOrder, Scan, While
from effx.ir.ops.parallel import ParallelMap
from effx.ir.program import Atom, Equation, Printer, Program, Var, literal_text, row_text, variable_name
from effx.library.cost import peak_bytes, short, used
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


def _text(name: str) -> str:
    return (pkgutil.get_data("effx.viewing", name) or b"").decode()


def price_text(price: Price) -> str:
    """Returns `200 flops, 1.2kB`; `≥` where a while loop counts once."""
    least = "" if price.bounded else "≥ "
    return f"{least}{short(price.flops)} flops, {short(price.traffic)}B"


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
        self.printer = Printer()
        self.costs = Costs()
        self.numbers: dict[Var, int] = {}
        self.written: dict[Program, int] = {}
        self.equations = 0

    def program(self, program: Program, note: str = "") -> str:
        """Returns a program as something that can be folded."""
        name = escape(self.printer.function(program))
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

        whole = self.costs.whole(program)
        inputs = ", ".join(map(define, program.inputs))
        head = (
            f'<details class="program" id="p{n}" open>\n<summary><span class="name">{name}</span>({inputs})'
            f'<span class="effects">{escape(row_text(program.effects))}</span>'
            f'<span class="note">{escape(note)}</span><span class="price">{price_text(whole)}</span></summary>\n'
        )
        parts = [head]
        read_by_any = set(map(id, used(program)))
        for e in program.equations:
            # Operands before results: a name is defined from its equation on.
            operands = " ".join(map(read, e.inputs))
            parts.append(
                self.equation(e, id(e) in read_by_any, ", ".join(map(define, e.outputs)), operands, whole)
            )
        outputs = ", ".join(map(read, program.outputs))
        parts.append(f'<div class="return"><b>return</b> {outputs}</div>\n</details>\n')
        return "".join(parts)

    def equation(self, e: Equation, computed: bool, results: str, operands: str, whole: Price) -> str:
        """Returns one line, and the programs that it holds."""
        self.equations += 1
        held = e.op.programs if isinstance(e.op, HigherOrder) else ()
        price = self.costs.of(e)
        # What takes the time is the arithmetic, or where there is none the memory.
        part, total = (price.flops, whole.flops) if whole.flops else (price.traffic, whole.traffic)
        share = part / total if total and computed else 0.0
        said = price_text(price) if computed else "never read"
        where, code = source_of(e.source), ""
        if e.source is not None:
            file, line, _ = resolve(e.source)
            code = linecache.getline(file, line).strip()
        line_text = f'<span class="line" title="{escape(code)}">{escape(where)}</span>' if e.source else ""
        below = "".join([self.program(p, times_text(e)) for p in held])
        return (
            f'<div class="equation">\n<div class="row"><code>{results}{" = " if results else ""}'
            f'<b class="operation">{escape(e.op.name)}</b>'
            f'<span class="parameters">{escape(self.printer.parameters(e.op))}</span> {operands}</code>'
            f'<span class="scope">{escape(e.scope)}</span>'
            f'<span class="price" style="--share:{share:.3f}">{said}</span>{line_text}</div>\n'
            f"{below}</div>\n"
        )


def page(program: Program) -> str:
    """Returns one page of HTML that shows a program; it refers to nothing outside of it."""
    written = _Page()
    body = written.program(program)
    whole = written.costs.whole(program)
    summary = (
        f"{written.equations} equations in {len(written.written)} programs; {price_text(whole)}, "
        f"at most {short(peak_bytes(program))}B at once"
    )
    return PAGE.format(
        title=escape(program.name),
        summary=escape(summary),
        style=_text("page.css"),
        body=body,
        script=_text("page.js"),
    )


def count(program: Program) -> int:
    """Counts the equations of a program and of those that it holds, each program once."""
    waiting, seen, found = [program], {program}, 0
    while waiting:
        for e in waiting.pop().equations:
            found += 1
            if isinstance(e.op, HigherOrder):
                waiting += [p for p in e.op.programs if p not in seen]
                seen.update(e.op.programs)
    return found


def frame(program: Program) -> str | None:
    """Returns the page in a frame of its own, for notebooks; None where text will be better."""
    n = count(program)
    if n > LARGEST:
        return None
    height = min(160 + 30 * n, 700)
    return (
        f'<iframe sandbox="allow-scripts" srcdoc="{escape(page(program))}" '
        f'style="width: 100%; height: {height}px; border: 0"></iframe>'
    )
