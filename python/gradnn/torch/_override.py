"""Puts gradnn's kernels at PyTorch's dispatch keys, and takes them away."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import threading
import warnings
from collections.abc import Callable, Iterator

import torch

from . import _convolution, _graphs, _hot, _layouts, _upsample, _workspace
from ._native import native_kernel

_KEYS = {"cpu": "CPU", "cuda": "CUDA"}

_lock = threading.Lock()
_enabled = False
_libraries: list[torch.library.Library] = []  # of Python kernels


def _register(
    library: torch.library.Library, name: str, kernel, key: str, **options
) -> None:
    if "allow_override" in inspect.signature(library.impl).parameters:
        options["allow_override"] = True
    with warnings.catch_warnings():
        # That a kernel is overridden is what the caller asked for.
        warnings.simplefilter("ignore")
        library.impl(name, kernel, key, **options)


def _kernels(device: str) -> dict[str, tuple[Callable, Callable]]:
    """For each op PyTorch's kernel, and what makes ours of that; see _hot."""
    makers: dict[str, Callable] = {
        _convolution.OP: functools.partial(_convolution.make_kernel, device)
    }
    for which in _upsample.UPSAMPLINGS:
        makers[which.backward] = functools.partial(
            _upsample.make_kernel, which, device
        )
    key = _KEYS[device]
    return {name: (native_kernel(name, key), make) for name, make in makers.items()}


def _override(device: str) -> None:
    """By the library's kernels where this PyTorch has what they take, else by
    Python's."""
    kernels = _kernels(device)
    if _hot.is_wanted() and _hot.register(device, kernels):
        return
    library = torch.library.Library("aten", "IMPL")
    _libraries.append(library)
    for name, (native, make) in kernels.items():
        _register(library, name, make(native), _KEYS[device])


def enable() -> None:
    """From now on PyTorch takes the gradients of convolution and upsampling on
    the CPU and on CUDA devices from gradnn, where gradnn has them. Does nothing
    where the environment variable GRADNN_TORCH is 0, or when enabled already.
    Touches no GPU."""
    if os.environ.get("GRADNN_TORCH") == "0":
        return
    global _enabled
    with _lock:
        if _enabled:
            return
        # A build of PyTorch without CUDA has no CUDA kernels to override.
        devices = ["cpu"] + (["cuda"] if torch.backends.cuda.is_built() else [])
        try:
            for device in devices:
                _override(device)
        except BaseException:
            _take_away()
            raise
        _hot.set_enabled(_hot.is_wanted())
        _layouts.enable(_register)
        _graphs.enable()
        _enabled = True


def _take_away() -> None:
    _hot.set_enabled(False)
    while _libraries:
        _libraries.pop()._destroy()


def disable() -> None:
    """PyTorch computes its gradients itself again."""
    global _enabled
    with _lock:
        _enabled = False
        _graphs.disable()
        _layouts.disable()
        _take_away()
        _workspace.release_memory()


def is_enabled() -> bool:
    """Whether enable() is in force."""
    return _enabled


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
