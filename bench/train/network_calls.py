"""Host time of a network's convolution_backward calls: each repeated on tensors
like its own, in PyTorch and in gradnn."""

from __future__ import annotations

import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .networks import Network
from .steps import CONVOLUTION
from .trainer import Trainer, in_mode, synchronize

_MODES = ("pytorch", "gradnn")
_WARM_UP = 3
_CALLS = 5  # few enough for the queue of a GPU not to fill
_ROUNDS = 6


class _Recorder(TorchDispatchMode):
    """Counts the calls of a step by their arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}
        self.calls: dict[str, tuple] = {}

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        if op.name() == f"aten::{CONVOLUTION}":
            key = str([_described(each) for each in args])
            self.counts[key] = self.counts.get(key, 0) + 1
            if key not in self.calls:
                self.calls[key] = (op, [_alike(each) for each in args])
        return op(*args, **(kwargs or {}))


def _described(value):
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.stride(), value.dtype
    return value


def _alike(value):
    if isinstance(value, torch.Tensor):
        return torch.randn_like(value)
    return value


def _time(op, arguments, device: str) -> tuple[float, float]:
    """Microseconds of a call: on the host, the least of some rounds; and with the
    device's work, of many in a row."""
    for _ in range(_WARM_UP):
        op(*arguments)
    synchronize(device)
    host = float("inf")
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        for _ in range(_CALLS):
            op(*arguments)
        host = min(host, (time.perf_counter() - start) / _CALLS)
        synchronize(device)
    count = _CALLS * _ROUNDS
    start = time.perf_counter()
    for _ in range(count):
        op(*arguments)
    synchronize(device)
    return host * 1e6, (time.perf_counter() - start) / count * 1e6


def measure(
    network: Network, size: str, dtype: str, layout: str, device: str
) -> dict[str, object]:
    """Milliseconds of all calls of a step together, host and whole."""
    trainer = Trainer(network, size, dtype, layout, device)
    with in_mode("pytorch"):
        trainer.step()
        with _Recorder() as recorder:
            trainer.step()
    del trainer
    row: dict[str, object] = {
        "network": network.title,
        "dtype": dtype,
        "layout": layout,
        "calls": sum(recorder.counts.values()),
    }
    for mode in _MODES:
        host, whole = 0.0, 0.0
        with in_mode(mode):
            for key, (op, arguments) in recorder.calls.items():
                times = _time(op, arguments, device)
                host += recorder.counts[key] * times[0]
                whole += recorder.counts[key] * times[1]
        row[f"{mode}_host_ms"] = host / 1e3
        row[f"{mode}_ms"] = whole / 1e3
    return row
