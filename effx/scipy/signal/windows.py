"""Window functions by their names.

Source: Harris, "On the use of windows for harmonic analysis with the discrete Fourier transform", 1978; Nuttall, "Some
windows with very good sidelobe behavior", 1981.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from effx.array import Operand
from effx.errors import OptionError, ShapeError, name_user_call

Window = str | tuple[str | float | None, ...] | Operand
Numbers = np.ndarray


def _cosines(*weights: float) -> Callable[[Numbers], Numbers]:
    def values(t: Numbers) -> Numbers:
        result: Numbers = sum(
            [(-1) ** k * w * np.cos(2 * math.pi * k * t) for k, w in enumerate(weights)], np.zeros_like(t)
        )
        return result

    return values


def _bohman(t: Numbers) -> Numbers:
    x = abs(2 * t - 1)
    result: Numbers = (1 - x) * np.cos(math.pi * x) + np.sin(math.pi * x) / math.pi
    result[x >= 1] = 0
    return result


# Functions on [0, 1].
PLAIN: dict[str, Callable[[Numbers], Numbers]] = {
    "hann": _cosines(0.5, 0.5),
    "hamming": _cosines(0.54, 0.46),
    "blackman": _cosines(0.42, 0.5, 0.08),
    "blackmanharris": _cosines(0.35875, 0.48829, 0.14128, 0.01168),
    "nuttall": _cosines(0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "flattop": _cosines(0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
    "boxcar": np.ones_like,
    "bartlett": lambda t: 1 - abs(2 * t - 1),
    "barthann": lambda t: 0.62 - 0.48 * abs(t - 0.5) + 0.38 * np.cos(2 * math.pi * (t - 0.5)),
    "bohman": _bohman,
    "lanczos": lambda t: np.sinc(2 * t - 1),
}
OTHER_NAMES = {
    "han": "hann", "hamm": "hamming", "ham": "hamming", "black": "blackman", "blk": "blackman",
    "blackharr": "blackmanharris", "bkh": "blackmanharris", "nut": "nuttall", "flat": "flattop",
    "flt": "flattop", "box": "boxcar", "ones": "boxcar", "rect": "boxcar", "rectangular": "boxcar", "bart": "bartlett",
    "brt": "bartlett", "brthan": "barthann", "bth": "barthann", "bman": "bohman", "bmn": "bohman", "sinc": "lanczos",
    "halfcosine": "cosine", "tuk": "tukey", "triangle": "triang", "tri": "triang", "parz": "parzen", "par": "parzen",
    "poisson": "exponential",
}  # fmt: skip


def _window_of_size(name: str, n: int, parameters: Sequence[float]) -> Numbers | None:
    """Returns the symmetric windows that are not just functions on [0, 1]; None for an unknown name."""
    middle: Numbers = np.arange(n) - (n - 1) / 2
    distance: Numbers = np.abs(middle)
    first = parameters[0] if parameters else 0.0
    match name, len(parameters):
        case "cosine", 0:
            return np.cos(math.pi / n * middle)
        case "triang", 0:
            return 1 - 2 * distance / (n + 1 if n % 2 else n)
        case "parzen", 0:
            x = 2 * distance / n
            return np.where(x <= 0.5, 1 - 6 * x**2 + 6 * x**3, 2 * (1 - x) ** 3)
        case "tukey", 0 | 1:
            share = first if parameters else 0.5
            edge = (0.5 - distance / (n - 1)) / (share / 2) if share > 0 else np.ones(n)
            return np.where(edge < 1, 0.5 - 0.5 * np.cos(math.pi * np.clip(edge, 0, 1)), 1)
        case "kaiser", 1:
            return np.kaiser(n, first)
        case "gaussian", 1:
            return np.exp(-((middle / first) ** 2) / 2)
        case "general_gaussian", 2:
            return np.exp(-0.5 * (distance / abs(parameters[1])) ** (2 * first))
        case "general_hamming", 1:
            return _cosines(first, 1 - first)(np.arange(n) / (n - 1))
        case "exponential", 0 | 1:  # after the name comes None for the middle
            return np.exp(-distance / (first if parameters else 1.0))
        case _:
            return None


def get_periodic_window(window: str | tuple[str | float | None, ...], n: int) -> Numbers:
    """Returns n values of a periodic window: the last one of n + 1 is left out.

    Args:
        window: a name, or a name with parameters.
        n: how many values.

    Raises:
        DTypeError: there is no such window.
    """
    name, *rest = (window,) if isinstance(window, str) else window
    parameters = [float(p) for p in rest if p is not None]
    known = OTHER_NAMES.get(str(name), str(name))
    if n < 1:
        raise ShapeError(f"{name_user_call()}: a window must have elements, got {n}")
    if n == 1:
        return np.ones(1)
    if known in PLAIN and not parameters:
        return PLAIN[known](np.arange(n) / n)
    symmetric = _window_of_size(known, n + 1, parameters)
    if symmetric is None:
        names = ", ".join(
            [*PLAIN, "cosine", "triang", "parzen", "tukey", "kaiser", "gaussian", "general_gaussian"]
        )
        raise OptionError(
            f"{name_user_call()}: window must be one of {names}, general_hamming, exponential or an array, got {window!r}"
        )
    return symmetric[:-1]
