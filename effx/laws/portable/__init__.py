"""Laws that any implementation of functional transformations can be held to: effx, JAX, `torch.func`.

A law here knows nothing of effx. It takes an `Implementation`, a small interface of transformations with a namespace of
functions, and a case. A case is the source of a program with points: a random program with calls, branches and loops, as
`effx.laws.programs` draws it, or one of the families of expressions of `effx.laws.portable.families`, which have an
expression for each kind of function with all its options. The source uses JAX's names, so one description runs on all
implementations; printed, it has the names of the implementation that it failed on. Oracles are finite differences in
64 bits, control flow in Python, loops in place of batches, effx's reference handler, which computes on NumPy, and for
functions at special points NumPy, SciPy, mpmath and calculus.

effx fills the interface, and so do adapters of JAX and PyTorch, which import these libraries when they are asked for and
not before. `python -m effx.laws --against jax --minutes 60` runs the laws on the installed JAX, and prints for each failure
the smallest program that was found. Where an implementation is partial (PyTorch has not all of the functions), a program
that does not run is left out; elsewhere it is a failure. An implementation's `NotImplementedError` is counted apart.

A failure is an observation: that it is a fault, or a difference of choice, is for a reader to decide, with
docs/laws-against-jax.md as the example.

Needs mpmath and SciPy besides hypothesis: `pip install 'effx[peers]'`.
"""

try:
    import mpmath as _mpmath  # whether they are there
    import scipy as _scipy
except ImportError as error:
    raise ImportError(
        f"effx.laws.portable: {error.name} is not installed; pip install 'effx[peers]'"
    ) from error

from effx.laws.portable import point_laws, program_laws  # they register themselves
from effx.laws.portable.against import run_laws
from effx.laws.portable.cases import Case, Family
from effx.laws.portable.implementation import Implementation
from effx.laws.portable.peers import PEERS, find_implementation, of_effx, of_jax, of_torch
from effx.laws.portable.registry import PORTABLE_LAWS, Failure, PortableLaw, Verdict, portable_law

__all__ = [
    "PEERS",
    "PORTABLE_LAWS",
    "Case",
    "Failure",
    "Family",
    "Implementation",
    "PortableLaw",
    "Verdict",
    "find_implementation",
    "of_effx",
    "of_jax",
    "of_torch",
    "portable_law",
    "run_laws",
]


def __dir__() -> list[str]:
    return sorted(__all__)
