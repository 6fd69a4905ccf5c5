"""Runs on a CPU what is lowered for another platform, where XLA:CPU takes that text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxlib import _jax

import effx
import effx.numpy as enp
from effx.lower.compile_options import compile_options
from effx.lower.text.hlo import mlir_module

Data = np.ndarray[Any, Any]


def run_form_of(platform: str, fun: Callable[..., Any], *operands: Data) -> list[Data]:
    """Lowers a function for a platform, runs the text on a CPU, and returns the results' leaves."""
    return run_text(text_of_form(platform, fun, *operands), *operands)


def text_of_form(platform: str, fun: Callable[..., Any], *operands: Data) -> str:
    """Lowers a function for a platform."""
    text = effx.jit(fun).trace(*operands).lower(lowering_platforms=(platform,)).as_text()
    assert "lapack" not in text
    return text


def run_text(text: str, *operands: Data) -> list[Data]:
    """Runs a module's text on a CPU, and returns its results."""
    device = effx.devices("cpu")[0]
    executable = device.client.compile_and_load(
        mlir_module(text), _jax.DeviceList((device,)), compile_options((device,), ()), []
    )
    arrays: list[Any] = [effx.device_put(enp.asarray(x), device) for x in operands]
    buffers = [x.buffer for x in arrays]
    results = executable.execute_sharded(buffers).disassemble_into_single_device_arrays()
    return [np.asarray(x) for (x,) in results]
