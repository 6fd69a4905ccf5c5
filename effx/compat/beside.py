"""Check that JAX and effx-jax-compat, which declares that effx replaces it, are not installed together.

Never: import the packages that it looks for.
"""

from importlib.machinery import PathFinder
from importlib.metadata import distributions

from effx.errors import CompatError

__all__ = ["check_alone"]


def check_alone() -> None:
    """Checks that there are not two distributions named jax, of which pip and libraries would see either.

    Raises:
        CompatError: there are.
    """
    spec = PathFinder.find_spec("jax")
    if spec is None or spec.submodule_search_locations is None:
        return  # no JAX, or the module by which effx-jax-compat declares that there is none
    if any([True for _ in distributions(name="effx-jax-compat")]):
        raise CompatError(
            f"effx.compat: jax is installed, at {spec.submodule_search_locations[0]}, and so is effx-jax-compat, which "
            f"tells pip that it is not; pip uninstall effx-jax-compat: effx.compat works beside an installed jax without it"
        )
