"""The speed targets of the project (doc/performance.md), by engine and type."""

# Share of the memory limit: geometric mean and worst case.
INTERPOLATION = {
    "gpu": {"f64": (0.90, 0.75), "f32": (0.90, 0.75), "bf16": (0.85, 0.65)},
    "cpu": {"f64": (0.85, 0.60), "f32": (0.85, 0.60), "bf16": (0.70, 0.50)},
}
# Of problems that move so much. On the GPU smaller ones take at most so many
# times an empty launch and their bytes at the copy rate.
INTERPOLATION_BYTES = 64e6
SMALL_LAUNCHES = 1.2

# Times faster than PyTorch: (against, layouts, geometric mean, worst case); None
# asks for nothing. "pytorch" is free in its choice, "pytorch_deterministic" not.
_HALF = [("pytorch", ("NXC",), 1.3, 0.97), ("pytorch", ("NCX",), None, 0.97)]
_BOTH = ("NCX", "NXC")
CONVOLUTION = {
    "gpu": {
        "bf16": _HALF,
        "f32": [
            ("pytorch_deterministic", _BOTH, 2.0, None),
            ("pytorch", _BOTH, None, 1.0),
        ],
        "f64": [("pytorch", _BOTH, 2.5, None)],
    },
    "cpu": {
        dtype: [("pytorch", _BOTH, None, 1.0)]
        for dtype in ("f64", "f32", "bf16", "f16")
    },
}
# Of one gradient alone, share of the memory limit in cases that move 64 MB or
# more: the bias gradient, and the others of depthwise convolutions.
ALONE_BYTES = 64e6
BIAS_SHARE = {"gpu": 0.90, "cpu": 0.85}
DEPTHWISE_SHARE = {"gpu": 0.60}
for _table in (INTERPOLATION["gpu"], INTERPOLATION["cpu"], CONVOLUTION["gpu"]):
    _table["f16"] = _table["bf16"]

# Of random problems (bench/sweep), share of the limit: geometric mean, tenth
# percentile and worst; and the least times PyTorch's speed. On the CPU
# convolutions are held to oneDNN's best layout, which the sweep does not time.
SWEEP = {
    "gpu": {"f64": (0.82, 0.65, 0.45), "bf16": (0.78, 0.60, 0.40)},
    "cpu": {"f64": (0.75, 0.50, 0.30), "bf16": (0.60, 0.38, 0.22)},
}
SWEEP_PEER = {
    "gpu": {"interpolation": 1.0, "convolution": 0.95},
    "cpu": {"interpolation": 1.0},
}
for _table in SWEEP.values():
    _table["f32"], _table["f16"] = _table["f64"], _table["bf16"]
