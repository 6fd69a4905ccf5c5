"""distrax: a flow of masked couplings, its log density, samples and their gradients."""

import distrax
import jax
import jax.numpy as jnp
from told import tell

normal = distrax.MultivariateNormalDiag(jnp.zeros(2), jnp.ones(2))
mask = jnp.array([True, False])


def flow(scale):
    coupling = distrax.MaskedCoupling(
        mask=mask,
        bijector=lambda p: distrax.ScalarAffine(shift=p[..., 0:1], log_scale=p[..., 1:2]),
        conditioner=lambda x: jnp.tanh(x * scale),
    )
    return distrax.Transformed(normal, distrax.Chain([distrax.Block(distrax.Tanh(), 1), coupling]))


x = jnp.array([[0.1, -0.2], [0.5, 0.3]])
tell(log_prob=flow(0.7).log_prob(x))
tell(sample=flow(0.7).sample(seed=jax.random.key(0), sample_shape=(3,)))
tell(grad=jax.grad(lambda scale: flow(scale).log_prob(x).sum())(0.7))
mixture = distrax.MixtureSameFamily(
    distrax.Categorical(logits=jnp.array([0.1, 0.9])),
    distrax.Normal(jnp.array([-1.0, 1.0]), jnp.array([0.5, 1.0])),
)
tell(mixture=mixture.log_prob(jnp.linspace(-2.0, 2.0, 5)), kl=normal.kl_divergence(normal))
