"""Records what JAX itself gives for the jobs: `python compat/jobs/record.py [job …]`.

It runs in an environment of its own, with JAX and the libraries.
"""

import json
import sys
from importlib.metadata import version

from jobs import JOBS, RECORDED, run, said


def main(jobs: list[str]) -> int:
    """Runs the jobs, by default all, and writes down their numbers with the version of JAX."""
    recorded = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}
    failed = 0
    for job in jobs or JOBS:
        done = run(job)
        print(f"{job:12} {'recorded' if done.returncode == 0 else done.stderr[-1500:]}")
        failed += done.returncode != 0
        if done.returncode == 0:
            recorded[job] = {"jax": version("jax"), "numbers": said(done.stdout)}
    text = json.dumps(recorded, indent=1, sort_keys=True).replace("\n    ", " ").replace("\n   ]", "]")
    RECORDED.write_text(text + "\n", encoding="utf-8")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
