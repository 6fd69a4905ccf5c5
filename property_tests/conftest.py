"""What every test shares: quiet start-up, devices, and the hypothesis profile.

Never: imports effx at the top, so that collection shows import errors as test failures.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
# Two workers share the cores; more threads each would only have them wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
# Parallel maps need devices; a CPU passes for eight.
os.environ.setdefault("EFFX_NUM_CPU_DEVICES", "8")

from tests import profiles

profiles.load()
