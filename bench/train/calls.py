"""Host time of small calls: PyTorch's op, gradnn's in its place, and gradnn's
execute alone."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable

import torch

from gradnn import _core

from .trainer import in_mode, synchronize

_CALLS = 100  # a block; few enough for the queue of a GPU not to fill
_ROUNDS = 9
_CHANNELS = 8
_EXTENT = {1: 64, 2: 8, 3: 4}  # of each axis of the input; the output's is twice

_UPSAMPLINGS = (
    ("upsample_nearest1d", 1, "nearest"),
    ("upsample_nearest2d", 2, "nearest"),
    ("upsample_nearest3d", 3, "nearest"),
    ("_upsample_nearest_exact1d", 1, "nearest_exact"),
    ("_upsample_nearest_exact2d", 2, "nearest_exact"),
    ("_upsample_nearest_exact3d", 3, "nearest_exact"),
    ("upsample_linear1d", 1, "linear"),
    ("upsample_bilinear2d", 2, "linear"),
    ("upsample_trilinear3d", 3, "linear"),
)


class _Call:
    """An ATen op with its arguments, and the same compiled by gradnn."""

    def __init__(self, name, op, arguments, kind, attrs, inputs, outputs) -> None:
        self.name = name
        self.op = op
        self.arguments = arguments
        self.kind = kind
        self.attrs = attrs
        self.inputs = inputs
        self.outputs = outputs


def _upsampling(name: str, axes: int, mode: str, device: str) -> _Call:
    src, dst = [_EXTENT[axes]] * axes, [2 * _EXTENT[axes]] * axes
    shape = [1, _CHANNELS, *src]
    grad = torch.randn(1, _CHANNELS, *dst, device=device)
    rest = ([False] if mode == "linear" else []) + [None] * axes
    attrs: dict[str, object] = {"sizes": dst, "data_format": "NCX"}
    attrs["mode"] = "linear" if mode == "linear" else "nearest"
    attrs["coordinate_transformation_mode"] = (
        "asymmetric" if mode == "nearest" else "half_pixel"
    )
    if mode != "linear":
        attrs["coordinate_arithmetic"] = "float32"
    return _Call(
        f"{name}_backward",
        getattr(torch.ops.aten, f"{name}_backward").default,
        (grad, dst, shape, *rest),
        "InterpolateBackward",
        attrs,
        [torch.empty(shape, device="meta"), grad],  # of src only the shape counts
        [torch.empty(shape, device=device)],
    )


def _convolution(gradients: int, device: str) -> _Call:
    x = torch.randn(1, _CHANNELS, 8, 8, device=device)
    w = torch.randn(_CHANNELS, _CHANNELS, 3, 3, device=device)
    grad = torch.randn_like(x)
    mask = [gradients == 3, True, gradients == 3]
    outputs = [torch.empty_like(x), torch.empty_like(w), x.new_empty(_CHANNELS)]
    noun = "gradients" if gradients > 1 else "gradient"
    return _Call(
        f"convolution_backward, {gradients} {noun}",
        torch.ops.aten.convolution_backward.default,
        (grad, x, w, [_CHANNELS], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, mask),
        "ConvBackward",
        {
            "strides": [1, 1],
            "dilations": [1, 1],
            "pads_begin": [1, 1],
            "pads_end": [1, 1],
            "groups": 1,
            "data_format": "NCX",
            "weights_format": "OIX",
        },
        [grad, x, w],
        [each if wanted else None for each, wanted in zip(outputs, mask)],
    )


def _describe(tensor) -> _core.TensorDescription | None:
    if tensor is None:
        return None
    return _core.TensorDescription("f32", tuple(tensor.shape), tensor.stride())


def _pointers(tensors) -> list[int | None]:
    return [
        None if each is None or each.is_meta else each.data_ptr() for each in tensors
    ]


def _executor(call: _Call, device: str) -> Callable[[], None]:
    """gradnn_execute with its arguments, by ctypes."""
    settings: dict[str, object] = {}
    stream = None
    if device == "cuda":
        # As gradnn.torch does where cudnn.benchmark is set.
        settings["autotune"] = call.kind.startswith("Conv")
        stream = torch.cuda.current_stream().cuda_stream
    else:
        settings["threads"] = torch.get_num_threads()
    compiled = _core.Op(call.kind, call.attrs, **settings).compile(
        _core.engine("gpu" if device == "cuda" else "cpu"),
        [_describe(each) for each in call.inputs],
        [_describe(each) for each in call.outputs],
    )
    workspace = torch.empty(
        max(compiled.workspace_size, 1), dtype=torch.uint8, device=device
    )
    array = _core.ctypes.c_void_p
    inputs, outputs = _pointers(call.inputs), _pointers(call.outputs)
    arguments = (
        array(compiled.handle),
        array(stream),
        (array * len(inputs))(*inputs),
        len(inputs),
        (array * len(outputs))(*outputs),
        len(outputs),
        array(workspace.data_ptr()),
    )
    execute = _core.library.gradnn_execute
    _core.check(execute(*arguments))

    def run(keep=(compiled, workspace)):
        execute(*arguments)

    return run


def _time_block(run: Callable[[], object], device: str) -> float:
    """Microseconds of a call on the host."""
    run()
    synchronize(device)
    start = time.perf_counter()
    for _ in range(_CALLS):
        run()
    spent = time.perf_counter() - start
    synchronize(device)
    return spent / _CALLS * 1e6


def measure(device: str) -> list[dict[str, object]]:
    """Microseconds of each op, float32, by median of interleaved rounds."""
    calls = [_upsampling(*each, device) for each in _UPSAMPLINGS]
    calls += [_convolution(gradients, device) for gradients in (1, 3)]
    rows = []
    gc.disable()
    try:
        for call in calls:
            execute = _executor(call, device)
            times: dict[str, list[float]] = {}
            for _ in range(_ROUNDS):
                for mode in ("pytorch", "gradnn"):
                    with in_mode(mode):
                        spent = _time_block(lambda: call.op(*call.arguments), device)
                    times.setdefault(mode, []).append(spent)
                times.setdefault("execute", []).append(_time_block(execute, device))
            row: dict[str, object] = {"op": call.name}
            for name, values in times.items():
                row[f"{name}_us"] = statistics.median(values)
            rows.append(row)
            gc.collect()
    finally:
        gc.enable()
    return rows
