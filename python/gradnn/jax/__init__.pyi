from collections.abc import Sequence
from typing import Any

import jax
from jax.image import ResizeMethod
from jax.lax import ConvDimensionNumbers
from jax.typing import ArrayLike, DTypeLike

def resize(
    image: ArrayLike,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = jax.lax.Precision.HIGHEST,
) -> jax.Array: ...
def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvDimensionNumbers
    | tuple[str, str, str]
    | Sequence[Sequence[int]]
    | None = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> jax.Array: ...
def get_num_threads() -> int: ...
def set_num_threads(threads: int) -> None: ...
def status() -> list[dict[str, object]]: ...
def reset_status() -> None: ...
