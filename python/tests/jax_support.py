"""What the tests of gradnn.jax share. Skips them where JAX is not, or where
gradnn was built without its headers."""

import os
import pathlib

import numpy as np
import pytest

jax = pytest.importorskip("jax", minversion="0.6")

from gradnn._library import library  # noqa: E402

if not pathlib.Path(library.path).with_name("libgradnn_jax.so").exists():
    pytest.skip("gradnn was built without jaxlib", allow_module_level=True)

# Before JAX starts. Two devices, for what runs on several; the memory of a GPU is
# not JAX's alone.
jax.config.update("jax_num_cpu_devices", 2)
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# Most of the time is XLA's compiler's, on code that runs once.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
)
# No TF32 on GPUs.
jax.config.update("jax_default_matmul_precision", "highest")

import gradnn.jax  # noqa: E402

# How far a gradient may be from the float64 one, relative to its largest element.
TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}


def ways(op: str) -> dict[str, set[str]]:
    """Who computed an op since reset_status(), and how."""
    found: dict[str, set[str]] = {}
    for entry in gradnn.jax.status():
        if entry["op"] == op:
            found.setdefault(entry["ran"], set()).add(entry["how"])
    return found


def random(seed: int, shape, dtype="float32"):
    values = np.random.default_rng(seed).standard_normal(shape)
    return jax.numpy.asarray(values, dtype)


def assert_close(found, expected, tolerance: float) -> None:
    """Compares trees of arrays."""
    found, expected = jax.tree.leaves(found), jax.tree.leaves(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        assert one.shape == other.shape
        one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
        largest = np.max(np.abs(other), initial=0.0)
        assert np.max(np.abs(one - other), initial=0.0) <= tolerance * largest
