"""The library's kernels for PyTorch's dispatcher, which run without Python.

They call PyTorch through its stable C functions (2.10 and later). The first call
of a kind comes here, to gradnn::slow_<op>: the Python kernel computes it and says
how such calls are computed from then on. src/torch/gradnn_torch.h is the contract.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import warnings
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p

import torch

from .. import _core
from .._library import Tensor, library
from . import _status
from ._plans import DTYPES, Plan, Unsupported

DEVICES = {"cpu": 0, "cuda": 1}

# Of PyTorch, both tested. Others have the Python kernels.
_OLDEST = (2, 11)
_NEWEST = (2, 15)


class _Count(ctypes.Structure):
    """gradnn_torch_count."""

    _fields_ = [
        ("op", c_char_p),
        ("device", c_char_p),
        ("how", c_char_p),
        ("calls", c_int64),
    ]


_SIGNATURES = {
    "gradnn_torch_bind": (c_int, [c_int, c_char_p]),
    "gradnn_torch_missing": (c_char_p, []),
    "gradnn_torch_register": (c_int, [c_int]),
    "gradnn_torch_unregister": (c_int, [c_int]),
    "gradnn_torch_set_enabled": (None, [c_int]),
    "gradnn_torch_call_enabled": (c_int, []),
    "gradnn_torch_keep_compiled": (
        None,
        [c_void_p, POINTER(Tensor), c_size_t, c_char_p, c_char_p, c_char_p],
    ),
    "gradnn_torch_keep_failure": (None, [c_void_p, c_char_p]),
    "gradnn_torch_count_entries": (c_size_t, []),
    "gradnn_torch_get_count": (c_int, [c_size_t, POINTER(_Count)]),
    "gradnn_torch_reset_counts": (None, []),
    "gradnn_torch_forget": (None, []),
}

for _name, (_result, _arguments) in _SIGNATURES.items():
    _function = getattr(library, _name)
    _function.restype = _result
    _function.argtypes = _arguments

# The ops gradnn::slow_<op>; kept, as the library's kernels are.
_slow = None
_prepared: set[str] = set()  # devices that gradnn::slow_<op> has a kernel for
_registered: set[str] = set()
_failures: set[type] = set()  # the library refers to them


def is_wanted() -> bool:
    """GRADNN_TORCH_KERNELS=python: the Python kernels alone."""
    return os.environ.get("GRADNN_TORCH_KERNELS") != "python"


def missing(device: str) -> str:
    """What there is not for the library's kernels of a device; "" where all is."""
    # What the C functions take and give back has no version of its own.
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if not _OLDEST <= version <= _NEWEST:
        return "a version of PyTorch that they were tested with"
    if not hasattr(torch.library, "get_kernel"):
        return "torch.library.get_kernel"
    folder = pathlib.Path(torch.__file__).parent / "lib"
    for each in ("cpu",) if device == "cpu" else ("cpu", "cuda"):
        path = folder / f"libtorch_{each}.so"
        if not library.gradnn_torch_bind(DEVICES[each], os.fsencode(path)):
            return library.gradnn_torch_missing().decode()
    return ""


def _keep(op: str, device: str, plan: Plan | Unsupported) -> None:
    if isinstance(plan, Unsupported):
        return  # Python calls PyTorch's kernel each time
    outputs = (Tensor * len(plan.outputs))()
    for target, each in zip(outputs, plan.outputs):
        if each is not None:
            target.data_type = _core.DATA_TYPES[DTYPES[each.dtype]]
            target.ndims = len(each.shape)
            target.dims[: target.ndims] = each.shape
            target.strides[: target.ndims] = each.strides
    library.gradnn_torch_keep_compiled(
        plan.compiled.handle,
        outputs,
        len(outputs),
        op.encode(),
        device.encode(),
        plan.kernels.encode(),
    )


def _slow_kernel(op: str, device: str, make: Callable, native: Callable) -> Callable:
    """The kernel of gradnn::slow_<op>: it never raises, since the library could
    not tell which exception it was."""
    compute = make(native, lambda plan: _keep(op, device, plan))
    count = len(getattr(torch.ops.aten, op).default._schema.returns)
    nothing = None if count == 1 else (None,) * count

    def slow(*args):
        try:
            if library.gradnn_torch_call_enabled():
                return compute(*args)
            return native(*args)
        except BaseException as failure:
            kind = type(failure)
            _failures.add(kind)
            library.gradnn_torch_keep_failure(
                id(kind), str(failure).encode(errors="replace")
            )
            return nothing

    return slow


def _define(op: str) -> None:
    schema = str(getattr(torch.ops.aten, op).default._schema)
    signature = schema[schema.index("(") :].replace("SymInt", "int")
    _slow.define(f"slow_{op}{signature}")
    _slow.impl(f"slow_{op}", torch.library.fallthrough_kernel, "Autograd")


def _take_warning() -> None:
    """PyTorch warns of the first kernel in the process that replaces another one.
    That is what the caller asked for, and from C++ it could not be silenced."""
    _slow.define("overridden() -> ()")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            _slow.impl("overridden", lambda: None, "CPU", allow_override=True)


def register(device: str, kernels: dict[str, tuple[Callable, Callable]]) -> bool:
    """Puts the library's kernels over PyTorch's on a device, where they stay; they
    compute as PyTorch does until enable(). `kernels` has for each
    op PyTorch's kernel and a function that makes ours from that and from a
    function to call with what computed a call. False where PyTorch lacks what it
    takes."""
    global _slow
    if device in _registered:
        return True
    if missing(device):
        return False
    if _slow is None:
        _slow = torch.library.Library("gradnn", "FRAGMENT")
        for op in kernels:
            _define(op)
        _take_warning()
    if device not in _prepared:
        for op, (native, make) in kernels.items():
            kernel = _slow_kernel(op, device, make, native)
            _slow.impl(f"slow_{op}", kernel, device.upper())
        _prepared.add(device)
    if not library.gradnn_torch_register(DEVICES[device]):
        return False
    _registered.add(device)
    return True


def unregister() -> None:
    """Takes the library's kernels out of PyTorch, until the next enable(), so that
    PyTorch can be measured. Only while gradnn is disabled and no thread computes a
    gradient: PyTorch does not take a kernel away safely from under a call."""
    for device in sorted(_registered):
        if not library.gradnn_torch_unregister(DEVICES[device]):
            raise RuntimeError(f"PyTorch keeps gradnn's kernels for {device}")
        _registered.discard(device)


def set_enabled(enabled: bool) -> None:
    library.gradnn_torch_set_enabled(enabled)


def forget() -> None:
    """What was computed before is new to the library again."""
    library.gradnn_torch_forget()


def _counts() -> list[tuple[tuple[str, str, str], int]]:
    """What the kernels counted: (op, device, how), calls."""
    result = []
    count = _Count()
    for index in range(library.gradnn_torch_count_entries()):
        if library.gradnn_torch_get_count(index, ctypes.byref(count)):
            key = tuple(
                text.decode(errors="replace")
                for text in (count.op, count.device, count.how)
            )
            result.append((key, count.calls))
    return result


_status.watch_library(_counts, library.gradnn_torch_reset_counts)
