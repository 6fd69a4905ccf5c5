"""One process of one library: reads titles of rows, and answers with the seconds of a call.

    python -m benchmarks.across_libraries.worker effx

Each line of the input is a title; each line of the output a JSON text, `{"seconds": ...}` or `{"error": "..."}`.
"""

from __future__ import annotations

import os

# Threads of one library must not spin while another's process is timed.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, cast

from benchmarks.across_libraries.rows import Library, Namespaces, Row, all_rows

LEAST = 0.2  # seconds of calls for one answer
WARM_UP = 3


def prepare_call(library: Library, row: Row) -> Callable[[], object]:
    """Returns what makes one call and waits for its result.

    Raises:
        LookupError: the library has no such function.
    """
    arguments = row.arguments()
    if library == "numpy":
        if row.numpy is None:
            raise LookupError("none")
        f = row.numpy()
        return lambda: f(*arguments)
    if library == "torch":
        if row.torch is None:
            raise LookupError("none")
        torch: Any = __import__("torch")
        torch.set_num_threads(os.cpu_count() or 1)
        f = row.torch(torch)
        tensors = [torch.from_numpy(x) for x in arguments]
        return lambda: f(*tensors)
    of = Namespaces(library)
    f = row.xla(of) if row.eager else of.api.jit(row.xla(of))
    arrays = [of.numpy.asarray(x) for x in arguments]
    return lambda: of.api.block_until_ready(f(*arrays))


def time_call(call: Callable[[], object]) -> float:
    """Returns the median of the seconds of several calls."""
    seconds: list[float] = []
    end = time.perf_counter() + LEAST
    while len(seconds) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
        del result
    return statistics.median(seconds)


def time_copy(size: int) -> float:
    """Returns the seconds that reading and writing so many bytes takes, in place and by all processors."""
    import effx
    import effx.numpy as enp

    step = effx.jit(lambda x: x + 1.0, donate_argnums=0)
    x = enp.ones(max(1, size // 8), "float32")

    def call() -> object:
        nonlocal x
        x = step(x).block_until_ready()
        return None

    for _ in range(WARM_UP):
        call()
    return time_call(call)


def main() -> None:
    """Answers until the input ends."""
    library, rows = cast("Library", sys.argv[1]), all_rows()
    title, call = "", None
    for line in sys.stdin:
        request = line.rstrip("\n")
        try:
            if request.startswith("copy "):
                answer: dict[str, object] = {"seconds": time_copy(int(request.removeprefix("copy ")))}
            else:
                if request != title or call is None:
                    title, call = request, prepare_call(library, rows[request])
                    for _ in range(WARM_UP):
                        call()
                answer = {"seconds": time_call(call)}
        except Exception as error:  # noqa: BLE001  whatever it is, it is this row's result
            answer = {"error": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
