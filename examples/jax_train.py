"""Trains a convolution behind an upsample in JAX; the gradients of both come from
gradnn. On the CPU, or on a GPU where JAX has one.

    pip install .  &&  pip install jax
    python3 examples/jax_train.py
"""

import jax
import jax.numpy as jnp
import numpy as np

import gradnn.jax


def network(weights, image):
    """A 2x bilinear upsample, then a 3x3 convolution."""
    n, h, w, c = image.shape
    large = gradnn.jax.resize(image, (n, 2 * h, 2 * w, c), "bilinear", antialias=False)
    return gradnn.jax.conv_general_dilated(
        large, weights, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def loss(weights, image, wanted):
    return jnp.mean((network(weights, image) - wanted) ** 2)


@jax.jit
def step(weights, image, wanted):
    value, gradient = jax.value_and_grad(loss)(weights, image, wanted)
    return weights - 0.2 * gradient, value


def main() -> int:
    random = np.random.default_rng(0)
    hidden = jnp.asarray(random.standard_normal((3, 3, 4, 2)), jnp.float32)
    weights = jnp.zeros_like(hidden)
    losses = []
    for index in range(60):
        image = jnp.asarray(random.standard_normal((8, 16, 16, 4)), jnp.float32)
        weights, value = step(weights, image, network(hidden, image))
        losses.append(float(value))
        if index % 20 == 19:
            print(f"step {index + 1}: loss {losses[-1]:.4f}")
    # The gradient of the image takes the upsample's.
    toward_image = jax.grad(loss, argnums=1)(weights, image, network(hidden, image))
    assert np.all(np.isfinite(toward_image))

    entries = gradnn.jax.status()
    for entry in entries:
        print(entry)
    ours = {entry["op"] for entry in entries if entry["ran"] == "gradnn"}
    learnt = losses[-1] < 0.1 * losses[0]
    return 0 if learnt and any("backward" in name for name in ours) else 1


if __name__ == "__main__":
    raise SystemExit(main())
