"""orbax-checkpoint: a tree of arrays written and read back."""

import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
from told import tell

tree = {
    "w": jax.random.normal(jax.random.key(0), (3, 2)),
    "step": jnp.array(7),
    "layers": [jnp.arange(3.0), jnp.ones(2)],
}
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder).resolve() / "checkpoint"
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, tree)
        checkpointer.wait_until_finished()
        shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), tree)
        read = checkpointer.restore(path, shapes)
tell(w=read["w"], step=read["step"], first=read["layers"][0])
