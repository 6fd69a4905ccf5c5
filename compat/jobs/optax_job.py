"""Each optimizer of optax on the same small least-squares problem: the loss after 20 steps."""

import inspect

import jax
import jax.numpy as jnp
import optax
from told import tell

A = jax.random.normal(jax.random.key(0), (12, 6))
B = A @ jnp.arange(6.0) + 0.1
START = {"w": jnp.full((6,), 0.3), "m": jnp.ones((4, 6)) * 0.2}

# What an optimizer needs beside a learning rate.
GIVEN = {
    "adadelta": {"learning_rate": 1.0},
    "fromage": {"learning_rate": 0.01},
    "noisy_sgd": {"learning_rate": 0.01, "key": 0},
    "polyak_sgd": {"scaling": 0.1},  # by the whole rule it jumps about, and roundings decide where it ends
    "lbfgs": {},
}
OTHERS = [
    "adabelief",
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamaxw",
    "adamw",
    "adan",
    "amsgrad",
    "fromage",
    "lamb",
    "lars",
    "lbfgs",
    "lion",
    "muon",
    "nadam",
    "nadamw",
    "noisy_sgd",
    "novograd",
    "optimistic_adam_v2",
    "optimistic_gradient_descent",
    "polyak_sgd",
    "radam",
    "rmsprop",
    "rprop",
    "sgd",
    "sign_sgd",
    "sm3",
    "yogi",
]


def loss(params):
    return jnp.mean((A @ params["w"] - B) ** 2) + jnp.mean((params["m"] @ A.T) ** 2)


def run(optimizer):
    @jax.jit
    def step(params, state):
        value, grads = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(grads, state, params, value=value, grad=grads, value_fn=loss)
        return optax.apply_updates(params, updates), state

    params, state = START, optimizer.init(START)
    optimizer = optax.with_extra_args_support(optimizer)
    for _ in range(20):
        params, state = step(params, state)
    return loss(params)


for name in OTHERS:
    make = getattr(optax, name, None)
    if make is None:
        make = getattr(optax.contrib, name)
    given = GIVEN.get(name, {"learning_rate": 0.02})
    takes = inspect.signature(make).parameters
    tell(**{name: run(make(**{key: value for key, value in given.items() if key in takes}))})

schedule = optax.warmup_cosine_decay_schedule(0.0, 0.1, 5, 20)
chain = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.scale_by_adam(),
    optax.scale_by_schedule(schedule),
    optax.scale(-1.0),
)
tell(schedule=[schedule(i) for i in range(20)], chain=run(chain))
tell(multi_steps=run(optax.MultiSteps(optax.adam(0.02), 2).gradient_transformation()))
logits = jax.random.normal(jax.random.key(1), (5, 4))
labels = jnp.array([0, 1, 2, 3, 1])
tell(
    softmax=optax.softmax_cross_entropy_with_integer_labels(logits, labels),
    huber=optax.huber_loss(logits[:, 0], logits[:, 1]),
    ctc=optax.ctc_loss(logits[None], jnp.zeros((1, 5)), labels[None, :2] + 1, jnp.zeros((1, 2))),
    norm=optax.global_norm(START),
)
