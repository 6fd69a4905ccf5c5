"""JAX's settings on the command line, by absl, which libraries of JAX bring."""

import subprocess
import sys

import pytest

AT_ONCE = """
import effx.compat.jax, jax, jax.numpy as jnp
jax.config.parse_flags_with_absl()
print(jnp.arange(2.0).dtype, jax.config.jax_platform_name, jax.config.jax_numpy_rank_promotion)
"""
BY_APP = """
import effx.compat.jax, jax, jax.numpy as jnp
from absl import app
jax.config.config_with_absl()
app.run(lambda argv: print(jnp.arange(2.0).dtype, jax.config.jax_platform_name, jax.config.jax_numpy_rank_promotion))
"""
GIVEN = ("--jax_enable_x64", "--jax_platform_name=cpu", "--jax_numpy_rank_promotion=raise")


def run(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("code", [AT_ONCE, BY_APP], ids=["at once", "by absl.app"])
def test_settings_are_followed(code: str) -> None:
    """Those that are given, and no others."""
    assert run(code, *GIVEN).stdout == "float64 cpu raise\n"
    assert run(code).stdout == "float32  allow\n"


def test_flags_of_others() -> None:
    """They are left alone at once, and refused by `absl.app`."""
    assert run(AT_ONCE, "--nojax_enable_x64", "--other=1").stdout == "float32  allow\n"
    assert "Unknown command line flag 'other'" in run(BY_APP, "--other=1").stderr


def test_wrong_values() -> None:
    assert (
        "numpy_rank_promotion: got 'loud', expected one of"
        in run(AT_ONCE, "--jax_numpy_rank_promotion=loud").stderr
    )
    assert (
        "jax_high_dynamic_range_gumbel is False on effx, got True"
        in run(AT_ONCE, "--jax_high_dynamic_range_gumbel").stderr
    )
    assert (
        "--jax_num_cpu_devices: got 'two', expected an int"
        in run(AT_ONCE, "--jax_num_cpu_devices=two").stderr
    )
