"""What is compiled for: an H100 and four chips of a TPU v5e, neither of which need be present."""

from __future__ import annotations

import importlib
import os
from typing import Any

__all__ = ["TARGETS", "describe_devices", "prepare_environment"]

# From NVIDIA's data sheet of the H100 SXM and the tables of compute capability 9.0 in the CUDA C++ programming guide.
H100 = """
gpu_device_info {
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472
  threads_per_core_limit: 2048
  core_count: 132
  fpus_per_core: 128
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000
  l2_cache_size: 52428800
  clock_rate_ghz: 1.98
  device_memory_size: 84978434048
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  cuda_compute_capability { major: 9 }
}
platform_name: "CUDA"
dnn_version_info { major: 9 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""

# For each platform the topology's name and the plugin's options, of one device and of several.
_CUDA = {"target_config": H100}
TARGETS: dict[str, tuple[tuple[str, dict[str, str]], tuple[str, dict[str, str]]]] = {
    "cuda": (("", {"topology": "1x1x1", **_CUDA}), ("", {"topology": "1x1x4", **_CUDA})),
    "tpu": (("v5e:2x2", {}), ("v5e:2x2", {})),
}


def prepare_environment() -> None:
    """Sets what effx, JAX and the plugins read when they are imported, for processes that compile only."""
    os.environ.setdefault(
        "EFFX_PLATFORMS", "cpu"
    )  # devices that are described need no client of their platform
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    # JAX's plugin looks for CUDA's libraries, which compiling does without.
    os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")


def describe_devices(library: str, platform: str) -> tuple[list[Any], list[Any]]:
    """Returns the devices of a platform as a library describes them: of a small topology, and of one with several."""
    topologies = importlib.import_module(f"{library}.experimental.topologies")
    small, large = [
        list(topologies.get_topology_desc(name, platform, **options).devices)
        for name, options in TARGETS[platform]
    ]
    return small, large
