"""orbax-checkpoint: trees written and read back, at once and in steps, in part, and laid out otherwise."""

import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from told import tell

tree = {
    "w": jax.random.normal(jax.random.key(0), (3, 2)),
    "step": jnp.array(7),
    "layers": [jnp.arange(3.0), jnp.ones(2)],
    "half": jnp.arange(4, dtype=jnp.bfloat16),
    "name": np.arange(2),
    "rate": 0.5,
    "keys": jax.random.split(jax.random.key(1), 3),
}
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder).resolve() / "checkpoint"
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, tree)
        checkpointer.wait_until_finished()
        shapes = jax.tree.map(ocp.utils.to_shape_dtype_struct, tree)
        read = checkpointer.restore(path, shapes)
        whole = checkpointer.restore(path)
        known = checkpointer.metadata(path).item_metadata
tell(w=read["w"], step=read["step"], first=read["layers"][0], half=read["half"].astype(jnp.float32))
tell(draws=jax.vmap(jax.random.normal)(read["keys"]))
tell(name=read["name"], rate=read["rate"], kinds=[isinstance(x, jax.Array) for x in jax.tree.leaves(read)])
tell(whole=whole["w"], shape=known["w"].shape, leaves=len(jax.tree.leaves(whole)))

# Training: the newest steps are kept, and training goes on from one.
params = {"w": jnp.ones((4, 2)), "b": jnp.zeros(2)}
optimizer = optax.adamw(1e-1)


@jax.jit
def step(params, state, key):
    x = jax.random.normal(key, (8, 4))
    grads = jax.grad(lambda p: jnp.mean((x @ p["w"] + p["b"] - jnp.sin(x[:, :2])) ** 2))(params)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state


with tempfile.TemporaryDirectory() as folder:
    options = ocp.CheckpointManagerOptions(max_to_keep=2, save_interval_steps=2)
    with ocp.CheckpointManager(Path(folder).resolve(), options=options) as manager:
        state = optimizer.init(params)
        for i in range(8):
            params, state = step(params, state, jax.random.key(i))
            saved = {"params": params, "state": state, "key": jax.random.key_data(jax.random.key(i))}
            manager.save(
                i,
                args=ocp.args.Composite(train=ocp.args.StandardSave(saved), note=ocp.args.JsonSave({"i": i})),
            )
        manager.wait_until_finished()
        shapes = jax.tree.map(ocp.utils.to_shape_dtype_struct, saved)
        newest = manager.latest_step()
        found = manager.restore(
            newest,
            args=ocp.args.Composite(train=ocp.args.StandardRestore(shapes), note=ocp.args.JsonRestore()),
        )
        tell(steps=list(manager.all_steps()), newest=newest, note=found.note["i"])
train = found.train
again, _ = step(train["params"], train["state"], jax.random.key(7))
tell(
    params=train["params"]["w"],
    moments=train["state"][0].mu["w"],
    count=train["state"][0].count,
    key=train["key"],
)
tell(trained=params["b"], again=again["b"])

# One leaf of several, onto a mesh, in another dtype.
mesh = Mesh(np.array(jax.devices()[:1]), ("data",))
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder).resolve() / "part"
    checkpointer = ocp.PyTreeCheckpointer()
    checkpointer.save(path, {"a": jnp.arange(6.0).reshape(3, 2), "b": jnp.ones(3)})
    lies = NamedSharding(mesh, P("data"))
    args = ocp.args.PyTreeRestore(
        item={"a": 0},
        restore_args={"a": ocp.ArrayRestoreArgs(sharding=lies, dtype=jnp.bfloat16)},
        partial_restore=True,
    )
    part = checkpointer.restore(path, args=args)
tell(
    part=part["a"].astype(jnp.float32),
    parts=len(part),
    half=part["a"].dtype == jnp.bfloat16,
    lies=part["a"].sharding == lies,
)
