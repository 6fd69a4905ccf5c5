"""The registry: laws, how they run on drawn cases, and the error that reproduces a failure."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar, final

import attrs
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import FlakyFailure, HypothesisException
from hypothesis.strategies import SearchStrategy

from effx.effects import Frame, Handler, Operation, Value, forward, handle
from effx.errors import TransformError
from effx.flags import enable_x64
from effx.handlers.oracle import Reference
from effx.ir.ops.control import HigherOrder
from effx.laws.printing import reproduction

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., None])
Case = tuple[object, ...]
"""The arguments of a law, as its strategy draws them."""

AREAS = (
    "handler calculus",
    "staging",
    "jit",
    "jvp",
    "linearize and transpose",
    "vjp",
    "vmap",
    "control flow",
    "custom rules and remat",
    "parallel",
    "operations",
    "trees and arrays",
    "states and effects",
    "masks, functions and programs",
    "user handlers",
    "user interceptors",
    "user transformations",
    "user rules",
)


class LawError(AssertionError):
    """A law does not hold.

    Attributes:
        law: the law's name.
        reproduction: Python source that fails in the same way when it is run.

    >>> from hypothesis import strategies as st
    >>> from effx.laws import Law, LawError
    >>> def less(x): assert x < 3, f"{x} is not less"
    >>> try:
    ...     Law("less", "x < 3", "operations", less, st.tuples(st.integers()))(5)
    ... except LawError as error:
    ...     print(error.law, "5 is not less" in str(error))
    less True
    """

    def __init__(self, law: str, statement: str, cause: BaseException, reproduction: str) -> None:
        self.law = law
        self.reproduction = reproduction
        text = f"{type(cause).__name__}: {str(cause).strip()}".replace("\n", "\n  ")
        super().__init__(f"{law}: {statement}\n  {text}\n\nreproduce it with:\n\n{reproduction}")


@final
class NotApplicable(Exception):  # noqa: N818 - no error: the law does not apply to the case
    """A law does not apply to a case; the text gives the reason.

    >>> from hypothesis import strategies as st
    >>> from effx.laws import Law, NotApplicable
    >>> def inverse(x):
    ...     if x == 0:
    ...         raise NotApplicable("0 has no inverse")
    ...     assert x * (1 / x) == 1
    >>> Law("inverse", "x (1/x) = 1", "operations", inverse, st.tuples(st.integers())).check((0,))
    '0 has no inverse'
    """


@final
@attrs.frozen
class Outcome:
    """The outcome of a law that did not fail.

    Attributes:
        law: its name.
        held: the number of cases in which it held.
        skipped: the number of cases to which it does not apply.
        reason: the reason for the last such case.

    >>> from effx.laws import Outcome
    >>> Outcome("inverse", 3) + Outcome("inverse", 1, 1, "0 has no inverse")
    Outcome(law='inverse', held=4, skipped=1, reason='0 has no inverse')
    """

    law: str
    held: int
    skipped: int = 0
    reason: str = ""

    @staticmethod
    def of(law: str, reason: str | None) -> "Outcome":
        """The outcome of one case, with the reason if the law does not apply to it."""
        return Outcome(law, 1) if reason is None else Outcome(law, 0, 1, reason)

    def __add__(self, other: "Outcome") -> "Outcome":
        """The outcome of both sets of cases."""
        held, skipped = self.held + other.held, self.skipped + other.skipped
        return Outcome(self.law, held, skipped, other.reason or self.reason)


@final
@attrs.frozen(eq=False)
class Law:
    """A law: one line of mathematics, a check of one case, and the cases it is checked on.

    Attributes:
        name: of the function that checks it.
        statement: what holds, in one line.
        area: one of `AREAS`.
        function: checks one case: raises where the law fails.
        strategy: draws the function's arguments, as a tuple.
        compiles: True where cases run on XLA; others run on the NumPy reference, which compiles nothing.
        share: the part of the profile's number of examples that is drawn; compiling is slow.

    >>> from hypothesis import strategies as st
    >>> from effx.laws import Law
    >>> def square(x): assert x * x >= 0
    >>> law = Law("square", "x^2 >= 0", "operations", square, st.tuples(st.integers()))
    >>> law(-3)                  # one case, in which it holds
    """

    name: str
    statement: str
    area: str
    function: Callable[..., None] = attrs.field(repr=False)
    strategy: SearchStrategy[Case] = attrs.field(repr=False)
    compiles: bool = False
    share: float = 1.0

    def __call__(self, *case: object) -> None:
        """Checks one case, in 64 bits; passes where the law does not apply.

        Raises:
            LawError: the law fails, or the library does.
        """
        self.check(case)

    def check(self, case: Case) -> str | None:
        """Checks one case; returns the reason if the law does not apply, None if it holds.

        Raises:
            LawError: the law fails, or the library does.
        """
        try:
            with self._surroundings():
                self.function(*case)
            return None
        except NotApplicable as reason:
            return str(reason)
        except (HypothesisException, LawError):
            raise
        except Exception as error:
            raise LawError(self.name, self.statement, error, reproduction(self.name, case)) from error

    @contextlib.contextmanager
    def _surroundings(self) -> Iterator[None]:
        with enable_x64(True):
            if self.compiles:
                yield
            else:
                with handle(NumPyFirst()):
                    yield

    def run(self, examples: int | None = None, strategy: SearchStrategy[Case] | None = None) -> Outcome:
        """Checks drawn cases and shrinks the first that fails.

        Args:
            examples: how many; by default the law's share of the hypothesis profile's number.
            strategy: draws cases instead of the law's own.

        Returns:
            The numbers of cases in which the law held, and to which it does not apply.

        Raises:
            LawError: with the smallest failing case that was found.
        """
        profile = settings()
        reasons: list[str | None] = []
        count = max(3, round(profile.max_examples * self.share)) if examples is None else examples

        @settings(
            profile,
            max_examples=count,
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink),
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=self.strategy if strategy is None else strategy)
        def attempt(case: Case) -> None:
            reasons.append(self.check(case))

        try:
            attempt()
        except FlakyFailure as flaky:
            # A failure that does not repeat is still a failure, of a cache perhaps.
            for error in flaky.exceptions:
                if isinstance(error, LawError):
                    error.add_note("The case failed once and did not when it was run again.")
                    raise error from None
            raise
        skipped = [reason for reason in reasons if reason is not None]
        return Outcome(self.name, len(reasons) - len(skipped), len(skipped), skipped[-1] if skipped else "")


@final
class NumPyFirst(Handler):
    """The reference handler, except that a user's operation without a rule runs on XLA."""

    name = "reference"
    intercepts = True

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Runs one operation on NumPy, if it has a rule there."""
        if isinstance(op, HigherOrder) or Reference.rules.find(type(op)) is not None:
            return Reference().handle(frame, op, operands)
        return forward(op, operands)


LAWS: dict[str, Law] = {}
"""All laws by name."""


def law(
    area: str,
    statement: str,
    strategy: SearchStrategy[Case],
    *,
    compiles: bool = False,
    share: float | None = None,
) -> Callable[[F], F]:
    """Registers the decorated function as a law.

    Args:
        area: one of `AREAS`.
        statement: the law in one line.
        strategy: draws tuples of arguments for the function.
        compiles: True to run on XLA.
        share: of the profile's examples; by default 0.36, or 0.1 where cases are compiled.

    Raises:
        TransformError: the area is unknown, or the name is taken.

    >>> from hypothesis import strategies as st
    >>> from effx.laws import LAWS, law
    >>> @law("operations", "x^2 >= 0", st.tuples(st.integers()))
    ... def square_is_positive(x): assert x * x >= 0
    >>> LAWS.pop("square_is_positive").statement         # popped, so that it is no law of effx
    'x^2 >= 0'
    """
    if area not in AREAS:
        raise TransformError(f"law: an area is one of {', '.join(map(repr, AREAS))}, got {area!r}")

    def register(function: F) -> F:
        name = function.__name__
        if name in LAWS:
            raise TransformError(f"law: there is a law {name!r} already: {LAWS[name].statement}")
        part = (0.1 if compiles else 0.36) if share is None else share
        LAWS[name] = Law(name, statement, area, function, strategy, compiles, part)
        return function

    return register
