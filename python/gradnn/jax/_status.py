"""What gradnn computes, and why JAX does where it does."""

from __future__ import annotations

import collections
import threading

_lock = threading.Lock()
_counts: collections.Counter[tuple[str, str, str, str]] = collections.Counter()


def count(op: str, device: str, ran: str, how: str) -> None:
    with _lock:
        _counts[op, device, ran, how] += 1


def status() -> list[dict[str, object]]:
    """One entry for each op, device and way to compute it:

    - `op`: "resize" and "conv_general_dilated", counted when they are called,
      which under `jax.jit` is when a function is traced; "resize_backward",
      "conv_backward_data" and "conv_backward_weights", counted when a gradient
      is compiled, whatever number of times it runs then;
    - `device`: "cpu", "cuda", another platform of JAX, or "any" for a call;
    - `ran`: "gradnn", or "jax" where the gradient is JAX's own;
    - `how`: gradnn's kernels, or why it is JAX's;
    - `calls`: how often, since the import or reset_status().
    """
    with _lock:
        return [
            dict(op=op, device=device, ran=ran, how=how, calls=calls)
            for (op, device, ran, how), calls in sorted(_counts.items())
        ]


def reset_status() -> None:
    """Forgets all counts."""
    with _lock:
        _counts.clear()
