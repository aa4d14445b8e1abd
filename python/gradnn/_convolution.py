"""The gradients of convolution and of transposed convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar, Union

from . import _arrays, _run
from ._arrays import bad
from ._geometry import Geometry
from ._interpolate import check_rank, spatial_axes

Array = TypeVar("Array")
PerAxis = Union[int, Sequence[int]]
Padding = Union[str, int, Sequence[Union[int, Sequence[int]]]]

_OUTPUTS = ("grad_input", "grad_weight", "grad_bias")


class _Kind(NamedTuple):
    name: str
    formats: tuple[str, str]  # of weights
    transposed: bool


_CONV = _Kind("ConvBackward", ("OIX", "XIO"), False)
_TRANSPOSED = _Kind("ConvTransposeBackward", ("IOX", "XOI"), True)


def _operand(
    name: str, value: Any, like: _arrays.Array, needed: bool, queue: int | None
) -> _arrays.Array:
    """input or weight: an array, or where its data is not needed a shape."""
    if not needed and isinstance(value, (tuple, list)):
        dims = _run.integers(name, value)
        if any(dim < 0 for dim in dims):
            raise bad(name, f"shape {dims}; none may be negative", "invalid_shape")
        return _arrays.shape_alone(name, dims, like)
    if needed and isinstance(value, (tuple, list)):
        raise TypeError(
            f"{name} is a {type(value).__name__}; a shape serves only if output_mask "
            "asks for nothing that takes its data"
        )
    found = _arrays.array(name, value, stream=queue)
    if found.dtype != like.dtype:
        raise bad(
            name,
            f"data type {found.dtype}; that of grad_output is {like.dtype}",
            "invalid_data_type",
        )
    _run.same_kind(("grad_output", like), [(name, found)])
    return found if needed else found._replace(pointer=None)


def _check_shapes(
    kind: _Kind,
    geometry: Geometry,
    data_format: str,
    weights_format: str,
    grad: tuple[int, ...],
    source: tuple[int, ...],
    weight: tuple[int, ...],
) -> None:
    """Refuses what does not fit; the library checks the spatial sizes."""
    rank = check_rank("grad_output", grad)
    for name, dims in (("input", source), ("weight", weight)):
        if len(dims) != rank + 2:
            raise bad(
                name,
                f"shape {dims} for a grad_output of shape {grad}; as many axes are "
                "expected",
                "invalid_shape",
            )
    if source[0] != grad[0]:
        raise bad(
            "input",
            f"shape {source} for a grad_output of shape {grad}; the batches must agree",
            "invalid_shape",
        )
    channel = 1 if data_format == "NCX" else -1
    first, second = weight[:2] if weights_format[-1] == "X" else weight[:-3:-1]
    # first is O of OIX and I of IOX: the channels that are not divided.
    whole, divided = (source, grad) if kind.transposed else (grad, source)
    names = ("input", "grad_output") if kind.transposed else ("grad_output", "input")
    if first != whole[channel] or second * geometry.groups != divided[channel]:
        raise bad(
            "weight",
            f"shape {weight} ({weights_format}) with groups {geometry.groups}; "
            f"{names[0]} has {whole[channel]} channels and {names[1]} "
            f"{divided[channel]}",
            "invalid_shape",
        )


def _mask(output_mask: Any, out: Any) -> tuple[bool, ...]:
    """output_mask, checked; of `out` only the type."""
    for name, values in (("output_mask", output_mask), ("out", out)):
        optional = name == "out" and values is None
        if not (optional or isinstance(values, (tuple, list))):
            raise TypeError(
                f"{name} is a {type(values).__name__}; a tuple of three is expected"
            )
    mask = tuple(bool(each) for each in output_mask)
    if len(mask) != 3 or not any(mask):
        raise bad(
            "output_mask",
            f"{output_mask!r}; three values are expected, at least one of them True",
        )
    return mask


def _results(
    grad: _arrays.Array,
    shapes: list[tuple[int, ...]],
    mask: tuple[bool, ...],
    out: Any,
    queue: Any,
) -> list[_arrays.Array | None]:
    """The arrays that the gradients go to: those of `out` or new ones, None for
    what `mask` leaves out."""
    given = (None, None, None) if out is None else tuple(out)
    if len(given) != 3:
        raise bad(
            "out", f"{len(given)} values; three are expected, each an array or None"
        )
    asked = [dims if each else None for dims, each in zip(shapes, mask)]
    for index, (shape, each) in enumerate(zip(asked, given)):
        if shape is None and each is not None:
            raise bad(f"out[{index}]", f"an array, but output_mask is {mask}")
    results = _run.outputs(grad, ["out[0]", "out[1]", "out[2]"], asked, given, queue)
    for index, result in enumerate(results):
        wide = index > 0 and grad.dtype in ("f16", "bf16")
        allowed = (grad.dtype, "f32") if wide else (grad.dtype,)
        if result is not None and result.dtype not in allowed:
            raise bad(
                f"out[{index}]",
                f"data type {result.dtype}; {' and '.join(allowed)} are allowed for "
                f"{_OUTPUTS[index]} of a {grad.dtype} grad_output",
                "invalid_data_type",
            )
    return results


def _backward(
    kind: _Kind,
    grad_output: Any,
    source: Any,
    weight: Any,
    strides: Any,
    padding: Any,
    output_padding: Any,
    dilations: Any,
    groups: Any,
    data_format: str,
    weights_format: str,
    output_mask: Sequence[bool],
    settings: _run.Settings,
    stream: Any,
    out: Any,
) -> tuple[Any, Any, Any]:
    mask = _mask(output_mask, out)
    grad = _arrays.array("grad_output", grad_output, stream=stream)
    queue = _arrays.queue(grad, stream)
    rank = check_rank("grad_output", grad.dims)
    data = _operand("input", source, grad, mask[1], queue)
    filters = _operand("weight", weight, grad, mask[0], queue)
    spatial_axes(data_format, len(grad.dims))
    if weights_format not in kind.formats:
        raise bad(
            "weights_format",
            f"{weights_format!r}; {' and '.join(kind.formats)} are allowed",
        )
    geometry = Geometry.given(
        rank, strides, padding, output_padding, dilations, groups
    )
    _check_shapes(
        kind, geometry, data_format, weights_format, grad.dims, data.dims, filters.dims
    )
    bias_dims = (grad.dims[1 if data_format == "NCX" else -1],)
    shapes = [data.dims, filters.dims, bias_dims]
    results = _results(grad, shapes, mask, out, queue)
    compiled = _run.compile_for(
        kind.name,
        geometry.attributes(data_format, weights_format),
        settings,
        grad.device,
        (
            _run.description(grad),
            _run.description(data),
            _run.description(filters),
        ),
        tuple(None if each is None else _run.description(each) for each in results),
    )
    _run.execute(compiled, grad, [grad, data, filters], results, queue)
    gradients = [None if each is None else each.source for each in results]
    return gradients[0], gradients[1], gradients[2]


def conv_backward(
    grad_output: Array,
    input: Array | Sequence[int],
    weight: Array | Sequence[int],
    *,
    strides: PerAxis = 1,
    padding: Padding = 0,
    dilations: PerAxis = 1,
    groups: int = 1,
    data_format: str = "NCX",
    weights_format: str = "OIX",
    output_mask: Sequence[bool] = (True, True, True),
    fpmath: str = "strict",
    deterministic: bool = True,
    threads: int = 0,
    stream: Any = None,
    out: Sequence[Array | None] | None = None,
) -> tuple[Array | None, Array | None, Array | None]:
    """The gradients of a convolution: of its input, weight and bias.

    Args:
        grad_output: the gradient of the output: ``[N, O, y...]`` (NCX) or
            ``[N, y..., O]`` (NXC) with one to three spatial axes; float16,
            bfloat16, float32 or float64; any strides. An axis of the output has
            floor((x + pads - ((k - 1) * dilation + 1)) / stride) + 1 elements.
        input: ``[N, I, x...]`` or ``[N, x..., I]``. Read for the gradient of
            weight alone; where that is not asked for, its shape will do.
        weight: ``[O, I / groups, k...]`` (OIX) or ``[k..., I / groups, O]``
            (XIO). Read for the gradient of input alone; else its shape will do.
        strides, dilations: one number, or one for each spatial axis; from 1.
        padding: one number, one for each spatial axis, a pair (before, behind)
            for each, or "valid", "same_upper", "same_lower". Negative numbers
            crop.
        groups: divides the channels of input and output.
        data_format: "NCX" or "NXC".
        weights_format: "OIX" or "XIO".
        output_mask: which of the three gradients to compute.
        fpmath: "strict": products as exact as f32. "bf16", "f16", "tf32" or
            "any" permit less.
        deterministic: the same bits on every run.
        threads: on the CPU; 0: ``omp_get_max_threads()`` at the first call of
            the process. oneDNN divides some sums by it.
        stream: on a GPU: a cudaStream_t as an integer, or a stream of PyTorch,
            CuPy or cuda.core. None: the current stream of the array's library.
        out: where to put the results: three arrays, None for one to be made or
            that is not asked for. Gradients of weight and bias may be float32
            where ``grad_output`` is float16 or bfloat16.

    Returns:
        ``(grad_input, grad_weight, grad_bias)``, of the shapes of input, weight
        and ``[O]``; None for what ``output_mask`` leaves out. New arrays are in
        C order, made by the library of ``grad_output``. On a GPU the work is
        queued.

    Raises:
        TypeError: an argument is of the wrong type (a list for an array).
        gradnn.InvalidArgumentError: a ValueError: shapes, data types, devices
            or values that do not fit. The message begins with the argument, or
            with the port of the op: diff_dst is grad_output, src is input,
            weights is weight.
        gradnn.UnsupportedError: a NotImplementedError: no such device here.
        gradnn.OutOfMemoryError: a MemoryError.
    """
    return _backward(
        _CONV,
        grad_output,
        input,
        weight,
        strides,
        padding,
        None,
        dilations,
        groups,
        data_format,
        weights_format,
        output_mask,
        _run.settings(fpmath, deterministic, threads),
        stream,
        out,
    )


def conv_transpose_backward(
    grad_output: Array,
    input: Array | Sequence[int],
    weight: Array | Sequence[int],
    *,
    strides: PerAxis = 1,
    padding: Padding = 0,
    output_padding: PerAxis = 0,
    dilations: PerAxis = 1,
    groups: int = 1,
    data_format: str = "NCX",
    weights_format: str = "IOX",
    output_mask: Sequence[bool] = (True, True, True),
    fpmath: str = "strict",
    deterministic: bool = True,
    threads: int = 0,
    stream: Any = None,
    out: Sequence[Array | None] | None = None,
) -> tuple[Array | None, Array | None, Array | None]:
    """The gradients of a transposed convolution: of its input, weight and bias.

    Args:
        grad_output: the gradient of the output: ``[N, O, y...]`` (NCX) or
            ``[N, y..., O]`` (NXC). An axis of the output has
            (x - 1) * stride + (k - 1) * dilation + 1 - pads + output_padding
            elements.
        input: ``[N, I, x...]`` or ``[N, x..., I]``, or its shape, as
            :func:`conv_backward` has it.
        weight: ``[I, O / groups, k...]`` (IOX) or ``[k..., O / groups, I]``
            (XOI), or its shape.
        output_padding: from 0: elements at the end of each axis of the output.
            Where no window reaches them, up to stride - 1 such elements are
            right whatever this says.
        weights_format: "IOX" or "XOI".
        strides, padding, dilations, groups, data_format, output_mask, fpmath,
            deterministic, threads, stream, out: as :func:`conv_backward` has
            them.

    Returns:
        ``(grad_input, grad_weight, grad_bias)``, as :func:`conv_backward`.

    Raises:
        as :func:`conv_backward`.
    """
    return _backward(
        _TRANSPOSED,
        grad_output,
        input,
        weight,
        strides,
        padding,
        output_padding,
        dilations,
        groups,
        data_format,
        weights_format,
        output_mask,
        _run.settings(fpmath, deterministic, threads),
        stream,
        out,
    )
