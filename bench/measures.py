"""Figures of rows that bench/compare and bench/sweep have measured, and how they are
written. report.py says what a row is.
"""

import math

import targets

PEERS = ("pytorch", "pytorch_deterministic")
PEER_NAMES = {"pytorch": "PyTorch", "pytorch_deterministic": "deterministic PyTorch"}


def faster(row, peer="pytorch"):
    """Times faster than `peer` (of PEERS); None where one of them has no time."""
    theirs = row.get(peer, {}).get("ms")
    ours = row["gradnn"].get("time_ms")
    return theirs / ours if theirs and ours else None


def share(row):
    return row["gradnn"].get("limit_share")


def is_small(row):
    """Whether launches, and not memory, bound the problem."""
    return row["bytes"] < targets.INTERPOLATION_BYTES


def launches(row, results):
    """Time in units of an empty launch and the bytes at the copy rate."""
    empty = results.get("empty_launch")
    ours = row["gradnn"].get("time_ms")
    if not empty or not ours:
        return None
    copied = row["bytes"] / results["copy_gb_per_s"] / 1e6
    return ours / (empty["device_ms"] + copied)


def geometric_mean(values):
    values = [value for value in values if value]
    if not values:
        return None
    return math.exp(sum(math.log(value) for value in values) / len(values))


def columns_of(results):
    """The (dtype, layout) pairs that were measured, in order."""
    return list(dict.fromkeys((row["dtype"], row["layout"]) for row in results["rows"]))


def rows_of(results, dtype, layouts):
    return [
        row
        for row in results["rows"]
        if row["dtype"] == dtype and row["layout"] in layouts
    ]


def percent(value):
    return "-" if value is None else f"{100 * value:.0f} %"


def times(value):
    if value is None:
        return "-"
    return f"{value:.1f}x" if value >= 10 else f"{value:.2f}x"


def milliseconds(value):
    return f"{value:.3f} ms" if value < 10 else f"{value:.1f} ms"


def machine_line(results):
    machine = results["machine"]
    parts = [f"{machine.get('cpu', '?')}, {machine.get('threads', '?')} threads"]
    parts += [gpu["name"] for gpu in machine.get("gpus", [])]
    for name, key in (("CUDA", "cuda_runtime"), ("cuDNN", "cudnn")):
        if results["engine"] == "gpu" and machine.get(key):
            parts.append(f"{name} {machine[key]}")
    if machine.get("onednn"):
        parts.append(f"oneDNN {machine['onednn']}")
    peer = results["pytorch"]
    if "pytorch" in peer:
        cudnn = f" (cuDNN {peer['cudnn']})" if peer.get("cudnn") else ""
        parts.append(f"PyTorch {peer['pytorch']}{cudnn}")
    return "; ".join(parts)
