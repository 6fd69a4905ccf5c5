"""Portable laws by name, how they run on drawn cases of one source, and what a failure says."""

import time
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Protocol, TypeVar, final

import attrs
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException
from hypothesis.strategies import SearchStrategy

from effx.errors import TransformError
from effx.laws.portable.implementation import Implementation
from effx.laws.registry import NotApplicable

SHRINK_SECONDS = 20.0


class Subject(Protocol):
    """What a law is checked on: it can be printed."""

    @property
    def key(self) -> str:
        """A law that fails on a case is not run on others of its key."""
        ...

    def print_program(self, implementation: Implementation, shown: Sequence[str] = ()) -> str:
        """Returns a program of the implementation."""
        ...


Sources = dict[str, SearchStrategy[Subject]]
S = TypeVar("S", bound=Subject)
Check = Callable[[Implementation, S], None]


@final
@attrs.frozen
class Failure:
    """A case in which a law does not hold.

    Attributes:
        law: its name.
        source: where the case is from.
        statement: the law in one line.
        key: of the case.
        message: what went wrong.
        program: the smallest program that was found.
    """

    law: str
    source: str
    statement: str
    key: str
    message: str
    program: str


@final
@attrs.frozen
class Verdict:
    """What a run of a law on a source gave.

    Attributes:
        held: the number of cases in which the law held.
        skipped: the number of cases to which it does not apply.
        refused: the number of cases that the implementation says it does not support.
        refusals: its words, by the key of the case.
        failure: the smallest case in which it failed; None if there is none.
    """

    held: int
    skipped: int
    refused: int
    refusals: Mapping[str, str]
    failure: Failure | None


@final
@attrs.frozen(eq=False)
class PortableLaw:
    """A law of any implementation.

    Attributes:
        name: of the function that checks it.
        statement: what holds, in one line.
        check: checks one case: raises where the law fails.
        sources: strategies of cases by name, for an implementation.
        needs: attributes of the implementation that must be there.
        shown: expressions of `f`, `xs` and `vs` that the program of a failure prints.
    """

    name: str
    statement: str
    check: Callable[[Implementation, Subject], None] = attrs.field(repr=False)
    sources: Callable[[Implementation], Sources] = attrs.field(repr=False)
    needs: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()

    def applies_to(self, implementation: Implementation) -> bool:
        """Says whether the implementation has what the law is about."""
        return all([getattr(implementation, name) is not None for name in self.needs])

    def run(
        self,
        implementation: Implementation,
        source: str | None,
        examples: int,
        start: int = 0,
        shrink: bool = True,
        left_out: Container[str] = (),
    ) -> Verdict:
        """Checks drawn cases.

        Args:
            implementation: on which they run.
            source: a name of `sources`; None to draw from all of them.
            examples: how many are drawn, at most.
            start: of the random numbers.
            shrink: False to keep the first failure as it is.
            left_out: keys of cases that are not checked.

        >>> from effx.laws.portable.peers import of_effx
        >>> PORTABLE_LAWS["jit_keeps_values"].run(of_effx(), "sums", 2).failure is None
        True
        """
        run = _Run(self, implementation, source or "all sources", left_out)
        sources = self.sources(implementation)
        strategy = st.one_of(*sources.values()) if source is None else sources[source]
        phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)

        @seed(start)
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=phases,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=strategy)
        def attempt(case: Subject) -> None:
            run.check(case)

        try:
            attempt()
        except (_LawFailsError, HypothesisException, ExceptionGroup):
            if run.failure is None:
                raise
        return Verdict(run.held, run.skipped, run.refused, run.refusals, run.failure)


class PartOfCaseError(AssertionError):
    """A law fails on part of a case.

    Attributes:
        case: the part.
    """

    def __init__(self, message: str, case: Subject) -> None:
        super().__init__(message)
        self.case = case


class _LawFailsError(AssertionError):
    """For hypothesis, which shrinks it; all failures of a run are one."""


@final
class _Run:
    """Counts outcomes and keeps the smallest failure.

    Shrinking is bounded in time, so that the last failure that hypothesis saw may be refused when it asks again.
    """

    def __init__(
        self, law: PortableLaw, implementation: Implementation, source: str, left_out: Container[str]
    ) -> None:
        self.law, self.implementation, self.source, self.left_out = law, implementation, source, left_out
        self.refusals: dict[str, str] = {}
        self.held = self.skipped = self.refused = 0
        self.failure: Failure | None = None
        self.first_failure = 0.0

    def check(self, case: Subject) -> None:
        """Checks one case.

        Raises:
            _LawFailsError: the law does not hold.
        """
        if self.failure is not None and time.monotonic() > self.first_failure + SHRINK_SECONDS:
            return
        if case.key in self.left_out:
            self.skipped += 1
            return
        try:
            with self.implementation.precision(True):
                self.law.check(self.implementation, case)
        except NotApplicable:
            self.skipped += 1
        except HypothesisException:
            raise
        except Exception as error:
            if self.implementation.partial and isinstance(error, AttributeError | TypeError):
                self.skipped += 1  # a function that is not there, or that is called in another way
                return
            if isinstance(error, NotImplementedError) or self.implementation.refuses(error):
                self.refused += 1
                self.refusals[case.key] = f"{type(error).__name__}: {str(error)[:120]}"
                return
            self._note_failure(case, error)
            raise _LawFailsError from error
        else:
            self.held += 1

    def _note_failure(self, case: Subject, error: Exception) -> None:
        smallest = error.case if isinstance(error, PartOfCaseError) else case
        program = smallest.print_program(self.implementation, self.law.shown)
        if self.failure is None:
            self.first_failure = time.monotonic()
        elif len(program) > len(self.failure.program):
            return
        kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        message = f"{kind}{str(error).strip()}"
        self.failure = Failure(self.law.name, self.source, self.law.statement, case.key, message, program)


PORTABLE_LAWS: dict[str, PortableLaw] = {}
"""All portable laws by name."""


def portable_law(
    statement: str,
    sources: Callable[[Implementation], Sources],
    needs: tuple[str, ...] = (),
    shown: tuple[str, ...] = (),
) -> Callable[[Check[S]], Check[S]]:
    """Registers the decorated function as a law of any implementation.

    Args:
        statement: the law in one line.
        sources: of its cases.
        needs: attributes of the implementation that must be there.
        shown: expressions that the program of a failure prints.

    Raises:
        TransformError: the name is taken.
    """

    def register(check: Check[S]) -> Check[S]:
        name = getattr(check, "__name__", "")
        if name in PORTABLE_LAWS:
            raise TransformError(f"portable_law: there is a law {name!r} already")
        PORTABLE_LAWS[name] = PortableLaw(
            name,
            statement,
            check,  # type: ignore[arg-type]  # the sources draw what the check takes
            sources,
            needs,
            shown,
        )
        return check

    return register
