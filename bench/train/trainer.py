"""A network with its data and its optimizer, and how its steps are run."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable
from typing import NamedTuple

import torch

import gradnn.torch
from gradnn.torch import _hot

from .networks import Network

# PyTorch as it is fast, PyTorch as it is deterministic, PyTorch through gradnn.
MODES = ("pytorch", "deterministic", "gradnn")

# How a step is run: op by op, as one CUDA graph that is replayed, or with the
# model compiled.
RUNS = ("eager", "graph", "compiled")

_STEPS_BEFORE_CAPTURE = 3


def modes_of(run: str) -> tuple[str, ...]:
    return MODES if run == "eager" else ("pytorch", "gradnn")


def set_up(device: str) -> None:
    """PyTorch's switches for the whole run; the modes set the rest."""
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    # What deterministic algorithms cost, and not what filling memory costs.
    torch.utils.deterministic.fill_uninitialized_memory = False
    if device == "cuda":
        torch.cuda.init()


def _take_gradnn_away() -> None:
    """Its kernels too, which stay otherwise, and call PyTorch's by Python."""
    gradnn.torch.disable()
    _hot.unregister()


@contextlib.contextmanager
def in_mode(mode: str):
    _take_gradnn_away()
    torch.use_deterministic_algorithms(mode == "deterministic")
    try:
        if mode == "gradnn":
            gradnn.torch.enable()
            if not gradnn.torch.is_enabled():
                raise RuntimeError("gradnn is not enabled: is GRADNN_TORCH=0 set?")
        yield
    finally:
        _take_gradnn_away()
        torch.use_deterministic_algorithms(False)


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _memory_format(layout: str, ndim: int) -> torch.memory_format:
    if layout == "NCX":
        return torch.contiguous_format
    return torch.channels_last if ndim == 4 else torch.channels_last_3d


class _Made(NamedTuple):
    """What a mode has to itself."""

    forward: Callable[[torch.Tensor], torch.Tensor]
    graph: torch.cuda.CUDAGraph | None = None
    gradients: dict[str, torch.Tensor] | None = None  # that the graph writes


class Trainer:
    """A network, its data and its optimizer on a device."""

    def __init__(
        self,
        network: Network,
        size: str,
        dtype: str,
        layout: str,
        device: str,
        run: str = "eager",
    ) -> None:
        model = network.make(size)
        x, target = network.data(size, model)
        data_type = torch.float64 if dtype == "f64" else torch.float32
        memory_format = _memory_format(layout, x.ndim)
        self.model = model.to(device, data_type, memory_format=memory_format)
        self.x = x.to(device, data_type).contiguous(memory_format=memory_format)
        if target.is_floating_point():
            target = target.to(data_type)
        self.target = target.to(device)
        self.network = network
        self.device = device
        self.autocast = dtype == "bf16"
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.initial = copy.deepcopy(self.model.state_dict())
        self.run = run
        self.made: dict[str, _Made] = {}
        self.now = _Made(self.model)
        if run == "compiled":
            torch._dynamo.reset()  # what other networks compiled

    def take(self, mode: str) -> None:
        """The steps that follow are those of this mode, which is set."""
        if mode not in self.made:
            self.now = _Made(self.model)
            self.made[mode] = getattr(self, f"_make_{self.run}")()
        self.now = self.made[mode]

    def _make_eager(self) -> _Made:
        return _Made(self.model)

    def _make_compiled(self) -> _Made:
        inductor = torch._dynamo.lookup_backend("inductor")

        def backend(*args, **named):
            """A function for each mode: Dynamo shares code between equal ones."""
            return inductor(*args, **named)

        return _Made(torch.compile(self.model, backend=backend, dynamic=False))

    def _make_graph(self) -> _Made:
        if self.device != "cuda":
            raise RuntimeError("CUDA graphs need a GPU")
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(_STEPS_BEFORE_CAPTURE):
                self.step()
        torch.cuda.current_stream().wait_stream(aside)
        # Gradients that the capture makes have their place in the graph.
        self.optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        return _Made(self.model, graph, self._gradients())

    def restore(self) -> None:
        """The weights as they were at first."""
        self.model.load_state_dict(self.initial)

    def backward(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.autocast):
            loss = self.network.loss(self.now.forward(self.x), self.target)
        loss.backward()

    def step(self) -> None:
        if self.now.graph:
            self.now.graph.replay()
            return
        self.backward()
        self.optimizer.step()

    def _gradients(self) -> dict[str, torch.Tensor]:
        return {name: p.grad for name, p in self.model.named_parameters()}

    def gradients(self) -> dict[str, torch.Tensor]:
        """Those of the first step, by parameter, from the input on."""
        self.restore()
        if self.now.graph:
            self.step()
            return {name: grad.clone() for name, grad in self.now.gradients.items()}
        self.backward()
        found = self._gradients()
        self.optimizer.zero_grad(set_to_none=True)
        return found

    def time_steps(self, count: int) -> float:
        """Seconds of a step, the host's included, several steps in a row."""
        self.restore()
        self.step()
        synchronize(self.device)
        start = time.perf_counter()
        for _ in range(count):
            self.step()
        synchronize(self.device)
        return (time.perf_counter() - start) / count
