"""Functions of JAX whose gradients are gradnn's: the forward direction, and the
gradients that gradnn does not have, are JAX's own.

    import gradnn.jax
    y = gradnn.jax.resize(x, (8, 128, 128, 64), "linear")
    z = gradnn.jax.conv_general_dilated(x, w, (1, 1), "SAME",
                                        dimension_numbers=("NHWC", "HWIO", "NHWC"))

doc/jax.md says which gradients are gradnn's.
"""

from ._convolution import conv_general_dilated
from ._native import get_num_threads, set_num_threads
from ._resize import resize
from ._status import reset_status, status

__all__ = [
    "conv_general_dilated",
    "get_num_threads",
    "reset_status",
    "resize",
    "set_num_threads",
    "status",
]
