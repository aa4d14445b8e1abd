"""That calls keep no memory, by the library's kernels and by PyTorch's."""

import ctypes
import gc
import sys

import pytest

torch = pytest.importorskip("torch")

import gradnn.torch  # noqa: E402
from torch_steps import run_python  # noqa: E402


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


class _MallocCounts(ctypes.Structure):
    """struct mallinfo2."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks",
        "uordblks", "fordblks", "keepcost",
    )]  # fmt: skip


mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)  # glibc 2.33
if mallinfo is not None:
    mallinfo.restype = _MallocCounts


def in_use():
    """Bytes that malloc gave out, and small objects of Python."""
    return mallinfo().uordblks, sys.getallocatedblocks()


def keeps_memory(call, count=2500):
    """Whether each call leaves a block of memory, of malloc's or of Python's."""
    for _ in range(1000):  # as many as fill the pools
        call()
    gc.collect()
    before = in_use()
    for _ in range(count):
        call()
    gc.collect()
    after = in_use()
    # malloc's smallest block has 32 bytes.
    return after[0] - before[0] > 20 * count or after[1] - before[1] > count // 2


pytestmark = pytest.mark.skipif(mallinfo is None, reason="glibc has no mallinfo2")


def test_a_leak_is_seen():
    kept = []
    assert keeps_memory(lambda: kept.append(object()))
    malloc = ctypes.CDLL(None).malloc
    assert keeps_memory(lambda: malloc(ctypes.c_size_t(1)) and None)
    assert not keeps_memory(lambda: torch.empty(3))


def test_memory_is_constant():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    up = torch.ops.aten.upsample_bilinear2d_backward
    conv = torch.ops.aten.convolution_backward
    grad, x, w = random(1, 4, 5, 5), random(1, 4, 5, 5), random(4, 4, 3, 3)
    one, rest = [1, 1], (False, [0, 0], 1)
    empty = random(0, 2, 6, 6)
    calls = (
        lambda: up(grad, [5, 5], [1, 4, 3, 3], False, 1.5, 1.5),
        lambda: conv(grad, x, w, [4], one, one, one, *rest, [True] * 3),
        lambda: conv(grad, x, w, None, one, one, one, *rest, [False, True, False]),
        lambda: conv(grad[:0], x[:0], w, [4], one, one, one, *rest, [True] * 3),
        lambda: up(empty, [6, 6], [0, 2, 3, 3], False, None, None),
    )
    gradnn.torch.enable()
    for each in calls:
        assert not keeps_memory(each)
    gradnn.torch.disable()
    for each in calls:
        assert not keeps_memory(each)
    torch.set_num_threads(threads)


WORKSPACE = """
import resource, torch, gradnn.torch as g
torch.set_num_threads(1)
g.enable()
x, w = torch.randn(1, 48, 16000, requires_grad=True), torch.randn(48, 128, 1)
y = torch.nn.functional.conv_transpose1d(x, w, stride=4)
grad = torch.randn_like(y)
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.autograd.grad(y, x, grad, retain_graph=True)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
for _ in range(3):
    faults()
kept = g.kept_memory()
print(kept, max(faults() for _ in range(5)))
g.release_memory()
print(g.kept_memory(), faults())
assert g.kept_memory() == kept
g.disable()
print(g.kept_memory())
"""


@pytest.mark.parametrize("kernels", ["", "python"])
def test_large_workspace_is_kept_and_given_back(kernels):
    result = run_python(WORKSPACE, GRADNN_TORCH_KERNELS=kernels)
    assert result.returncode == 0, result.stderr
    kept, few, released, many, at_last = map(int, result.stdout.split())
    assert 32 << 20 < kept <= 256 << 20
    assert released == at_last == 0
    # A page has 4 KiB; the gradient itself takes 3 MiB of new memory at most.
    assert few < 1500 and many > few + kept // 4096 * 3 // 4


def test_kept_workspace_is_bounded():
    from gradnn.torch._workspace import Workspace

    taken = [Workspace(size << 20) for size in (100, 90, 80, 70, 300)]
    del taken
    assert 0 < gradnn.torch.kept_memory() <= 256 << 20
    gradnn.torch.release_memory()
    assert gradnn.torch.kept_memory() == 0
