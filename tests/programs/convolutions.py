# mypy: disable-error-code="no-any-return,no-untyped-call"
"""Images: smoothing, edges, layouts, strides, dilations, transposed and grouped convolutions, pooling, a small network."""

from __future__ import annotations

import numpy as np

import effx
import effx.numpy as enp
from effx import lax, nn

GENERATOR = np.random.default_rng(3)
IMAGE = GENERATOR.normal(size=(2, 9, 8, 3)).astype(np.float32)  # NHWC
KERNEL = GENERATOR.normal(size=(3, 3, 3, 4)).astype(np.float32)  # HWIO
SIGNAL = GENERATOR.normal(size=16).astype(np.float32)
LAYOUT = ("NHWC", "HWIO", "NHWC")


def gaussian(size: int, width: float) -> effx.Array:
    """A bell in two dimensions with the sum 1."""
    x = enp.linspace(-3.0, 3.0, size)
    bell = enp.exp(-0.5 * (x[:, None] ** 2 + x[None, :] ** 2) / width**2)
    return bell / bell.sum()


def pooled(x: effx.Array) -> effx.Array:
    return lax.reduce_window(x, -enp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def network(kernels: list[effx.Array], x: effx.Array) -> effx.Array:
    for k in kernels:
        x = pooled(nn.relu(lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=LAYOUT)))
    return enp.mean(x, axis=(1, 2))


def results() -> dict[str, object]:
    x, k, s = enp.asarray(IMAGE), enp.asarray(KERNEL), enp.asarray(SIGNAL)
    found: dict[str, object] = {}
    found["smooth"] = enp.convolve(s, enp.ones(3) / 3, mode="same"), enp.convolve(s, s[:4], mode="full")
    found["bell"] = gaussian(5, 1.0)
    first = enp.transpose(x, (0, 3, 1, 2)), enp.transpose(k, (3, 2, 0, 1))
    found["plain"] = lax.conv(*first, (1, 1), "SAME")
    found["strides"] = lax.conv_with_general_padding(*first, (2, 2), ((0, 0), (1, 2)), (1, 1), (1, 1))
    numbers = lax.conv_dimension_numbers(x.shape, k.shape, LAYOUT)
    found["layout"] = lax.conv_general_dilated(x, k, (1, 1), "SAME", (1, 1), (1, 1), numbers)
    found["wide"] = lax.conv_general_dilated(x, k, (1, 2), "VALID", (1, 1), (2, 3), numbers)
    found["transposed"] = lax.conv_general_dilated(x, k, (1, 1), ((1, 2), (0, 1)), (2, 1), (1, 1), numbers)
    found["back"] = lax.conv_transpose(x, k, (2, 2), "SAME", dimension_numbers=LAYOUT)
    found["groups"] = lax.conv_general_dilated(
        x,
        enp.tile(k[:, :, :1], (1, 1, 1, 3)),
        (1, 1),
        "SAME",
        dimension_numbers=LAYOUT,
        feature_group_count=3,
    )
    found["one axis"] = lax.conv_general_dilated(
        s[None, :, None], s[:6].reshape(3, 1, 2), (2,), [(1, 0)], dimension_numbers=("NWC", "WIO", "NWC")
    )
    found["three axes"] = lax.conv_general_dilated(
        x[:, :, :, :, None],
        k[:, :, :2, None, :2],
        (1, 1, 1),
        "VALID",
        dimension_numbers=("NDHWC", "DHWIO", "NDHWC"),
    )
    edges = enp.zeros((3, 3, 3, 3)) + enp.array([[-1.0, -1, 0], [-1, 0, 1], [0, 1, 1]])[:, :, None, None]
    found["edges"] = lax.conv_general_dilated(x, edges, (1, 1), "SAME", dimension_numbers=LAYOUT)
    found["pool"] = pooled(x), lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME") / 9
    found["patches"] = lax.conv_general_dilated_patches(x, (2, 2), (2, 2), "VALID", dimension_numbers=LAYOUT)

    kernels = [k, 0.3 * enp.concatenate([k, k[:, :, :1]], 2)]
    found["network"] = network(kernels, x)
    found["gradient"] = effx.grad(lambda ks: enp.sum(network(ks, x) ** 2))(kernels)
    found["by the image"] = effx.grad(lambda v: enp.sum(enp.sin(network(kernels, v))))(x)
    found["each example"] = effx.vmap(lambda v: network(kernels, v[None])[0])(x)
    found["each kernel"] = effx.vmap(
        lambda a: lax.conv_general_dilated(x, a, (1, 1), "SAME", dimension_numbers=LAYOUT)
    )(enp.stack([k, k**2]))
    return found
