"""One network, type and layout: times, shares, differences and bits of a step."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

import torch

import gradnn.torch

from .networks import Network
from .trainer import MODES, Trainer, in_mode, modes_of, synchronize

CONVOLUTION = "convolution_backward"
_BLOCK_SECONDS = 0.15  # of steps between two switches of the mode
_MIN_ROUNDS = 3
_ROUNDING = 1e-11  # of gradients in float64, by the largest of the network


def is_upsampling(op: str) -> bool:
    return "upsample" in op and op.endswith("_backward")


class Reference(NamedTuple):
    """Gradients in float64 by PyTorch."""

    size: str  # "reduced" where the full one does not fit
    gradients: dict[str, torch.Tensor]


def make_reference(network: Network, size: str, device: str) -> Reference:
    def compute(at: str) -> Reference:
        torch.backends.cudnn.benchmark = False  # for one step it does not pay
        try:
            with in_mode("pytorch"):
                trainer = Trainer(network, at, "f64", "NCX", device)
                return Reference(at, trainer.gradients())
        finally:
            torch.backends.cudnn.benchmark = True

    try:
        return compute(size)
    except torch.OutOfMemoryError:
        if size != "full":
            raise
    gc.collect()
    torch.cuda.empty_cache()
    return compute("reduced")


def difference(found: dict, reference: dict) -> dict[str, object]:
    """`max`: the largest difference of a gradient, in parts of the largest value
    of its parameter, and `at` which parameter; `norm`: of all parameters, the
    norm of the difference in parts of the gradients' norm.

    `max` is without parameters whose gradient is 0 by the formula, such as a
    bias that only a normalisation sees: the reference's is rounding alone."""
    scales = {name: want.abs().max().item() for name, want in reference.items()}
    zero = _ROUNDING * max(scales.values())
    worst, at, error, total = -1.0, "", 0.0, 0.0
    for name, want in reference.items():
        off = found[name].double() - want
        error += off.square().sum().item()
        total += want.square().sum().item()
        if scales[name] <= zero:
            continue
        relative = off.abs().max().item() / scales[name]
        if not relative <= worst:  # a NaN is the worst
            worst, at = relative, name
    return {"max": worst, "at": at, "norm": (error / total) ** 0.5}


def unequal(first: dict, second: dict) -> list[str]:
    """Parameters whose gradients differ in a bit, those nearest to the loss
    first."""
    return [
        name
        for name in reversed(list(first))
        if not torch.equal(first[name], second[name])
    ]


def _outermost(event, wanted) -> bool:
    parent = event.cpu_parent
    while parent is not None:
        if wanted(parent.name):
            return False
        parent = parent.cpu_parent
    return True


def profile(trainer: Trainer) -> dict[str, object]:
    """Milliseconds of a step and of its two kinds of gradients: on a GPU of the
    kernels that the ops launched, on the CPU of the ops."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    on_gpu = trainer.device == "cuda"
    if on_gpu:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    trainer.restore()
    trainer.step()
    synchronize(trainer.device)
    with torch.profiler.profile(activities=activities) as profiler:
        start = time.perf_counter()
        trainer.step()
        synchronize(trainer.device)
        wall = time.perf_counter() - start
    host = torch.autograd.DeviceType.CPU
    events = [
        event
        for event in profiler.events()
        if event.device_type == host
        and not getattr(event, "is_user_annotation", False)
        and not event.name.startswith("Optimizer.")
    ]

    def kernels(event) -> float:
        below = sum(kernels(child) for child in event.cpu_children)
        return sum(kernel.duration for kernel in event.kernels) + below

    def spent(wanted) -> float:
        """Microseconds of the ops, not twice where one calls another."""
        chosen = (e for e in events if wanted(e.name) and _outermost(e, wanted))
        if on_gpu:
            return sum(kernels(event) for event in chosen)
        return sum(event.cpu_time_total for event in chosen)

    total = wall * 1e6
    if on_gpu:
        total = sum(k.duration for event in events for k in event.kernels)
    ops = sorted(
        {
            event.name.removeprefix("aten::")
            for event in events
            if event.name == f"aten::{CONVOLUTION}" or is_upsampling(event.name)
            if event.name.startswith("aten::")
        }
    )
    return {
        "ms": total / 1e3,
        "upsample_ms": spent(is_upsampling) / 1e3,
        "convolution_ms": spent(lambda name: name == f"aten::{CONVOLUTION}") / 1e3,
        "ops": ops,
    }


def _text(failure: BaseException) -> str:
    return f"{type(failure).__name__}: {failure}".split("\n")[0][:300]


def _look_at(trainer: Trainer, checked: Trainer, mode: str, reference) -> dict:
    """All of a mode but its times; compiles and warms up."""
    found: dict[str, object] = {}
    trainer.restore()
    start = time.perf_counter()
    trainer.take(mode)
    trainer.step()
    synchronize(trainer.device)
    found["first_step_s"] = time.perf_counter() - start
    trainer.step()
    # A graph holds its memory at all times.
    if trainer.device == "cuda" and trainer.run != "graph":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        trainer.step()
        torch.cuda.synchronize()
        found["peak_bytes"] = torch.cuda.max_memory_allocated()
    if checked is not trainer:
        checked.take(mode)
    first = checked.gradients()
    found["difference"] = difference(first, reference.gradients)
    others = unequal(first, checked.gradients())
    found["same_bits"] = not others
    found["unequal"] = others[:3]
    del first
    # Of ops: deterministic upsampling is none of its own.
    if mode != "deterministic" and trainer.run == "eager":
        found["profile"] = profile(trainer)
    return found


def measure(
    network: Network,
    size: str,
    dtype: str,
    layout: str,
    run: str,
    device: str,
    reference: Reference,
    seconds: float,
    deadline: float,
    wanted: Sequence[str] = MODES,
) -> dict[str, object]:
    """The row of a report, in the modes that are wanted. Rounds take `seconds` and end at `deadline`, by
    time.perf_counter, but there are three at least."""
    checked = None
    if reference.size != size:
        checked = Trainer(network, reference.size, dtype, layout, device, run)
    held = torch.cuda.memory_allocated() if device == "cuda" else 0
    trainer = Trainer(network, size, dtype, layout, device, run)
    checked = checked or trainer
    modes: dict[str, dict] = {}
    gradnn.torch.reset_status()
    for mode in filter(wanted.__contains__, modes_of(run)):
        try:
            with in_mode(mode):
                modes[mode] = _look_at(trainer, checked, mode, reference)
            if "peak_bytes" in modes[mode]:
                modes[mode]["peak_bytes"] -= held
        except Exception as failure:  # the other modes go on
            modes[mode] = {"error": _text(failure)}
            trainer.optimizer.zero_grad(set_to_none=True)
    rounds = _time_rounds(trainer, modes, seconds, deadline)
    status = gradnn.torch.status()
    return {
        "network": network.title,
        "size": list(trainer.x.shape),
        "dtype": dtype,
        "layout": layout,
        "run": run,
        "reference": "x".join(map(str, checked.x.shape)),
        "rounds": rounds,
        "modes": modes,
        "native": [each for each in status if each["ran"] != "gradnn"],
        "status": status,
    }


def _time_rounds(
    trainer: Trainer, modes: dict[str, dict], seconds: float, deadline: float
) -> int:
    """Times the modes alternately and writes `ms` to each."""
    able = [mode for mode in modes if "error" not in modes[mode]]
    times: dict[str, list[float]] = {mode: [] for mode in able}
    end = min(time.perf_counter() + seconds, deadline)
    block = min(_BLOCK_SECONDS, seconds / (_MIN_ROUNDS * len(MODES)))
    counts: dict[str, int] = {}
    rounds = 0
    while able and (rounds < _MIN_ROUNDS or time.perf_counter() < end):
        # Each mode follows each other one.
        turn = rounds % len(able)
        for mode in able[turn:] + able[:turn]:
            try:
                with in_mode(mode):
                    trainer.take(mode)
                    if mode not in counts:
                        once = trainer.time_steps(1)
                        counts[mode] = min(max(round(block / once), 1), 20)
                    times[mode].append(trainer.time_steps(counts[mode]))
            except Exception as failure:  # the other modes go on
                modes[mode]["error"] = _text(failure)
                trainer.optimizer.zero_grad(set_to_none=True)
                able.remove(mode)
        rounds += 1
    for mode in able:
        modes[mode]["ms"] = statistics.median(times[mode]) * 1e3
        modes[mode]["ms_min"] = min(times[mode]) * 1e3
    return rounds
