from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeVar

class SupportsDLPack(Protocol):
    """NumPy's arrays, PyTorch's and JAX's, and everything else that exports DLPack."""

    @property
    def shape(self) -> Sequence[int]: ...
    def __dlpack__(self, *, stream: Any = ...) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

_Array = TypeVar("_Array", bound=SupportsDLPack)
_PerAxis = int | Sequence[int]
_Padding = (
    Literal["valid", "same_upper", "same_lower"] | int | Sequence[int | Sequence[int]]
)
_Format = Literal["NCX", "NXC"]
_FpMath = Literal["strict", "bf16", "f16", "tf32", "any"]

__version__: str

class Error(RuntimeError):
    status: str
    def __init__(self, status: str, message: str) -> None: ...

class InvalidArgumentError(Error, ValueError): ...
class UnsupportedError(Error, NotImplementedError): ...
class OutOfMemoryError(Error, MemoryError): ...

def version() -> str: ...
def onednn_version() -> str: ...
def device_count(kind: Literal["cpu", "gpu"]) -> int: ...
def interpolate_backward(
    grad_output: _Array,
    input_shape: Sequence[int],
    *,
    mode: Literal[
        "nearest", "linear", "bilinear", "trilinear", "cubic", "bicubic"
    ] = "linear",
    coordinate_transformation_mode: Literal[
        "half_pixel", "align_corners", "asymmetric"
    ] = "half_pixel",
    scales: float | Sequence[float] | None = None,
    ratios: float | Sequence[float] | None = None,
    coordinate_arithmetic: Literal[
        "exact", "float32", "float32_fma", "float64"
    ] = "exact",
    cubic_coeff_a: float = -0.75,
    antialias: bool = False,
    exclude_outside: bool = False,
    data_format: _Format = "NCX",
    fpmath: _FpMath = "strict",
    deterministic: bool = True,
    threads: int = 0,
    stream: Any = None,
    out: _Array | None = None,
) -> _Array: ...
def conv_backward(
    grad_output: _Array,
    input: _Array | Sequence[int],
    weight: _Array | Sequence[int],
    *,
    strides: _PerAxis = 1,
    padding: _Padding = 0,
    dilations: _PerAxis = 1,
    groups: int = 1,
    data_format: _Format = "NCX",
    weights_format: Literal["OIX", "XIO"] = "OIX",
    output_mask: Sequence[bool] = (True, True, True),
    fpmath: _FpMath = "strict",
    deterministic: bool = True,
    threads: int = 0,
    stream: Any = None,
    out: Sequence[_Array | None] | None = None,
) -> tuple[_Array | None, _Array | None, _Array | None]: ...
def conv_transpose_backward(
    grad_output: _Array,
    input: _Array | Sequence[int],
    weight: _Array | Sequence[int],
    *,
    strides: _PerAxis = 1,
    padding: _Padding = 0,
    output_padding: _PerAxis = 0,
    dilations: _PerAxis = 1,
    groups: int = 1,
    data_format: _Format = "NCX",
    weights_format: Literal["IOX", "XOI"] = "IOX",
    output_mask: Sequence[bool] = (True, True, True),
    fpmath: _FpMath = "strict",
    deterministic: bool = True,
    threads: int = 0,
    stream: Any = None,
    out: Sequence[_Array | None] | None = None,
) -> tuple[_Array | None, _Array | None, _Array | None]: ...
