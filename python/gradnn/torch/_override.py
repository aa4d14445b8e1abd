"""Puts gradnn's kernels at PyTorch's dispatch keys, and takes them away."""

from __future__ import annotations

import contextlib
import inspect
import os
import threading
import warnings
from collections.abc import Iterator

import torch

from . import _convolution, _graphs, _upsample
from ._native import native_kernel

_KEYS = {"cpu": "CPU", "cuda": "CUDA"}

_lock = threading.Lock()
_libraries: list[torch.library.Library] = []


def _register(library: torch.library.Library, name: str, kernel, key: str) -> None:
    options = {}
    if "allow_override" in inspect.signature(library.impl).parameters:
        options["allow_override"] = True
    with warnings.catch_warnings():
        # That a kernel is overridden is what the caller asked for.
        warnings.simplefilter("ignore")
        library.impl(name, kernel, key, **options)


def _override(device: str) -> torch.library.Library:
    key = _KEYS[device]
    library = torch.library.Library("aten", "IMPL")
    name = _convolution.OP
    _register(
        library, name, _convolution.make_kernel(device, native_kernel(name, key)), key
    )
    for which in _upsample.UPSAMPLINGS:
        name = which.backward
        kernel = _upsample.make_kernel(which, device, native_kernel(name, key))
        _register(library, name, kernel, key)
    return library


def enable() -> None:
    """From now on PyTorch takes the gradients of convolution and upsampling on
    the CPU and on CUDA devices from gradnn, where gradnn has them. Does nothing
    where the environment variable GRADNN_TORCH is 0, or when enabled already.
    Touches no GPU."""
    if os.environ.get("GRADNN_TORCH") == "0":
        return
    with _lock:
        if _libraries:
            return
        # A build of PyTorch without CUDA has no CUDA kernels to override.
        devices = ["cpu"] + (["cuda"] if torch.backends.cuda.is_built() else [])
        try:
            for device in devices:
                _libraries.append(_override(device))
        except BaseException:
            _take_away()
            raise
        _graphs.enable()


def _take_away() -> None:
    while _libraries:
        _libraries.pop()._destroy()


def disable() -> None:
    """PyTorch computes its gradients itself again."""
    with _lock:
        _graphs.disable()
        _take_away()


def is_enabled() -> bool:
    """Whether enable() is in force."""
    return bool(_libraries)


@contextlib.contextmanager
def enabled() -> Iterator[None]:
    """`with gradnn.torch.enabled():` enables for the block. The switch is the
    process's: other threads are enabled too."""
    before = is_enabled()
    enable()
    try:
        yield
    finally:
        if not before:
            disable()


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """`with gradnn.torch.disabled():` disables for the block."""
    before = is_enabled()
    disable()
    try:
        yield
    finally:
        if before:
            enable()
