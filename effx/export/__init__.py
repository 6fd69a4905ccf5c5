"""Functions as artifacts: StableHLO modules that outlive the process, run on several platforms, and on arrays of all sizes.

    exported = effx.export.export(effx.jit(f), platforms=["cpu", "cuda"])(*specs)
    data = exported.serialize(vjp_order=1)
    effx.export.deserialize(data).call(*arguments)

The files are those of `jax.export`: each system runs what the other has written.
"""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
