"""The cases of cases.json, and their graphs in gradnn's (oneDNN Graph's) JSON."""

import json
import math
import pathlib

KINDS = ("interpolation", "convolution")
LAYOUTS = ("NCX", "NXC")
DTYPE_BYTES = {"f64": 8, "f32": 4, "bf16": 2, "f16": 2}
# Of a convolution; "all" are the three in one op.
GRADIENTS = ("all", "src", "weights", "bias")
CASES_FILE = pathlib.Path(__file__).resolve().parent / "cases.json"

_DEFAULTS = {
    "interpolation": {
        "mode": "linear",
        "coordinate_transformation_mode": "half_pixel",
        "antialias": False,
        "scale_rule": "shape_ratio",
        "scales": None,
        "layouts": list(LAYOUTS),
    },
    "convolution": {
        "stride": 1,
        "pad": 0,
        "dilation": 1,
        "groups": 1,
        "transposed": False,
        "output_padding": 0,
        "f32_gradients": False,
        "layouts": list(LAYOUTS),
    },
}


def load_cases(kind, engine, file=CASES_FILE):
    """All cases of a kind, defaults filled in, at the sizes for an engine."""
    with open(file, encoding="utf-8") as text:
        listed = json.load(text)[kind]
    cases = []
    for each in listed:
        cases.append(complete(kind, each | (each["cpu"] if engine == "cpu" else {})))
    return cases


def complete(kind, given):
    """A case with defaults filled in, and dst of a convolution."""
    case = _DEFAULTS[kind] | {"kind": kind} | given
    if kind == "convolution":
        case["dst"] = convolution_dst(case)
    return case


def per_axis(case, key):
    """An attribute of a convolution for each spatial axis; a case has one number
    for all of them, or a list."""
    value = case[key]
    return value if isinstance(value, list) else [value] * len(case["src"])


def convolution_dst(case):
    """Spatial dims of dst."""
    keys = ("kernel", "dilation", "pad", "stride", "output_padding")
    dims = []
    for size, kernel, dilation, pad, stride, beyond in zip(
        case["src"], *(per_axis(case, key) for key in keys)
    ):
        window = (kernel - 1) * dilation + 1
        if case["transposed"]:
            dims.append((size - 1) * stride + window - 2 * pad + beyond)
        else:
            dims.append((size + 2 * pad - window) // stride + 1)
    return dims


def shapes(case):
    """Dims of src, dst and weights (None for an interpolation), channels second.

    Weights are OIX, of transposed convolutions IOX.
    """
    if case["kind"] == "interpolation":
        head = [case["n"], case["c"]]
        return head + case["src"], head + case["dst"], None
    first, second = case["out"], case["in"]
    if case["transposed"]:
        first, second = second, first
    kernel = per_axis(case, "kernel")
    return (
        [case["n"], case["in"]] + case["src"],
        [case["n"], case["out"]] + case["dst"],
        [first, second // case["groups"]] + kernel,
    )


def wanted(gradient):
    """Which of diff_src, diff_weights and diff_bias a gradient of GRADIENTS is."""
    return [gradient in ("all", each) for each in GRADIENTS[1:]]


def summed_dtype(case, dtype):
    """Of the gradients of weights and bias: with `f32_gradients` f32 where data is
    bf16 or f16."""
    # A file that bench/sweep wrote may have no such key.
    is_f32 = case.get("f32_gradients") and DTYPE_BYTES[dtype] == 2
    return "f32" if is_f32 else dtype


def moved_bytes(case, dtype, gradient="all"):
    """Bytes that a case reads and writes, each tensor once."""
    src, dst, weights = map(math.prod, (each or [0] for each in shapes(case)))
    if not weights:
        return (src + dst) * DTYPE_BYTES[dtype]
    to_src, to_weights, to_bias = wanted(gradient)
    read = dst + to_weights * src + to_src * weights
    summed = to_weights * weights + to_bias * case["out"]
    data_bytes = DTYPE_BYTES[dtype]
    summed_bytes = DTYPE_BYTES[summed_dtype(case, dtype)]
    return (read + to_src * src) * data_bytes + summed * summed_bytes


def dense_strides(dims, layout, dims_layout):
    """Strides of a dense tensor whose memory has the channels second or last."""
    order = list(range(len(dims)))
    if layout == "NXC" and dims_layout == "NCX":
        order.append(order.pop(1))
    strides = [0] * len(dims)
    stride = 1
    for axis in reversed(order):
        strides[axis] = stride
        stride *= dims[axis]
    return strides


def _tensor(number, dtype, dims, strides):
    return {
        "id": number,
        "dtype": dtype,
        "shape": dims,
        "stride": strides,
        "layout_type": "strided",
        "property_type": "undef",
    }


def _data(number, dtype, dims, layout):
    if layout == "NXC":
        dims = dims[:1] + dims[2:] + dims[1:2]
    return _tensor(number, dtype, dims, dense_strides(dims, layout, layout))


def _weights(number, dtype, dims, layout, weights_format):
    if weights_format in ("XIO", "XOI"):
        dims = dims[2:] + [dims[1], dims[0]]
        return _tensor(number, dtype, dims, dense_strides(dims, "NCX", "NCX"))
    return _tensor(number, dtype, dims, dense_strides(dims, layout, "NCX"))


def _attributes(**values):
    types = {str: "string", bool: "bool", int: "s64"}
    result = {}
    for name, value in values.items():
        if isinstance(value, list):
            kind = "f32[]" if isinstance(value[0], float) else "s64[]"
        else:
            kind = types[type(value)]
        result[name] = {"type": kind, "value": value}
    return result


def _graph(engine, name, kind, attributes, inputs, outputs, fpmath="strict"):
    return {
        "version": "0.1.0",
        "engine_kind": engine,
        "fpmath_mode": fpmath,
        "input_ports": [each["id"] for each in inputs],
        "output_ports": [each["id"] for each in outputs if each],
        "graph": [
            {
                "id": 0,
                "name": name,
                "kind": kind,
                "attrs": attributes,
                "inputs": inputs,
                "outputs": outputs,
            }
        ],
    }


def interpolation_graph(case, layout, dtype, engine):
    src, dst, _ = shapes(case)
    values = {
        "mode": case["mode"],
        "coordinate_transformation_mode": case["coordinate_transformation_mode"],
        "scale_rule": case["scale_rule"],
        "data_format": layout,
    }
    if case["antialias"]:
        values["antialias"] = True
    if case["scale_rule"] == "given":
        values["scales"] = case["scales"]
    else:
        values["sizes"] = case["dst"]
    return _graph(
        engine,
        case["name"],
        "InterpolateBackward",
        _attributes(**values),
        [_data(0, dtype, src, layout), _data(1, dtype, dst, layout)],
        [_data(2, dtype, src, layout)],
    )


def convolution_graph(
    case,
    layout,
    dtype,
    engine,
    weights="pytorch",
    gradient="all",
    fpmath="strict",
    f32_gradients=False,
):
    """dX, dW and dB in one op, or one of them; dW and dB in f32 with
    `f32_gradients`, the caller's or the case's.

    Weights "pytorch" lie as PyTorch holds them: OIX, channels-last in memory with
    channels-last data; "OIX" is dense in that order, "XIO" in that one (of
    transposed convolutions IOX and XOI).
    """
    src, dst, kernel = shapes(case)
    transposed = case["transposed"]
    if weights == "XIO":
        weights_format = "XOI" if transposed else "XIO"
    else:
        weights_format = "IOX" if transposed else "OIX"
    weights_layout = layout if weights == "pytorch" else "NCX"
    values = {
        "strides": per_axis(case, "stride"),
        "pads_begin": per_axis(case, "pad"),
        "pads_end": per_axis(case, "pad"),
        "dilations": per_axis(case, "dilation"),
        "groups": case["groups"],
        "data_format": layout,
        "weights_format": weights_format,
    }
    if transposed:
        values["output_padding"] = per_axis(case, "output_padding")
    summed = "f32" if f32_gradients else summed_dtype(case, dtype)
    outputs = [
        _data(3, dtype, src, layout),
        _weights(4, summed, kernel, weights_layout, weights_format),
        _tensor(5, summed, [case["out"]], [1]),
    ]
    return _graph(
        engine,
        case["name"],
        "ConvTransposeBackward" if transposed else "ConvBackward",
        _attributes(**values),
        [
            _data(0, dtype, dst, layout),
            _data(1, dtype, src, layout),
            _weights(2, dtype, kernel, weights_layout, weights_format),
        ],
        [port if asked else None for port, asked in zip(outputs, wanted(gradient))],
        fpmath,
    )


def write_graph(file, case, layout, dtype, engine, **choices):
    """`choices` are convolution_graph's."""
    if case["kind"] == "interpolation":
        graph = interpolation_graph(case, layout, dtype, engine)
    else:
        graph = convolution_graph(case, layout, dtype, engine, **choices)
    with open(file, "w", encoding="utf-8") as text:
        json.dump(graph, text)
