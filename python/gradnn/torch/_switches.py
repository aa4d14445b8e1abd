"""PyTorch's own switches, as gradnn's compile settings."""

from __future__ import annotations

import ctypes

import torch

from .._library import library

library.gradnn_torch_thread_limit.restype = ctypes.c_int
library.gradnn_torch_thread_limit.argtypes = []

_FPMATH = {"ieee": "strict", "none": "strict", "tf32": "tf32", "bf16": "bf16"}


def _fp32_precision(backend: str, op: str) -> str:
    getter = getattr(torch._C, "_get_fp32_precision_getter", None)
    return "none" if getter is None else getter(backend, op)


def threads() -> int:
    """PyTorch's, or OMP_THREAD_LIMIT where that is less: it runs on no more."""
    return min(torch.get_num_threads(), library.gradnn_torch_thread_limit())


def cpu_key(dtype: torch.dtype) -> tuple:
    """What a plan on the CPU depends on beside its tensors."""
    precision = None
    if dtype is torch.float32:
        precision = _fp32_precision("mkldnn", "conv")
    return threads(), precision


def cpu_settings(dtype: torch.dtype) -> dict[str, object]:
    count, precision = cpu_key(dtype)
    return dict(threads=count, fpmath=_FPMATH.get(precision or "none", "strict"))


def cuda_key(dtype: torch.dtype) -> tuple:
    """The same on a GPU."""
    tf32 = False
    if dtype is torch.float32:
        if hasattr(torch._C, "_get_fp32_precision_getter"):
            tf32 = _fp32_precision("cuda", "conv") == "tf32"
        else:
            tf32 = torch.backends.cudnn.allow_tf32
    # Where cuDNN is switched off, PyTorch gives gradients other strides.
    return tf32, torch.backends.cudnn.benchmark, torch._C._get_cudnn_enabled()


def cuda_settings(dtype: torch.dtype) -> dict[str, object]:
    tf32, benchmark, _ = cuda_key(dtype)
    return dict(fpmath="tf32" if tf32 else "strict", autotune=benchmark)
