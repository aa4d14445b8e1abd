"""DLPack exporters written by hand, which count what becomes of them."""

import ctypes

import numpy as np

from gradnn import _dlpack

_api = ctypes.pythonapi
_destructor_type = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_new = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _destructor_type
)(("PyCapsule_New", _api))
# By address: in a destructor the capsule has no references any more.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)
_get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)

_alive = {}  # address of a managed tensor: what it keeps


@_destructor_type
def _destroy(capsule):
    for name in (b"dltensor", b"dltensor_versioned"):
        if _is_valid(capsule, name):  # not consumed: the capsule frees it
            owner, *_ = _alive.pop(_get(capsule, name))
            owner.freed += 1


class Exporter:
    """A NumPy array by DLPack alone. What is given besides is lied."""

    def __init__(
        self,
        array,
        *,
        versioned=False,
        version=(1, 0),
        read_only=False,
        offset=0,
        strides=True,
        device=(1, 0),
        lanes=1,
        code=None,
    ):
        self.array = array
        self.versioned = versioned
        self.version = version
        self.read_only = read_only
        self.offset = offset
        self.strides = strides
        self.device = device
        self.lanes = lanes
        self.code = code
        self.exported = 0
        self.freed = 0
        self.streams = []

    def __dlpack_device__(self):
        return self.device

    def _tensor(self, tensor):
        array = self.array
        shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
        steps = [step // array.itemsize for step in array.strides]
        strides = (ctypes.c_int64 * max(array.ndim, 1))(*steps)
        tensor.data = array.ctypes.data - self.offset
        tensor.byte_offset = self.offset
        tensor.device_type, tensor.device_id = self.device
        tensor.ndim = array.ndim
        code = {"f": 2, "i": 0, "u": 1}[array.dtype.kind]
        tensor.dtype.code = code if self.code is None else self.code
        tensor.dtype.bits = array.itemsize * 8
        tensor.dtype.lanes = self.lanes
        tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
        if self.strides:
            tensor.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))
        return shape, strides

    def __dlpack__(self, *, stream=None, **keywords):
        if keywords and not self.versioned:
            raise TypeError("max_version is not known here")
        self.streams.append(stream)
        if self.versioned:
            managed, name = _dlpack._ManagedVersioned(), b"dltensor_versioned"
            managed.major, managed.minor = self.version
            managed.flags = int(self.read_only)
        else:
            managed, name = _dlpack._Managed(), b"dltensor"
        keep = self._tensor(managed.tensor)
        address = ctypes.addressof(managed)
        _alive[address] = (self, managed, keep)
        self.exported += 1
        return _new(address, name, _destroy)


class WithNamespace(Exporter):
    """One whose library allocates: NumPy behind a mask."""

    dtype = np.dtype("f4")

    def __array_namespace__(self):
        return _Namespace


class _Namespace:
    uint8 = np.dtype("u1")

    @staticmethod
    def empty(shape, dtype, device):
        return WithNamespace(np.empty(shape, dtype), device=device)
