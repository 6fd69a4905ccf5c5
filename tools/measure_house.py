"""How easy effx is to read, in numbers: `python -m tools.measure_house [CHECKOUT …]` prints a column for each checkout.

They are directions, not limits: a name is right when a stranger reads it aloud and knows what it does.
"""

from __future__ import annotations

import ast
import collections
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Participles and adverbs by their endings, irregular ones by name; words that end so and are verbs or nouns.
IRREGULAR = re.compile(
    "given|said|kept|lent|told|known|made|found|held|laid|drawn|shown|taken|seen|hidden|met|begun|chosen|done|gone|"
    "grown|lain|built|borne"
)
NO_PARTICIPLES = re.compile(
    "embed|feed|need|seed|speed|shed|bleed|ring|string|sing|bring|thing|spring|king|ping|mapping|padding|sharding|spacing|"
    "rounding|building|heading|embedding|encoding|indexing|setting|warning|meaning|reshaping|ordering|apply|multiply|"
    "supply|reply|rely|only|anomaly|poly|assembly|family|early"
)

# What a first call of jit(grad(f)) visits: run in the checkout with its own interpreter path.
HOPS = """
import sys, effx, effx.numpy as enp
def f(x): return (enp.sin(x) * x).sum()
g, x = effx.jit(effx.grad(f)), enp.ones(3)
calls = hops = 0
files = set()
def profile(frame, event, _):
    global calls, hops
    if event != "call": return
    callee, caller = frame.f_code.co_filename, frame.f_back.f_code.co_filename if frame.f_back else ""
    if "/effx/" not in callee: return
    calls += 1
    files.add(callee)
    hops += callee != caller and "/effx/" in caller
g(x)                # everything is imported
g = effx.jit(effx.grad(lambda x: (enp.cos(x) * x).sum()))
sys.setprofile(profile); g(x); sys.setprofile(None)
print(len(files), hops, round(hops / calls, 2))
"""


class House:
    """The modules of effx in a checkout."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths = {self.module_name(path): path for path in sorted((root / "effx").rglob("*.py"))}
        self.trees = {name: ast.parse(path.read_text("utf-8")) for name, path in self.paths.items()}

    def module_name(self, path: Path) -> str:
        """The dotted name of a file's module."""
        name = ".".join(path.relative_to(self.root).with_suffix("").parts)
        return name.removesuffix(".__init__")

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """The modules of effx that each one imports: anywhere, for type checkers too, and by string."""
        return {name: set(self.imported_by(name)) - {name} for name in self.trees}

    def imported_by(self, name: str) -> Iterator[str]:
        for node in ast.walk(self.trees[name]):
            match node:
                case ast.Import(names=names):
                    yield from [a.name for a in names if a.name in self.trees]
                case ast.ImportFrom(module=str(module), names=names, level=0):
                    for alias in names:
                        full = f"{module}.{alias.name}"
                        target = full if full in self.trees else module
                        if target in self.trees:
                            yield target
                case ast.Call(func=function, args=[argument, *_]) if self.imports_by_string(function):
                    yield from self.named_by(argument)
                case _:
                    pass

    @staticmethod
    def imports_by_string(function: ast.expr) -> bool:
        return ast.unparse(function).rpartition(".")[2] in ("import_module", "_Late", "_above", "__import__")

    def named_by(self, argument: ast.expr) -> Iterator[str]:
        """The modules that an argument of `import_module` may name, where it says more than that they are effx's."""
        match argument:
            case ast.Constant(value=str(text)) if text in self.trees:
                yield text
            case ast.JoinedStr(values=[ast.Constant(value=str(start)), *_]) if start.count(".") > 1:
                yield from [name for name in self.trees if name.startswith(start)]
            case _:
                pass

    def string_imports(self) -> dict[str, int]:
        """How often each module imports by a name that is computed, or a string."""
        counts = collections.Counter(
            name
            for name, tree in self.trees.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and ast.unparse(node.func).rpartition(".")[2] in ("import_module", "_Late")
        )
        return dict(counts)

    def largest_circle(self) -> set[str]:
        """The largest set of modules of which each imports each, by way of others. Paths through `effx` itself are left out:
        a package is loaded before all that is in it, and imports nothing before a name is asked for.
        """
        graph = {a: {b for b in bs if b != "effx"} for a, bs in self.imports.items() if a != "effx"}
        circles = [component for component in strongly_connected(graph) if len(component) > 1]
        return max(circles, key=len, default=set())

    def functions(self) -> Iterator[str]:
        """Names of functions and methods, those of Python itself and nameless rules left out."""
        for tree in self.trees.values():
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef) and not node.name.startswith("__") and node.name != "_":
                    yield node.name.strip("_")

    def homonyms(self) -> dict[str, list[str]]:
        """Names of classes that stand in two modules or more, with these."""
        places: dict[str, list[str]] = collections.defaultdict(list)
        for name, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(name)
        return {name: modules for name, modules in sorted(places.items()) if len(set(modules)) > 1}

    def stored(self, word: str) -> int:
        """How often a local name is assigned."""
        return sum(
            isinstance(node, ast.Name) and node.id == word and isinstance(node.ctx, ast.Store)
            for tree in self.trees.values()
            for node in ast.walk(tree)
        )

    def comments(self) -> float:
        """Which part of the lines are comments, in percent."""
        lines = [
            line.strip() for path in self.paths.values() for line in path.read_text("utf-8").splitlines()
        ]
        return 100 * sum(line.startswith("#") or "  # " in line for line in lines) / len(lines)

    def walk_of_jit_grad(self) -> str:
        """Files that a first `jit(grad(f))` visits once all is imported, hops between files, hops a call."""
        done = subprocess.run(
            [sys.executable, "-c", HOPS], cwd=self.root, env={"PYTHONPATH": str(self.root), "PATH": ""},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.strip()


def strongly_connected(graph: dict[str, set[str]]) -> list[set[str]]:
    """The strongly connected components of a graph (Tarjan, 1972), without recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[set[str]] = []
    for root in graph:
        if root in index:
            continue
        work: list[tuple[str, Iterator[str]]] = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in graph:
                    continue
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    work.append((successor, iter(sorted(graph[successor]))))
                    break
                if successor in stack:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = set(stack[stack.index(node) :])
                    del stack[stack.index(node) :]
                    components.append(component)
    return components


def is_participle(name: str) -> bool:
    """Whether a function's name begins with a participle or an adverb.

    >>> [is_participle(name) for name in ("staged_program", "found", "exactly", "stage_program", "padding_of")]
    [True, True, True, False, False]
    """
    word = name.split("_")[0]
    if NO_PARTICIPLES.fullmatch(word):
        return False
    return IRREGULAR.fullmatch(word) is not None or re.fullmatch(r"[a-z]{2,}(ed|ing|ly)", word) is not None


def measures(house: House) -> dict[str, str]:
    """All measures of a checkout, by what they measure."""
    names = list(house.functions())
    lines = [len(path.read_text("utf-8").splitlines()) for path in house.paths.values()]
    folders = collections.Counter(path.parent for path in house.paths.values())
    files, hops, ratio = house.walk_of_jit_grad().split()

    def percent(n: int) -> str:
        return f"{100 * n / len(names):.1f} %"

    return {
        "files": str(len(lines)),
        "lines a file (mean)": f"{statistics.mean(lines):.0f}",
        "imports a file (of effx)": f"{statistics.mean(map(len, house.imports.values())):.1f}",
        "files in the largest folder": str(max(folders.values())),
        "comments": f"{house.comments():.1f} %",
        "participles and adverbs as names of functions": percent(sum(map(is_participle, names))),
        "names of functions of one word": percent(sum("_" not in name for name in names)),
        "class names of two meanings": str(len(house.homonyms())),
        "`found` assigned": str(house.stored("found")),
        "`given` assigned": str(house.stored("given")),
        "imports by string, modules with them": f"{sum(house.string_imports().values())}, {len(house.string_imports())}",
        "modules in the largest circle": str(len(house.largest_circle())),
        "files in a first jit(grad)": files,
        "hops between files in it, a call": f"{hops}, {ratio}",
    }


def main(roots: list[Path]) -> None:
    """Prints the table."""
    columns = [measures(House(root)) for root in roots]
    width = max(map(len, columns[0]))
    print(" " * width, *[f"{root.name:>12}" for root in roots])
    for name in columns[0]:
        print(f"{name:{width}}", *[f"{column[name]:>12}" for column in columns])


if __name__ == "__main__":
    main([Path(argument).resolve() for argument in sys.argv[1:]] or [ROOT])
