"""Workspace on the CPU, of the blocks that the library keeps between calls."""

from __future__ import annotations

from ctypes import c_size_t, c_void_p

from .._library import library

# Smaller ones take no page faults of their own: malloc keeps them.
_LARGE = 1 << 20

for _name, _result, _arguments in (
    ("take_workspace", c_void_p, [c_size_t]),
    ("workspace_data", c_void_p, [c_void_p]),
    ("return_workspace", None, [c_void_p]),
    ("kept_workspace", c_size_t, []),
    ("release_workspace", None, []),
):
    _function = getattr(library, f"gradnn_torch_{_name}")
    _function.restype = _result
    _function.argtypes = _arguments


class Workspace:
    """A block, returned when the object goes."""

    __slots__ = ("_taken",)

    def __init__(self, size: int) -> None:
        self._taken = library.gradnn_torch_take_workspace(size)
        if not self.data_ptr():
            raise MemoryError(f"no memory for {size} bytes of workspace")

    def __del__(self) -> None:
        library.gradnn_torch_return_workspace(self._taken)

    def data_ptr(self) -> int | None:
        return library.gradnn_torch_workspace_data(self._taken)


def is_kept(size: int, device: str) -> bool:
    """Whether workspace of this size comes from here, not from PyTorch."""
    return device == "cpu" and size > _LARGE


def kept_memory() -> int:
    """Bytes of workspace on the CPU that gradnn keeps for later gradients, at most
    256 MiB (and in each thread up to 2 MiB that are not counted)."""
    return library.gradnn_torch_kept_workspace()


def release_memory() -> None:
    """Gives that memory back to the system; disable() does too."""
    library.gradnn_torch_release_workspace()
