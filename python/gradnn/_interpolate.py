"""The gradient of interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from . import _arrays, _run
from ._arrays import bad

Array = TypeVar("Array")

_FORMATS = ("NCX", "NXC")


def spatial_axes(data_format: str, ndim: int) -> slice:
    """Where the spatial axes are in a shape."""
    if data_format not in _FORMATS:
        raise bad("data_format", f"{data_format!r}; NCX and NXC are allowed")
    return slice(2, ndim) if data_format == "NCX" else slice(1, ndim - 1)


def check_rank(name: str, dims: tuple[int, ...]) -> int:
    """The number of spatial axes of a shape."""
    if not 3 <= len(dims) <= 5:
        raise bad(
            name,
            f"shape {dims} has {len(dims)} axes; 3 to 5 are allowed: batch, "
            "channels and one to three spatial axes",
            "invalid_shape",
        )
    return len(dims) - 2


def _numbers(name: str, values: Any, rank: int) -> tuple[float, ...]:
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{name} is {values!r}; numbers are expected")
    try:
        found = tuple(float(each) for each in values)
    except TypeError:
        try:
            found = (float(values),) * rank
        except TypeError:
            raise TypeError(f"{name} is {values!r}; numbers are expected") from None
    if len(found) != rank:
        raise bad(name, f"{found} has {len(found)} values for {rank} spatial axes")
    return found


def _check_shapes(
    dims: tuple[int, ...], grad: tuple[int, ...], data_format: str
) -> None:
    if len(dims) != len(grad) or any(dim < 0 for dim in dims):
        raise bad(
            "input_shape",
            f"{dims} for a grad_output of shape {grad}; as many axes are "
            "expected, none of them negative",
            "invalid_shape",
        )
    channel = 1 if data_format == "NCX" else -1
    if dims[0] != grad[0] or dims[channel] != grad[channel]:
        raise bad(
            "input_shape",
            f"{dims} for a grad_output of shape {grad}; batch and channels "
            f"of {data_format} must agree",
            "invalid_shape",
        )


def _attributes(
    mode: str,
    coordinates: str,
    data_format: str,
    arithmetic: str,
    scales: Any,
    ratios: Any,
    sizes: tuple[int, ...],
    filter: dict[str, Any],
) -> tuple[tuple[str, Any], ...]:
    """Attributes of the op. `sizes`: those of the output's spatial axes."""
    attributes: list[tuple[str, Any]] = [
        ("mode", mode),
        ("coordinate_transformation_mode", coordinates),
        ("data_format", data_format),
    ]
    for name, value in attributes:
        if not isinstance(value, str):
            raise TypeError(f"{name} is {value!r}; a string is expected")
    if arithmetic != "exact":
        attributes.append(("coordinate_arithmetic", arithmetic))
    for name in ("antialias", "exclude_outside"):
        if not isinstance(filter[name], bool):
            raise TypeError(f"{name} is {filter[name]!r}; a bool is expected")
        if filter[name]:
            attributes.append((name, True))
    if filter["cubic_coeff_a"] != -0.75:
        (slope,) = _numbers("cubic_coeff_a", [filter["cubic_coeff_a"]], 1)
        attributes.append(("cubic_coeff_a", slope))
    if scales is not None and ratios is not None:
        raise bad("scales", "given together with ratios; one of them is allowed")
    rank = len(sizes)
    if ratios is not None:
        attributes.append(("scale_rule", "ratios"))
        attributes.append(("ratios", _numbers("ratios", ratios, rank)))
    if scales is not None:
        # The library takes scales in place of sizes: it checks the sizes.
        attributes.append(("scale_rule", "given"))
        attributes.append(("scales", _numbers("scales", scales, rank)))
    else:
        attributes.append(("sizes", sizes))
    return tuple(attributes)


def interpolate_backward(
    grad_output: Array,
    input_shape: Sequence[int],
    *,
    mode: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    scales: float | Sequence[float] | None = None,
    ratios: float | Sequence[float] | None = None,
    coordinate_arithmetic: str = "exact",
    cubic_coeff_a: float = -0.75,
    antialias: bool = False,
    exclude_outside: bool = False,
    data_format: str = "NCX",
    fpmath: str = "strict",
    deterministic: bool = True,
    threads: int = 0,
    stream: Any = None,
    out: Array | None = None,
) -> Array:
    """The gradient of an interpolation's input.

    The forward took an input of ``input_shape`` to the shape of
    ``grad_output``, by nearest neighbours or by linear or cubic interpolation
    along one, two or three spatial axes.

    Args:
        grad_output: the gradient of the output: ``[N, C, x...]`` (NCX) or
            ``[N, x..., C]`` (NXC) with one to three spatial axes; float16,
            bfloat16, float32 or float64; any strides.
        input_shape: the shape of the forward's input, of the same format. Batch
            and channels are those of ``grad_output``.
        mode: "nearest", "linear" ("bilinear", "trilinear" mean the same) or
            "cubic" ("bicubic").
        coordinate_transformation_mode: "half_pixel", "align_corners" or
            "asymmetric". PyTorch's ``nearest`` is nearest with asymmetric, its
            ``nearest-exact`` nearest with half_pixel.
        scales: output elements for an input element, one number or one for each
            spatial axis. None: the quotient of the sizes.
        ratios: input elements for an output element, in place of ``scales``:
            PyTorch's forward with a scale_factor has 1 / scale_factor.
        coordinate_arithmetic: for nearest: "exact", or how the forward computed
            its coordinates: "float32", "float32_fma", "float64".
        cubic_coeff_a: the slope of the cubic filter at distance 1.
        antialias: linear and cubic: filters are as many times wider as the output
            is smaller, and their weights add up to 1.
        exclude_outside: cubic and antialias: weights of elements outside the input
            count 0 and the others add up to 1, as PyTorch's antialias has it.
            False: elements at the ends have them.
        data_format: "NCX" or "NXC".
        fpmath: "strict": products as exact as f32. "bf16", "f16", "tf32" or
            "any" permit less.
        deterministic: the same bits on every run.
        threads: on the CPU; 0: ``omp_get_max_threads()`` at the first call of
            the process. The bits do not depend on it.
        stream: on a GPU: a cudaStream_t as an integer, or a stream of PyTorch,
            CuPy or cuda.core. None: the current stream of the array's library.
        out: where to put the result: an array of ``input_shape`` and of the data
            type of ``grad_output``, any strides that do not overlap.

    Returns:
        ``out``, or a new array of ``input_shape`` in C order, made by the
        library of ``grad_output``. On a GPU the work is queued.

    Raises:
        TypeError: an argument is of the wrong type (a list for an array).
        gradnn.InvalidArgumentError: a ValueError: shapes, data types, devices
            or values that do not fit. The message begins with the argument.
        gradnn.UnsupportedError: a NotImplementedError: no such device here.
        gradnn.OutOfMemoryError: a MemoryError.
    """
    grad = _arrays.array("grad_output", grad_output, stream=stream)
    queue = _arrays.queue(grad, stream)
    dims = _run.integers("input_shape", input_shape)
    check_rank("grad_output", grad.dims)
    spatial = spatial_axes(data_format, len(grad.dims))
    _check_shapes(dims, grad.dims, data_format)
    attributes = _attributes(
        mode,
        coordinate_transformation_mode,
        data_format,
        coordinate_arithmetic,
        scales,
        ratios,
        grad.dims[spatial],
        {
            "cubic_coeff_a": cubic_coeff_a,
            "antialias": antialias,
            "exclude_outside": exclude_outside,
        },
    )
    source = _arrays.shape_alone("input_shape", dims, grad)
    (result,) = _run.outputs(grad, ["out"], [dims], [out], queue)
    assert result is not None
    if result.dtype != grad.dtype:
        raise bad(
            "out",
            f"data type {result.dtype}; that of grad_output is {grad.dtype}",
            "invalid_data_type",
        )
    compiled = _run.compile_for(
        "InterpolateBackward",
        attributes,
        _run.settings(fpmath, deterministic, threads),
        grad.device,
        (_run.description(source), _run.description(grad)),
        (_run.description(result),),
    )
    _run.execute(compiled, grad, [source, grad], [result], queue)
    gradient: Array = result.source
    return gradient
