"""Hypothesis profiles, shared by the example tests and the property tests.

Never: holds strategies; those live beside the tests that use them.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings


def load() -> None:
    """Register the profiles and load the one that `HYPOTHESIS_PROFILE` names."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    settings.register_profile("dev", max_examples=25, deadline=None, suppress_health_check=slow)
    settings.register_profile(
        "ci", max_examples=50, deadline=None, derandomize=True, print_blob=True, suppress_health_check=slow
    )
    settings.register_profile("deep", max_examples=2_000, deadline=None, suppress_health_check=slow)
    default = "ci" if os.environ.get("CI") else "dev"
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", default))
