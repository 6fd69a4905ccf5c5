"""Programs as pages and graphs: their structure, what they say, and what a page does in a browser."""

from __future__ import annotations

import html
import io
import re
import shutil
import subprocess
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import attrs
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.handlers.authoring.analysis import places
from effx.ir.program import Program
from effx.library.cost import cost
from effx.viewing import pages
from effx.viewing.costs import Costs

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DOT = shutil.which("dot")


def layer(x: Any, w: Any) -> Any:
    with effx.named_scope("layer"):
        return enp.tanh(x @ w)


def network(ws: Any, x: Any) -> Any:
    y, norms = lax.scan(lambda c, w: (layer(c, w), c.sum()), x, ws)
    y = lax.cond(y.sum() > 0, enp.exp, lambda y: y * 2.0, y)
    return y.sum() + norms.sum()


def halving(x: Any) -> Any:
    return lax.while_loop(lambda y: y.max() > 1.0, lambda y: y / 2, x)


def twice(x: Any) -> Any:
    f = effx.jit(lambda x: enp.sin(x) + 1.0)
    return f(x) * f(x)


WS, X = enp.ones((6, 4, 4)), enp.ones((8, 4))
PROGRAMS: dict[str, Program] = {
    "network": effx.make_jaxpr(network)(WS, X),
    "gradient": effx.make_jaxpr(effx.grad(network))(WS, X),
    "while": effx.make_jaxpr(halving)(X),
    "shared": effx.make_jaxpr(twice)(X),
    "empty": effx.make_jaxpr(lambda: ())(),
    "literal": effx.make_jaxpr(lambda x: (x, 2.0))(1.0),
    "size 0": effx.make_jaxpr(lambda x: enp.sort(x))(enp.ones((0, 3))),
}
every_program = pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
VOID = {"meta", "input"}


class Page(HTMLParser):
    """The elements of a page, in order, after checking that each is closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.classes: Counter[str] = Counter()
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.elements.append((tag, given))
        self.classes.update(given.get("class", "").split())
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def tags(self) -> list[str]:
        return [tag for tag, _ in self.elements]

    def having(self, name: str) -> list[dict[str, str]]:
        return [given for _, given in self.elements if name in given.get("class", "").split()]


def programs_of(program: Program) -> int:
    return len(set(_held(program)))


def _held(program: Program) -> list[Program]:
    found = [program]
    for e in program.equations:
        for held in getattr(e.op, "programs", ()):
            found += _held(held)
    return found


@every_program
def test_structure(program: Program) -> None:
    """A page has each program and each equation once, and each value is defined once, before it is used."""
    shown = Page(program.to_html())
    assert shown.classes["program"] == programs_of(program)
    assert shown.classes["equation"] == shown.classes["operation"] == pages.count_equations(program)
    printed = str(program)
    assert shown.classes["equation"] == sum(
        len(body.splitlines()) - 3 for body in printed.split("\n\n") if body.strip()
    )
    known: set[str] = set()
    for given in shown.having("value"):
        if "defines" in given["class"]:
            assert given["data-value"] not in known
            known.add(given["data-value"])
        else:
            # Results stand left of the operands of their equation, which are others' results.
            assert given["data-value"] in known
    assert all(re.fullmatch(r"#p\d+", a["href"]) for tag, a in shown.elements if tag == "a")
    assert not [a for _, a in shown.elements if "src" in a or "onclick" in a]
    assert [tag for tag, _ in shown.elements].count("script") == 1


@every_program
def test_graph(program: Program) -> None:
    """A graph has a cluster for each program, a box for each equation, and an edge for each variable that is used."""
    text = program.to_dot()
    assert text.count("subgraph cluster_") == programs_of(program)
    assert text.count("shape=box") == pages.count_equations(program)
    assert text.count("{") == text.count("}")
    nodes = set(re.findall(r"^ +(p\w+) \[", text, re.MULTILINE))
    ends = re.findall(r"^ +(p\w+) -> (p\w+) \[", text, re.MULTILINE)
    assert {n for edge in ends for n in edge} <= nodes
    if DOT is not None:
        done = subprocess.run(
            [DOT, "-Tplain"], input=text, capture_output=True, text=True, check=True, timeout=60
        )
        assert done.stderr == ""


def test_text_of_a_page() -> None:
    """Types, parameters, literals, scopes, the user's lines and how often a program runs are on the page."""
    text = html.unescape(re.sub("<[^>]+>", "", PROGRAMS["network"].to_html().partition("<main>")[2]))
    for part in (
        "a: f32[6,4,4]",
        "tanh",
        "layer",
        "6 times",
        "one of the branches",
        "test_viewing.py:",
        "2.0:f32~",
    ):
        assert part in text
    page = PROGRAMS["network"].to_html()
    assert 'title="return enp.tanh(x @ w)"' in page
    shared = PROGRAMS["shared"].to_html()
    assert 'see <a href="#p1">above</a>' in shared
    assert "≥ " in PROGRAMS["while"].to_html()
    assert "≥ " not in page


@pytest.mark.parametrize("name", ["network", "gradient", "shared"])
def test_costs(name: str) -> None:
    """The cost of the whole is what `effx.library.cost` says, and of an equation the sum of what it runs."""
    program = PROGRAMS[name]
    functions: dict[str, Any] = {"network": network, "gradient": effx.grad(network), "shared": twice}
    said = cost(functions[name])(*((X,) if name == "shared" else (WS, X)))
    priced = Costs().whole(program)
    assert priced.flops == pytest.approx(said.flops)
    assert priced.traffic == pytest.approx(said.traffic)
    assert priced.bounded
    one = [p for p in places(PROGRAMS["network"]) if p.op.name == "dot_general"]
    assert [Costs().of(p.equation).flops for p in one] == [2.0 * 8 * 4 * 4]
    assert not Costs().whole(PROGRAMS["while"]).bounded


EVIL = '"><img src=x onerror=alert(1)></script><script>alert(2)</script>'


def test_texts_are_escaped() -> None:
    """Names of functions and scopes show as they are, on the page, in a notebook's frame and in a graph."""

    def f(x: Any) -> Any:
        with effx.named_scope(EVIL):
            return enp.sin(x)

    f.__name__ = EVIL
    program = effx.make_jaxpr(f)(1.0)
    shown = Page(program.to_html())
    assert {tag for tag, _ in shown.elements} <= set(Page(PROGRAMS["network"].to_html()).tags())
    assert [tag for tag, _ in shown.elements].count("script") == 1
    framed = program._repr_html_()
    assert framed is not None
    outside = Page(framed)
    assert [tag for tag, _ in outside.elements] == ["iframe"]
    assert outside.elements[0][1]["srcdoc"] == program.to_html()
    assert outside.elements[0][1]["sandbox"] == "allow-scripts"
    graph = program.to_dot()
    assert all(len(re.findall(r'(?<!\\)"', line)) % 2 == 0 for line in graph.splitlines())
    assert '\\"><img' in graph


ESCAPES = re.compile(r"\x1b\[\d+m")


@every_program
def test_text_in_colours(program: Program) -> None:
    """Colours add nothing but themselves: one operation for each equation, one `return` and one name for each program."""
    shown = program.pretty_print(use_color=True)
    assert ESCAPES.sub("", shown) == str(program) == program.pretty_print(use_color=False)
    assert shown.count("\x1b[34m") == sum([len(held.equations) for held in set(_held(program))])
    assert shown.count("\x1b[1m") == 2 * programs_of(program)
    assert shown.count("\x1b[0m") * 2 == shown.count("\x1b[")
    lines = program.pretty_print(source_info=True, use_color=False).split("\n")
    assert "\n".join([line.split("  # ")[0] for line in lines]) == str(program)
    assert program.pretty_print(source_info=True) == "\n".join(lines)  # the output is no terminal here


def test_name_stacks_stand_behind_equations() -> None:
    """The user's scopes inside of the transformations, before the line."""

    def f(x: Any) -> Any:
        with effx.named_scope("layer"):
            return enp.sin(x) * 2

    program = effx.make_jaxpr(lambda x: effx.vmap(f)(x) + 1)(enp.ones(3))
    lines = program.pretty_print(name_stack=True, use_color=False).split("\n")
    assert [line.partition("  # ")[2] for line in lines[1:4]] == ["[vmap(layer)]", "[vmap(layer)]", ""]
    assert "\n".join([line.split("  # ")[0] for line in lines]) == str(program)
    both = program.pretty_print(name_stack=True, source_info=True, use_color=False).split("\n")[1]
    assert re.search(r"  # \[vmap\(layer\)\] test_viewing.py:\d+ in f$", both)


def test_what_is_coloured() -> None:
    def f(x: Any) -> Any:
        with effx.named_scope("a: f32[] = @b"):
            y = enp.sin(x)
        effx.debug.print("a: f32[] = @c {}", y)
        return y

    program = effx.make_jaxpr(f)(1.0)
    lines = program.pretty_print(use_color=True).replace("\x1b", "^").split("\n")
    assert lines[1] == "  b: ^[32mf32[]~^[0m = ^[34msin^[0m a 'a: f32[] = @b'"
    assert lines[2].startswith("  ^[34mpython_callback^[0m[function=")
    assert re.search(
        r"= sin a 'a: f32\[\] = @b'  # test_viewing.py:\d+ in f$",
        program.pretty_print(source_info=True),
        re.MULTILINE,
    )


def test_text_in_ipython(monkeypatch: pytest.MonkeyPatch) -> None:
    """IPython shows what `_repr_pretty_` gives its printer; in colours where it has a terminal and the setting says so."""

    class Output(io.StringIO):
        def isatty(self) -> bool:
            return True

        text = io.StringIO.write

    program = PROGRAMS["literal"]
    plain, coloured, chosen = Output(), Output(), Output()
    program._repr_pretty_(plain, False)
    monkeypatch.setattr("sys.stdout", Output())
    program._repr_pretty_(coloured, False)
    with effx.flags.pprint_use_color(False):
        program._repr_pretty_(chosen, False)
    assert plain.getvalue() == chosen.getvalue() == str(program)
    assert coloured.getvalue() == program.pretty_print(use_color=True)


def test_large_programs_are_text_in_notebooks() -> None:
    """A page of many thousand equations would be slow to open."""
    program = PROGRAMS["literal"]
    equations = PROGRAMS["shared"].equations
    long = attrs.evolve(PROGRAMS["shared"], equations=equations * (pages.LARGEST // len(equations) + 1))
    assert long._repr_html_() is None
    assert program._repr_html_() is not None


# Does what a person would, and leaves what is then to be seen as text.
ACT = """<script>
{
const seen = [];
const matches = () => [...document.querySelectorAll(".equation.match")].length;
const first = [...document.querySelectorAll(".value")].find((e) => !e.classList.contains("defines"));
first.click();
seen.push([...document.querySelectorAll(".value.used.defines")].length);
seen.push([...document.querySelectorAll(".value.used")].every((e) => e.dataset.value === first.dataset.value));
document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
seen.push(document.querySelectorAll(".value.used").length);
byId("close").click();
seen.push([...document.querySelectorAll("details.program")].filter((e) => e.open).length);
byId("search").value = "TANH";
byId("search").dispatchEvent(new Event("input"));
seen.push(matches(), byId("found").textContent, document.querySelector(".equation.match").checkVisibility());
byId("search").value = "";
byId("search").dispatchEvent(new Event("input"));
seen.push(matches(), document.querySelectorAll(".equation.hidden").length);
const type = document.querySelector(".operand.type");
seen.push(getComputedStyle(type).display);
byId("types").click();
seen.push(getComputedStyle(type).display);
const back = () => getComputedStyle(document.body).backgroundColor;
const before = back();
byId("theme").click();
seen.push(before !== back());
const result = document.createElement("pre");
result.id = "result";
result.textContent = JSON.stringify(seen);
document.body.append(result);
}
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine")
def test_page_in_a_browser(tmp_path: Path) -> None:
    """A click marks a value where it is defined and used; folding, searching, types and colours work."""
    file = tmp_path / "page.html"
    file.write_text(PROGRAMS["network"].to_html().replace("</body>", ACT + "</body>"), encoding="utf-8")
    command = [
        str(BROWSER),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
    ]
    done = subprocess.run(
        [*command, "--dump-dom", file.as_uri()], capture_output=True, text=True, check=True, timeout=100
    )
    found = re.search(r'<pre id="result">(.*?)</pre>', done.stdout)
    assert found is not None, done.stderr
    assert html.unescape(found[1]) == ('[1,true,0,1,1,"1 found",true,0,0,"none","inline",true]')
