"""What gradnn.torch.status() counts, for tests."""

import gradnn.torch


def ran(op, way="gradnn"):
    """How often gradnn, or "pytorch", computed an op."""
    return sum(
        entry["calls"]
        for entry in gradnn.torch.status()
        if entry["op"] == op and entry["ran"] == way
    )
