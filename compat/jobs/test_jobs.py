"""JAX's libraries on effx: each job's numbers are those that JAX itself gave (`record.py`).

Each runs in a process of its own, of an environment where no jax is installed: `make test-compat`.
"""

import importlib.util
import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # as it is where a job runs

from jobs import JOBS, RECORDED, run, said

RTOL, ATOL = 2e-4, 2e-5
# A chain amplifies the last bit of a density: after many steps only its statistics are the same.
STATISTICS = 0.25
NEWEST_FLAX = (0, 12, 12)


def test_no_jax_is_installed() -> None:
    """And what the libraries require is met."""
    spec = importlib.util.find_spec("jax")
    assert spec is None or spec.submodule_search_locations is None
    assert version("jax") == version("effx-jax-compat")
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("job", JOBS)
def test_job(job: str) -> None:
    if job == "flax_nnx" and tuple(map(int, version("flax").split(".")[:3])) < NEWEST_FLAX:
        pytest.skip("flax's versions for Python 3.11 ask for hijax's former classes as they are imported")
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))[job]["numbers"]
    done = run(job, "-m", "effx.compat")
    assert done.returncode == 0, done.stderr[-3000:]
    found = said(done.stdout)
    assert found.keys() == recorded.keys()
    for name, numbers in recorded.items():
        expected, got = np.asarray(numbers), np.asarray(found[name])
        if name.startswith("statistics_"):
            np.testing.assert_allclose(got, expected, rtol=STATISTICS, atol=STATISTICS, err_msg=name)
        else:
            np.testing.assert_allclose(got, expected, rtol=RTOL, atol=ATOL, err_msg=name)
