#!/usr/bin/env python3
"""Times PyTorch's own gradients, caches cold, for bench/compare.

Worker of bench/compare: reads jobs from standard input, one JSON object a line
({"case", "layout", "dtype", "seconds", "deterministic", "search", "gradient",
"fpmath", "latency"}), and answers each with one line: {"ms", "ms_min", "ms_max", "repeats"},
on a GPU "host_ms" and "workspace_bytes", with latency "latency_us" and on a GPU
"replay_us", or
{"refused": why} where PyTorch has no such gradient or fails. The first line says
what PyTorch this is, or {"absent": why}.
"""

import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import graphs  # noqa: E402

try:
    import torch
except Exception as failure:  # an ImportError, or a CUDA library that is amiss
    torch = None
    ABSENT = f"PyTorch cannot be imported: {failure}"


class Refused(Exception):
    """PyTorch has no such gradient."""


LINEAR = {
    1: "upsample_linear1d_backward",
    2: "upsample_bilinear2d_backward",
    3: "upsample_trilinear3d_backward",
}
NEAREST = {
    "half_pixel": "_upsample_nearest_exact{}d_backward",
    "asymmetric": "upsample_nearest{}d_backward",
}


def about(device):
    if torch is None:
        return {"absent": ABSENT}
    if device != "cuda":
        return {
            "pytorch": torch.__version__,
            "device": "cpu",
            "threads": torch.get_num_threads(),
        }
    if not torch.cuda.is_available():
        return {"absent": f"PyTorch {torch.__version__} finds no GPU"}
    return {
        "pytorch": torch.__version__,
        "device": torch.cuda.get_device_name(),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
    }


def set_precision(fpmath):
    """f32 products as f32, in cuDNN and in what else may convolve, or as TF32."""
    torch.backends.cudnn.allow_tf32 = fpmath == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = fpmath == "tf32"
    conv = getattr(torch.backends.cudnn, "conv", None)
    if fpmath != "tf32" and getattr(conv, "fp32_precision", "ieee") == "tf32":
        conv.fp32_precision = "ieee"


def random_tensor(shape, layout, dtype, device):
    """Dense; NXC means channels last in memory, the dims stay N, C, X."""
    types = {
        "f64": torch.float64,
        "f32": torch.float32,
        "bf16": torch.bfloat16,
        "f16": torch.float16,
    }
    if layout == "NXC":
        shape = shape[:1] + shape[2:] + shape[1:2]
    made = torch.randn(shape, device=device, dtype=types[dtype])
    return made.movedim(-1, 1) if layout == "NXC" else made


def interpolation(job, device):
    """One input buffer's gradient as a function without arguments."""
    case, layout, dtype = job["case"], job["layout"], job["dtype"]
    mode = case["mode"]
    coordinates = case["coordinate_transformation_mode"]
    if mode == "linear" and coordinates == "asymmetric":
        raise Refused("PyTorch has no asymmetric linear interpolation")
    if mode == "cubic" and coordinates == "asymmetric":
        raise Refused("PyTorch has no asymmetric cubic interpolation")
    if (mode == "cubic" or case["antialias"]) and len(case["src"]) != 2:
        raise Refused("PyTorch has cubic and antialiased interpolation in 2-D alone")
    if mode == "nearest" and coordinates == "align_corners":
        raise Refused("PyTorch has no nearest interpolation with align_corners")
    src, dst, _ = graphs.shapes(case)
    scales = case["scales"] or [None] * len(case["src"])
    if len(case["src"]) == 1 and layout == "NXC":
        # It has channels_last kernels in 2-D alone: an image of one row.
        src, dst = src[:2] + [1] + src[2:], dst[:2] + [1] + dst[2:]
        scales = [None, *scales]
    rank = len(src) - 2
    diff_dst = random_tensor(dst, layout, dtype, device)
    if mode == "nearest":
        function = getattr(torch.ops.aten, NEAREST[coordinates].format(rank))
        return lambda: function(diff_dst, dst[2:], src, *scales)
    name = "upsample_bicubic2d_backward" if mode == "cubic" else LINEAR[rank]
    if case["antialias"]:
        name = f"_{name.removesuffix('_backward')}_aa_backward"
    function = getattr(torch.ops.aten, name)
    align = coordinates == "align_corners"
    return lambda: function(diff_dst, dst[2:], src, align, *scales)


def convolution_arguments(case, gradient):
    """Those of convolution_backward after its three tensors."""
    return (
        [case["out"]],
        graphs.per_axis(case, "stride"),
        graphs.per_axis(case, "pad"),
        graphs.per_axis(case, "dilation"),
        case["transposed"],
        graphs.per_axis(case, "output_padding"),
        case["groups"],
        graphs.wanted(gradient),
    )


def convolution(job, device):
    case, layout, dtype = job["case"], job["layout"], job["dtype"]
    src_dims, dst_dims, weights_dims = graphs.shapes(case)
    diff_dst = random_tensor(dst_dims, layout, dtype, device)
    src = random_tensor(src_dims, layout, dtype, device)
    weights = random_tensor(weights_dims, layout, dtype, device)
    rank = len(case["src"])
    if job["gradient"] == "bias":
        # Asked for it alone, PyTorch computes the gradient of weights too on a
        # CPU.
        return lambda: diff_dst.sum([0, *range(2, 2 + rank)])
    arguments = convolution_arguments(case, job["gradient"])
    function = torch.ops.aten.convolution_backward
    return lambda: function(diff_dst, src, weights, *arguments)


def cache_and_memory(device):
    """Bytes of the last-level cache, and of free memory."""
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        cache = getattr(properties, "L2_cache_size", 64 << 20)
        return cache, torch.cuda.mem_get_info()[0]
    cache = 32 << 20
    for index in range(8):
        name = f"/sys/devices/system/cpu/cpu0/cache/index{index}/size"
        try:
            with open(name, encoding="ascii") as text:
                size = text.read().strip()
        except OSError:
            continue
        unit = {"K": 1 << 10, "M": 1 << 20}.get(size[-1:], 1)
        cache = max(cache, int(size.rstrip("KM")) * unit)
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return cache, free


def cuda_times(run, seconds):
    """Milliseconds of runs by events of the GPU, and of the host in one run.

    The GPU sleeps a little before, so that the launches wait for it and the
    time is its own. Short runs are timed several at a time, as gradnn's are.
    """

    def timed(first, count, at_once):
        marks = []
        for turn in range(first, first + count * at_once, at_once):
            begin = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(200_000 * (at_once + 1))
            begin.record()
            for each in range(turn, turn + at_once):
                run(each)
            end.record()
            marks.append((begin, end))
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) / at_once for begin, end in marks]

    for turn in range(2):  # cudnn.benchmark tries its algorithms
        run(turn)
    estimate = max(min(timed(2, 3, 1)), 1e-3)
    at_once = int(min(max(0.5 / estimate, 1), 16))
    count = int(min(max(1e3 * seconds / estimate / at_once, 5), 500))
    times = timed(5, count, at_once)
    host, start = [], time.perf_counter()
    for turn in range(20):
        if turn >= 3 and time.perf_counter() - start > seconds:
            break
        begin = time.perf_counter()
        run(turn)
        host.append(1e3 * (time.perf_counter() - begin))
        torch.cuda.synchronize()
    return times, {"host_ms": statistics.median(host)}


def workspace_bytes(run):
    """The most of a GPU's memory that PyTorch takes for a call beside the call's
    tensors."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    result = run()
    torch.cuda.synchronize()
    result = result if isinstance(result, tuple) else (result,)
    made = sum(each.untyped_storage().nbytes() for each in result if each is not None)
    return max(0, torch.cuda.max_memory_allocated() - held - made)


def cpu_times(run, seconds):
    run(0)
    run(1)
    times = []
    start = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        run(len(times) + 2)
        times.append(1e3 * (time.perf_counter() - begin))
        if len(times) >= 5000:
            break
    return times, {}


def latencies(run, seconds, device):
    """Microseconds of the host from one call until its work is done, the tensors
    being the same every time, and on a GPU those of a CUDA graph of it.
    """

    def median(submit):
        times = []
        start = time.perf_counter()
        while len(times) < 3 or (
            len(times) < 1000 and time.perf_counter() - start < seconds
        ):
            begin = time.perf_counter()
            submit()
            if device == "cuda":
                stream.synchronize()
            times.append(1e6 * (time.perf_counter() - begin))
        return statistics.median(times)

    if device != "cuda":
        return {"latency_us": median(lambda: run(0))}
    stream = torch.cuda.current_stream()
    called = median(lambda: run(0))
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        run(0)
    return {"latency_us": called, "replay_us": median(recorded.replay)}


def time_job(job, device):
    case, dtype = job["case"], job["dtype"]
    set_precision(job["fpmath"])
    torch.backends.cudnn.deterministic = bool(job.get("deterministic"))
    torch.backends.cudnn.benchmark = job.get("search", True)
    make = {"interpolation": interpolation, "convolution": convolution}[case["kind"]]
    # Copies of all tensors, used one after the other, so that caches hold none
    # of them; results are kept as long, so that they are written to cold memory.
    moved = graphs.moved_bytes(case, dtype, job["gradient"])
    cache, free = cache_and_memory(device)
    copies = int(max(1, min(4 * cache // moved + 2, free // 2 // moved, 256)))
    gradients = [make(job, device) for _ in range(copies)]
    results = [None] * copies

    def run(turn):
        results[turn % copies] = gradients[turn % copies]()

    times, others = (cuda_times if device == "cuda" else cpu_times)(
        run, job["seconds"]
    )
    if device == "cuda":
        others["workspace_bytes"] = workspace_bytes(gradients[0])
    if job.get("latency"):
        others |= latencies(run, job["seconds"], device)
    return others | {
        "ms": statistics.median(times),
        "ms_min": min(times),
        "ms_max": max(times),
        "repeats": len(times),
        "copies": copies,
    }


def answer(job, device):
    """(answer, whether the process can go on)."""
    try:
        return time_job(job, device), True
    except Refused as refusal:
        return {"refused": str(refusal)}, True
    except Exception as failure:  # of PyTorch: of memory, unsupported, internal
        reason = (str(failure).splitlines() or [""])[0]
        sound = "CUDA error" not in reason
        return {"refused": f"{type(failure).__name__}: {reason}"}, sound


def main():
    if len(sys.argv) != 3 or sys.argv[1] != "--worker":
        print("pytorch.py: a worker of bench/compare, see there", file=sys.stderr)
        return 2
    device = "cuda" if sys.argv[2] == "gpu" else "cpu"
    # What PyTorch itself may print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def write(what):
        print(json.dumps(what), file=answers, flush=True)

    said = about(device)
    write(said)
    if "absent" in said:
        return 0
    for line in sys.stdin:
        done, sound = answer(json.loads(line), device)
        write(done)
        if not sound:
            return 1
        if device == "cuda":
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
