"""Times and memory of PyTorch calls, on the first GPU or else the CPU."""

import statistics
import time

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def trial(call, count):
    """Milliseconds of a call."""
    if DEVICE == "cpu":
        start = time.perf_counter()
        for _ in range(count):
            call()
        return 1e3 * (time.perf_counter() - start) / count
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    events[0].record()
    for _ in range(count):
        call()
    events[1].record()
    events[1].synchronize()
    return events[0].elapsed_time(events[1]) / count


def medians(calls, seconds):
    """Of several calls, which are timed in turns."""
    for call in calls:
        trial(call, 2)
    counts = [max(1, int(1e3 * seconds / max(trial(call, 1), 1e-3))) for call in calls]
    turns = [[trial(*each) for each in zip(calls, counts)] for _ in range(7)]
    return [statistics.median(times) for times in zip(*turns)]


def peak(call):
    """MiB beside what is there already."""
    if DEVICE == "cpu":
        return float("nan")
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def formatted(made, layout, axes=2):
    """A tensor, or a model, in a layout."""
    last = torch.channels_last if axes == 2 else torch.channels_last_3d
    return made.to(memory_format=last) if layout == "NXC" else made
