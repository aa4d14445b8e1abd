"""What the functions of the package take as arrays: NumPy's, and those of every
library with __dlpack__ (PyTorch, CuPy, ...). The array's own library allocates
results and, on a GPU, workspace."""

from __future__ import annotations

import contextlib
import math
import sys
from typing import Any, NamedTuple

from . import _dlpack
from ._core import InvalidArgumentError, UnsupportedError

_ITEM_SIZES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}
ALLOWED_DTYPES = "float16, bfloat16, float32 and float64 are allowed"


class Array(NamedTuple):
    """An array as the library sees it. Strides are in elements."""

    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    pointer: int | None  # None: a shape alone
    device: tuple[str, int]  # ("cpu", 0)
    source: Any  # the caller's array
    keep: Any  # what keeps the memory


def _root(source: Any) -> str:
    """The package that an array's type is from."""
    for each in type(source).__mro__:
        name = each.__module__.partition(".")[0]
        if name in ("torch", "cupy", "jax", "jaxlib", "numpy"):
            return name
    return type(source).__module__.partition(".")[0]


def _bad_type(name: str, source: Any) -> TypeError:
    return TypeError(
        f"{name} is a {type(source).__name__}; a NumPy array or an array with "
        "__dlpack__ is expected"
    )


def bad(name: str, text: str, status: str = "invalid_arguments") -> Exception:
    """The error that says what is wrong with an argument."""
    return InvalidArgumentError(status, f"{name}: {text}")


_numpy_dtypes: dict[Any, str] = {}


def _numpy_dtype(dtype: Any) -> str | None:
    """f16, bf16, f32 or f64; None for any other."""
    found = _numpy_dtypes.get(dtype)
    if found is None and dtype.isnative:
        names = {"float16": "f16", "float32": "f32", "float64": "f64"}
        # NumPy has no bfloat16 of its own; the package ml_dtypes has.
        names["bfloat16"] = "bf16"
        found = names.get(dtype.name)
        if found is not None and dtype.itemsize == _ITEM_SIZES[found]:
            _numpy_dtypes[dtype] = found
    return found


def _from_numpy(name: str, source: Any, written: bool) -> Array:
    dtype = _numpy_dtype(source.dtype)
    if dtype is None:
        raise bad(
            name, f"data type {source.dtype}; {ALLOWED_DTYPES}", "invalid_data_type"
        )
    size = _ITEM_SIZES[dtype]
    pointer = source.__array_interface__["data"][0]
    if written and not source.flags.writeable:
        raise bad(name, "the array is read-only")
    keep = source
    steps = source.strides
    irregular = pointer % size
    for step in steps:
        if step < 0 or step % size:
            irregular = True
    if irregular:
        if written:
            raise bad(
                name,
                f"strides of {steps} bytes at address {pointer:#x}; an "
                f"array that is written must have strides that are multiples of "
                f"{size}, none of them negative, and aligned memory",
            )
        keep = source.copy(order="C")
        pointer = keep.__array_interface__["data"][0]
        steps = keep.strides
    strides = tuple([step // size for step in steps])
    return Array(dtype, keep.shape, strides, pointer, ("cpu", 0), source, keep)


_torch_dtypes: dict[Any, str] = {}


def _no_memory(name: str) -> TypeError:
    return TypeError(
        f"{name} is a tensor without memory of its own, as inside of torch.vmap, "
        "torch.func.grad and torch.compile; a tensor of values is expected. Give "
        "all samples at once, along the batch axis, or use gradnn.torch.enable(), "
        "whose gradients PyTorch's transforms know"
    )


def _is_wrapped(source: Any) -> bool:
    """Whether a tensor of PyTorch stands for another one in a transform."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(source, torch.Tensor):
        return False
    fake = sys.modules.get("torch._subclasses.fake_tensor")
    return torch._C._functorch.is_functorch_wrapped_tensor(source) or (
        fake is not None and isinstance(source, fake.FakeTensor)
    )


def _from_torch(name: str, source: Any, written: bool) -> Array | None:
    """A plain tensor on the CPU, which takes less time than by DLPack; None for
    any other."""
    torch = sys.modules["torch"]
    if source.layout is not torch.strided or source.device.type != "cpu":
        return None
    if not _torch_dtypes:
        names = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}
        names["float64"] = "f64"
        for theirs, ours in names.items():
            _torch_dtypes[getattr(torch, theirs)] = ours
    dtype = _torch_dtypes.get(source.dtype)
    if dtype is None:
        raise bad(
            name, f"data type {source.dtype}; {ALLOWED_DTYPES}", "invalid_data_type"
        )
    keep = source
    if source.is_neg():  # the sign is in a flag
        if written:
            raise bad(name, "a negated view cannot be written")
        keep = source.resolve_neg()
    dims = tuple(source.shape)
    try:
        pointer = keep.data_ptr()
    except RuntimeError:  # PyTorch's, of a tensor that has none
        pointer = 0
    if not pointer and source.numel():
        raise _no_memory(name)
    return Array(dtype, dims, keep.stride(), pointer, ("cpu", 0), source, keep)


_DEVICE_KINDS = {
    _dlpack.CPU: "cpu",
    _dlpack.CUDA_HOST: "cpu",
    _dlpack.CUDA: "gpu",
    _dlpack.CUDA_MANAGED: "gpu",
}


def _export(name: str, source: Any, device_type: int, stream: Any) -> Any:
    """The capsule of an array. `stream` is where the array shall be ready."""
    arguments: dict[str, Any] = {}
    if _DEVICE_KINDS[device_type] == "gpu":
        # DLPack: 1 is the legacy default stream; 0 is no valid value.
        arguments["stream"] = native_stream(source, stream) or 1
    if getattr(source, "requires_grad", False) is True:
        source = source.detach()
    try:
        try:
            return source.__dlpack__(max_version=(1, 0), **arguments)
        except TypeError:  # an exporter of DLPack before 1.0
            return source.__dlpack__(**arguments)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise bad(name, f"DLPack: {error}") from error


def _from_dlpack(name: str, source: Any, written: bool, stream: Any) -> Array:
    try:
        device_type, device_id = source.__dlpack_device__()
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise bad(name, f"DLPack: {error}") from error
    device_type = int(device_type)
    if device_type not in _DEVICE_KINDS:
        raise UnsupportedError(
            "unimplemented",
            f"{name}: DLPack device type {device_type}; the CPU (1, 3) and CUDA "
            "(2, 13) are supported",
        )
    if written and _root(source) in ("jax", "jaxlib"):
        raise bad(name, "arrays of JAX cannot be written")
    capsule = _export(name, source, device_type, stream)
    try:
        found = _dlpack.read(capsule)
    except ValueError as error:
        raise bad(name, str(error)) from error
    if found.dtype is None:
        raise bad(
            name, f"data type {found.dtype_name}; {ALLOWED_DTYPES}", "invalid_data_type"
        )
    if written and found.read_only:
        raise bad(name, "the array is read-only")
    if any(step < 0 for step in found.strides):
        if not written and hasattr(source, "__array_namespace__"):
            dense = source.__array_namespace__().asarray(source, copy=True)
            return _from_dlpack(name, dense, False, stream)
        raise bad(name, f"strides {found.strides}; none may be negative")
    kind = _DEVICE_KINDS[device_type]
    return Array(
        found.dtype,
        found.dims,
        found.strides,
        found.pointer,
        (kind, int(device_id) if kind == "gpu" else 0),
        source,
        capsule,
    )


def array(
    name: str, source: Any, *, written: bool = False, stream: Any = None
) -> Array:
    """The argument `name` of a function."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(source, numpy.ndarray):
        return _from_numpy(name, source, written)
    torch = sys.modules.get("torch")
    if torch is not None and type(source) in (torch.Tensor, torch.nn.Parameter):
        found = _from_torch(name, source, written)
        if found is not None:
            return found
    if _is_wrapped(source):
        raise _no_memory(name)
    if not (hasattr(source, "__dlpack__") and hasattr(source, "__dlpack_device__")):
        raise _bad_type(name, source)
    return _from_dlpack(name, source, written, stream)


def shape_alone(name: str, dims: tuple[int, ...], like: Array) -> Array:
    """An array that is not there: its data is not read."""
    # Dims of 0 do not count: strides must fit too.
    elements = math.prod(dim for dim in dims if dim)
    if elements * _ITEM_SIZES[like.dtype] >= 2**63:
        raise bad(name, f"{dims} reaches beyond 2^63 bytes", "invalid_shape")
    return Array(
        like.dtype, dims, _dlpack.dense_strides(dims), None, like.device, None, None
    )


def native_stream(source: Any, stream: Any) -> int | None:
    """A cudaStream_t as an integer: `stream` (an integer or a stream object), or
    where that is None the current stream of the array's library."""
    if stream is not None:
        if hasattr(stream, "__cuda_stream__"):
            return int(stream.__cuda_stream__()[1])
        for attribute in ("cuda_stream", "ptr"):  # PyTorch, CuPy
            if hasattr(stream, attribute):
                return int(getattr(stream, attribute))
        if hasattr(stream, "__index__") and not isinstance(stream, bool):
            return int(stream)
        raise TypeError(
            f"stream is a {type(stream).__name__}; an integer (cudaStream_t) or a "
            "stream of PyTorch, CuPy or cuda.core is expected"
        )
    root = _root(source)
    if root == "torch":
        return int(sys.modules["torch"].cuda.current_stream(source.device).cuda_stream)
    if root == "cupy":
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    return None


def queue(like: Array, stream: Any) -> int | None:
    """The stream that a call with `like` as its first array runs on: None on the
    CPU, 0 for the legacy default stream."""
    if like.device[0] == "cpu":
        return None
    return native_stream(like.source, stream) or 0


def _on_stream(
    like: Array, stream: int | None
) -> contextlib.AbstractContextManager[Any]:
    """Within it, the array's library allocates for a stream of the device."""
    stack = contextlib.ExitStack()
    if like.device[0] != "gpu":
        return stack
    root, index = _root(like.source), like.device[1]
    if root == "torch":
        cuda = sys.modules["torch"].cuda
        if stream:
            stack.enter_context(cuda.stream(cuda.ExternalStream(stream, device=index)))
        else:
            stack.enter_context(cuda.stream(cuda.default_stream(index)))
    elif root == "cupy":
        cuda = sys.modules["cupy"].cuda
        stack.enter_context(cuda.Device(index))
        stack.enter_context(
            cuda.ExternalStream(stream, index) if stream else cuda.Stream.null
        )
    return stack


def empty(like: Array, dims: tuple[int, ...], stream: int | None) -> Any:
    """A new array of the library, data type and device of another, in C order."""
    source = like.source
    root = _root(source)
    if root == "numpy":
        return sys.modules["numpy"].empty(dims, dtype=source.dtype)
    if root in ("jax", "jaxlib"):
        raise UnsupportedError(
            "unimplemented",
            "arrays of JAX cannot be written; gradnn.jax computes on them",
        )
    with _on_stream(like, stream):
        if root == "torch":
            return sys.modules["torch"].empty(
                dims, dtype=source.dtype, device=source.device
            )
        if root == "cupy":
            return sys.modules["cupy"].empty(dims, dtype=source.dtype)
        if hasattr(source, "__array_namespace__"):
            return source.__array_namespace__().empty(
                dims, dtype=source.dtype, device=source.device
            )
    raise TypeError(f"out: gradnn cannot allocate a {type(source).__name__}; pass out=")


def device_bytes(like: Array, size: int, stream: int | None) -> tuple[Any, int]:
    """Memory of a GPU at a multiple of 64: what keeps it, and its address."""
    root = _root(like.source)
    with _on_stream(like, stream):
        if root == "torch":
            torch = sys.modules["torch"]
            block = torch.empty(size + 63, dtype=torch.uint8, device=like.source.device)
            return block, (block.data_ptr() + 63) // 64 * 64
        if root == "cupy":
            cupy = sys.modules["cupy"]
            block = cupy.empty(size + 63, dtype=cupy.uint8)
            return block, (block.data.ptr + 63) // 64 * 64
        if hasattr(like.source, "__array_namespace__"):
            space = like.source.__array_namespace__()
            block = space.empty(size + 63, dtype=space.uint8, device=like.source.device)
            capsule = block.__dlpack__()
            return (block, capsule), (_dlpack.read(capsule).pointer + 63) // 64 * 64
    raise UnsupportedError(
        "unimplemented",
        f"gradnn cannot allocate {size} bytes of workspace by the library of a "
        f"{type(like.source).__name__}; PyTorch's and CuPy's serve",
    )
