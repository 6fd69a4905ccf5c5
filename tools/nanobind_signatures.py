"""Compare parameters in stubs with the signatures that nanobind keeps with its functions.

stubtest can't read those, so that a wrong parameter name would pass it. A stub may leave out
parameters that have defaults; what it has must be there, in that order and of that kind.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import final

import attrs


@final
@attrs.frozen
class Parameter:
    """A parameter: `name` is None where it can only be given by position."""

    name: str | None
    keyword_only: bool
    optional: bool

    def accepts(self, stub: Parameter) -> bool:
        """Whether calls that the stub allows are calls that this parameter allows."""
        if self.keyword_only != stub.keyword_only or (stub.optional and not self.optional):
            return False
        return stub.name is None or stub.name == self.name


def parameters(arguments: ast.arguments) -> list[Parameter]:
    """Parameters of a definition, `self` included, `*args` and `**kwargs` left out.

    >>> [p.name for p in parameters(ast.parse("def f(x, /, y): ...").body[0].args)]
    [None, 'y']
    """
    positional = [*arguments.posonlyargs, *arguments.args]
    required = len(positional) - len(arguments.defaults)
    found = [
        Parameter(None if i < len(arguments.posonlyargs) else argument.arg, False, i >= required)
        for i, argument in enumerate(positional)
    ]
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return found + [Parameter(argument.arg, True, default is not None) for argument, default in named]


def fits(stub: list[Parameter], runtime: list[Parameter]) -> bool:
    """Whether each call that the stub allows is one that the runtime allows."""
    if len(stub) > len(runtime) or not all(r.accepts(s) for s, r in zip(stub, runtime, strict=False)):
        return False
    return all(parameter.optional for parameter in runtime[len(stub) :])


def overloads(function: object) -> Iterator[list[Parameter]]:
    """Signatures that nanobind keeps with a function."""
    for text, *_ in getattr(function, "__nb_signature__", ()):
        # Defaults are kept apart, as \0, \1 …; array types are spelled in a way of their own.
        plain = re.sub(r"ndarray\[[^\]]*\]", "ndarray", re.sub(r"\\\d+", "...", text))
        plain = re.sub(r"^def \w*(\[.*?\])?\(", "def f(", plain)
        definition = ast.parse(f"{plain}: ...").body[0]
        assert isinstance(definition, ast.FunctionDef)
        yield parameters(definition.args)


def definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions and methods of a stub with their dotted names."""
    for node in body:
        match node:
            case ast.FunctionDef():
                yield prefix + node.name, node
            case ast.ClassDef():
                yield from definitions(node.body, f"{prefix}{node.name}.")
            case _:
                pass


def differences(module: str, stub: Path) -> Iterator[str]:
    """What in a stub does not fit its module."""
    loaded = importlib.import_module(module)
    for name, definition in definitions(ast.parse(stub.read_text(encoding="utf-8")).body):
        function: object = loaded
        for part in name.split("."):
            function = getattr(function, part, None)
        signatures = list(overloads(function))
        expected = parameters(definition.args)
        if any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in definition.decorator_list):
            # Some static functions carry a signature text that names a `self` they don't take.
            signatures += [s[1:] for s in signatures if s and s[0].name == "self"]
        if signatures and not any(fits(expected, signature) for signature in signatures):
            yield f"{module}.{name}: parameters differ from {getattr(function, '__nb_signature__', None)}"
