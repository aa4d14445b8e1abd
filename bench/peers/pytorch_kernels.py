#!/usr/bin/env python3
"""What PyTorch runs for the gradients of convolutions, by its own profiler.

Usage: pytorch_kernels.py CASE... [--layout NCX,NXC] [--dtype f32] [--gradient src,weights]

Prints for each gradient the sum of its kernels' times, the error in norm beside
the same gradient by PyTorch in f64, and the kernels. Cases are convolutions of
bench/cases.json; cudnn.benchmark is on, TF32 off, caches warm.
"""

import argparse
import os
import sys

import torch
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pytorch  # noqa: E402, which has bench/ on its path too
import graphs  # noqa: E402

RUNS = 10


def relative_error(found, exact):
    return ((found.double() - exact).norm() / exact.norm()).item()


def show(case, layout, dtype, gradient, device):
    src, dst, weights = graphs.shapes(case)
    inputs = [
        pytorch.random_tensor(shape, layout, dtype, device)
        for shape in (dst, src, weights)
    ]
    arguments = pytorch.convolution_arguments(case, gradient)
    function = torch.ops.aten.convolution_backward
    for _ in range(3):
        found = function(*inputs, *arguments)
    on_gpu = device == "cuda"
    kind = ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU
    with profile(activities=[kind]) as profiled:
        for _ in range(RUNS):
            function(*inputs, *arguments)
        if on_gpu:
            torch.cuda.synchronize()
    time_of = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    kernels = [(getattr(e, time_of) / RUNS, e.key) for e in profiled.key_averages()]
    kernels = sorted((k for k in kernels if k[0] > 0), reverse=True)
    exact = function(*(each.double() for each in inputs), *arguments)
    errors = [
        f"{relative_error(f, e):.1e}" for f, e in zip(found, exact) if f is not None
    ]
    total = sum(time for time, _ in kernels)
    print(f"{case['name']} {dtype} {layout} {gradient}: {total:.1f} us, error {', '.join(errors)}")
    for time, name in kernels[:8]:
        print(f"  {time:8.1f} us  {name[:100]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--layout", default="NCX,NXC")
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--gradient", default="src,weights")
    chosen = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cudnn.benchmark = True
    pytorch.set_precision("strict")
    engine = "gpu" if device == "cuda" else "cpu"
    known = {c["name"]: c for c in graphs.load_cases("convolution", engine)}
    for name in chosen.cases:
        if name not in known:
            parser.error(f"no convolution of bench/cases.json is called {name}")
        for layout in chosen.layout.split(","):
            for dtype in chosen.dtype.split(","):
                for gradient in chosen.gradient.split(","):
                    show(known[name], layout, dtype, gradient, device)


if __name__ == "__main__":
    main()
