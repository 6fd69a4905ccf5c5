"""Arrays that only the garbage collector frees are reported, by array_garbage_collection_guard."""

from __future__ import annotations

import subprocess
import sys

import pytest

START = """
import gc, threading
import effx, effx.numpy as enp

class Holder:
    pass

def forgotten():
    holder = Holder()
    holder.itself, holder.array = holder, enp.arange(3.0) + 1

def collected():
    forgotten()
    gc.collect()

collected()
"""
SAID = "was deleted by the Python garbage collector"


def run(code: str, *, status: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-c", START + code], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == status, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("collected()", 0),
        ("with effx.array_garbage_collection_guard('log'): collected()\ncollected()", 1),
        ("effx.config.update('array_garbage_collection_guard', 'log'); collected(); collected()", 2),
        (
            """
effx.config.update('array_garbage_collection_guard', 'log')
with effx.array_garbage_collection_guard('allow'): collected()
""",
            0,
        ),
        (
            """
with effx.array_garbage_collection_guard('log'):
    t = threading.Thread(target=collected); t.start(); t.join()
""",
            0,
        ),
        ("with effx.array_garbage_collection_guard('log'):\n    x = enp.ones(3) + 1\n    del x", 0),
    ],
    ids=["allow", "context", "for all", "allowed again", "another thread", "no cycle"],
)
def test_what_is_logged(code: str, count: int) -> None:
    """Once for each array in a cycle, while the level is set."""
    assert run(code).count(SAID) == count


def test_it_may_end_the_process() -> None:
    """By SIGABRT, after saying where the collection was."""
    assert "Garbage-collecting" in run(
        "with effx.array_garbage_collection_guard('fatal'): collected()", status=-6
    )


def test_the_environment_sets_it() -> None:
    code = "import os, sys; os.environ['EFFX_ARRAY_GARBAGE_COLLECTION_GUARD'] = 'log'\n" + START
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stderr.count(SAID) == 1
