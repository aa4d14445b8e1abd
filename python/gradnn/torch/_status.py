"""What ran where, and why PyTorch's own kernel ran when it did."""

from __future__ import annotations

import collections
import threading

_lock = threading.Lock()
_native: collections.Counter[tuple[str, str, str]] = collections.Counter()
_retired: collections.Counter[tuple[str, str, str]] = collections.Counter()
_plans: list = []  # that may still count; see _plans.Plan
_library_counts: list[tuple] = []  # what the library's kernels counted; see _hot


def count_native(op: str, device: str, reason: str) -> None:
    """PyTorch's kernel runs, for this reason."""
    with _lock:
        _native[op, device, reason] += 1


def watch(plan) -> None:
    """From now on the plan's calls are part of the status."""
    with _lock:
        _plans.append(plan)


def retire(plan) -> None:
    """Keeps the calls of a plan that goes."""
    with _lock:
        _plans.remove(plan)
        _retired[plan.op, plan.device, plan.kernels] += plan.calls


def watch_library(counts, reset) -> None:
    """From now on what these count is part of the status; see _hot."""
    _library_counts.append((counts, reset))


def status() -> list[dict[str, object]]:
    """One entry for each op, device and way to compute it:

    - `op`: the ATen op, "upsample_bilinear2d_backward";
    - `device`: "cpu" or "cuda";
    - `ran`: "gradnn", or "pytorch" where its own kernel did;
    - `how`: gradnn's kernels, or why it was PyTorch's;
    - `calls`: how often, since the import or reset_status().
    """
    with _lock:
        by_gradnn = collections.Counter(_retired)
        for plan in _plans:
            by_gradnn[plan.op, plan.device, plan.kernels] += plan.calls
        for counts, _ in _library_counts:
            for key, calls in counts():
                by_gradnn[key] += calls
        native = dict(_native)
    return [
        dict(op=op, device=device, ran=ran, how=how, calls=calls)
        for ran, counter in (("gradnn", by_gradnn), ("pytorch", native))
        for (op, device, how), calls in sorted(counter.items())
        if calls
    ]


def reset_status() -> None:
    """Forgets all counts."""
    with _lock:
        _retired.clear()
        _native.clear()
        for plan in _plans:
            plan.calls = 0
        for _, reset in _library_counts:
            reset()
