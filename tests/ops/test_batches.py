"""Batching is a loop over the batch elements, for every row of the table and every choice of batched operands.

Never: tries all indices of batch axes; tests/handlers does.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from effx.families.bit_generators import RngBitGenerator
from effx.handlers.vmap import evaluate_batch
from effx.ir.ops.collective import Collective
from tests.ops.rows import assert_close, host, on_device
from tests.ops.table import ROWS, Case, leave_repeats_to_deep_runs

ELEMENTS = 2


def chosen_samples() -> list[Case]:
    """The first sample of each row, and the first of another rank or with operands of different rank."""
    found: list[Case] = []
    for row in ROWS:
        # A batch of bit generators draws by the first one.
        if issubclass(row.kind, Collective) or row.kind is RngBitGenerator:
            continue
        seen: set[tuple[int, ...]] = set()
        for sample in row.samples:
            key = tuple([x.ndim for x in sample.types])
            if sample.types and key not in seen and len(seen) < 5:
                seen.add(key)
                found.append((row, sample))
    return found


@pytest.mark.parametrize("case", leave_repeats_to_deep_runs(chosen_samples()))
def test_batch_is_a_loop(case: Case) -> None:
    """With batch axes in front and at the end alternately."""
    row, sample = case
    with sample.settings():
        draws = [sample.draw(seed) for seed in range(ELEMENTS)]
        for chosen in product([False, True], repeat=len(sample.types)):
            if not any(chosen):
                continue
            axes = [
                None if not b else (0 if i % 2 == 0 else x.ndim)
                for i, (b, x) in enumerate(zip(chosen, sample.types, strict=True))
            ]
            operands = [
                on_device(draws[0][i] if a is None else np.stack([d[i] for d in draws], a), x)
                for i, (a, x) in enumerate(zip(axes, sample.types, strict=True))
            ]
            results, out_axes = evaluate_batch(sample.apply, operands, axes, ELEMENTS)
            for m in range(ELEMENTS):
                element = [
                    on_device(draws[m if b else 0][i], x)
                    for i, (b, x) in enumerate(zip(chosen, sample.types, strict=True))
                ]
                for y, out_axis, want in zip(results, out_axes, sample.apply(element), strict=True):
                    got = host(y) if out_axis is None else np.take(host(y), m, out_axis)
                    assert_close(got, host(want), row.allowed(want.dtype), f"axes {axes}")
