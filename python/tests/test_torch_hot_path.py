"""The library's kernels for PyTorch against the Python ones: the same bits, in
any thread."""

import itertools
import os
import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import gradnn.torch  # noqa: E402
from gradnn.torch import _hot  # noqa: E402

pytestmark = pytest.mark.skipif(
    bool(_hot.missing("cpu")), reason=f"PyTorch has no {_hot.missing('cpu')}"
)

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@pytest.fixture
def enable(monkeypatch):
    """enable("hot") or enable("python")."""

    def switch(kernels):
        gradnn.torch.disable()
        monkeypatch.setenv("GRADNN_TORCH_KERNELS", kernels)
        gradnn.torch.enable()

    yield switch
    gradnn.torch.disable()


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments],
        check=True, capture_output=True, text=True,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), **environment),
    )  # fmt: skip


def without_python(op):
    """How many calls of an op the library computed itself."""
    return sum(calls for key, calls in _hot._counts() if key[0] == op)


def random(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator).to(dtype)


def upsample_calls():
    """Op and arguments after grad_output, which has the shape (2, 3, *sizes)."""
    for axes in (1, 2, 3):
        small, large = [4, 5, 3][:axes], [7, 11, 6][:axes]
        input_size = [2, 3, *small]
        for name in (f"upsample_nearest{axes}d", f"_upsample_nearest_exact{axes}d"):
            for scales in ([None] * axes, [1.75, 2.2, 2.0][:axes]):
                yield f"{name}_backward", large, (input_size, *scales)
        linear = ("linear1d", "bilinear2d", "trilinear3d")[axes - 1]
        for corners, given in itertools.product((False, True), (False, True)):
            scales = [1.75, 2.2, 2.0][:axes] if given else [None] * axes
            yield (
                f"upsample_{linear}_backward",
                large,
                (input_size, corners, *scales),
            )


def convolution_calls():
    """The arguments of convolution_backward, less the mask."""
    for axes, transposed, groups, step in itertools.product(
        (1, 2, 3), (False, True), (1, 2), (1, 2)
    ):
        x = random(2, 4, *[9, 7, 6][:axes])
        w = random(4, 6 // groups, *[3] * axes) if transposed else random(
            6, 4 // groups, *[3] * axes
        )
        steps, pads, one = [step] * axes, [1] * axes, [1] * axes
        more = [step - 1] * axes if transposed else [0] * axes
        y = torch.convolution(x, w, None, steps, pads, one, transposed, more, groups)
        yield (
            random(*y.shape), x, w, [6], steps, pads, one, transposed, more, groups,
        )  # fmt: skip


def formats(tensor):
    yield tensor
    if tensor.ndim == 4:
        yield tensor.contiguous(memory_format=torch.channels_last)
    yield torch.stack([tensor, tensor], -1)[..., 0]  # strides of two


def results(made):
    return (made,) if isinstance(made, torch.Tensor) else made


def assert_same(ours, theirs):
    for a, b in zip(results(ours), results(theirs)):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.stride() == b.stride() and a.dtype == b.dtype
            assert torch.equal(a, b)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("number", range(len(list(upsample_calls()))))
def test_upsample_bits(enable, number, dtype):
    name, sizes, rest = list(upsample_calls())[number]
    op = getattr(torch.ops.aten, name)
    for grad in formats(random(2, 3, *sizes, dtype=dtype)):
        enable("python")
        expected = op(grad, sizes, *rest)
        enable("hot")
        assert_same(op(grad, sizes, *rest), expected)
        before = without_python(name)
        assert_same(op(grad, sizes, *rest), expected)
        assert without_python(name) == before + 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("number", range(len(list(convolution_calls()))))
def test_convolution_bits(enable, number, dtype):
    given = list(convolution_calls())[number]
    op = torch.ops.aten.convolution_backward
    tensors, rest = [each.to(dtype) for each in given[:3]], given[3:]
    for mask in itertools.product((False, True), repeat=3):
        if not any(mask):
            continue
        bias = rest[:1] if mask[2] else (None,)
        arguments = (*tensors, *bias, *rest[1:], list(mask))
        enable("python")
        expected = op(*arguments)
        assert [each is not None for each in expected] == list(mask)
        enable("hot")
        assert_same(op(*arguments), expected)
        before = without_python("convolution_backward")
        assert_same(op(*arguments), expected)
        assert without_python("convolution_backward") == before + 1


def test_disabled_is_pytorch(enable):
    """PyTorch's kernels, called by the library, give what the op gave before."""
    native = run(__file__)
    enable("hot")
    gradnn.torch.disable()
    gradnn.torch.reset_status()
    for _ in range(3):  # by Python, then without
        assert checksums() == native.stdout.split()
    assert gradnn.torch.status() == []


def checksums():
    """Of the results of all calls above."""
    made = []
    for name, sizes, rest in upsample_calls():
        grad = random(2, 3, *sizes)
        made.append(getattr(torch.ops.aten, name)(grad, sizes, *rest))
    for given in convolution_calls():
        made += torch.ops.aten.convolution_backward(*given, [True] * 3)
    return [f"{each.stride()}{each.numpy().tobytes().hex()}".replace(" ", "")
            for each in made]  # fmt: skip


@pytest.mark.parametrize("kernels", ("hot", "python"))
def test_gradcheck(enable, kernels):
    enable(kernels)

    def inputs(*shapes):
        return [random(*s, dtype=torch.float64).requires_grad_() for s in shapes]

    for function, given in [
        (lambda x, w, b: F.conv2d(x, w, b, 2, 1), inputs((1, 2, 5, 5), (3, 2, 3, 3), (3,))),
        (lambda x, w: F.conv_transpose1d(x, w), inputs((1, 2, 4), (2, 3, 3))),
        (lambda x: F.interpolate(x, (5, 7), mode="bilinear"), inputs((1, 2, 3, 4))),
        (lambda x: F.interpolate(x, scale_factor=1.7), inputs((1, 2, 5))),
    ]:  # fmt: skip
        assert torch.autograd.gradcheck(function, given)
        assert torch.autograd.gradgradcheck(function, given)


def test_switches_are_seen(enable):
    enable("hot")
    grad, x, w = random(1, 4, 5, 5), random(1, 4, 5, 5), random(4, 4, 3, 3)
    name = "convolution_backward"

    def conv():
        before = without_python(name)
        one = [1, 1]
        torch.ops.aten.convolution_backward(
            grad, x, w, None, one, one, one, False, [0, 0], 1, [True, True, False]
        )
        return without_python(name) - before

    assert [conv(), conv()] == [0, 1]
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        assert [conv(), conv()] == [0, 1]
    finally:
        torch.set_num_threads(threads)
    assert conv() == 1
    if not hasattr(torch.backends.mkldnn, "conv"):
        return
    precision = torch.backends.mkldnn.conv.fp32_precision
    try:
        torch.backends.mkldnn.conv.fp32_precision = "bf16"
        assert [conv(), conv()] == [0, 1]
    finally:
        torch.backends.mkldnn.conv.fp32_precision = precision
    assert conv() == 1


def test_bad_calls_are_not_kept(enable):
    enable("hot")
    gradnn.torch.reset_status()
    grad = random(1, 2, 6, 6)
    up = torch.ops.aten.upsample_bilinear2d_backward
    for _ in range(3):
        with pytest.raises(RuntimeError, match="same shape"):
            up(grad, [6, 7], [1, 2, 3, 3], False, None, None)
        with pytest.raises(NotImplementedError, match="Int"):
            up(grad.int(), [6, 6], [1, 2, 3, 3], False, None, None)
    assert without_python("upsample_bilinear2d_backward") == 0
    with pytest.raises(RuntimeError):
        up(None, [6, 6], [1, 2, 3, 3], False, None, None)


def test_pytorch_s_kernels(enable):
    """What gradnn does not compute comes to PyTorch's kernels, counted."""
    enable("hot")
    gradnn.torch.reset_status()
    empty = random(0, 2, 6, 6)
    up = torch.ops.aten.upsample_nearest2d_backward
    made = [up(empty, [6, 6], [0, 2, 3, 3], None, None) for _ in range(4)]
    assert all(each.shape == (0, 2, 3, 3) for each in made)
    assert without_python("upsample_nearest2d_backward") == 0
    (entry,) = gradnn.torch.status()
    assert entry["calls"] == 4 and entry["ran"] == "pytorch"


def test_old_plans_go(enable):
    enable("hot")
    name = "upsample_nearest1d_backward"

    def call(size):
        before = without_python(name)
        torch.ops.aten.upsample_nearest1d_backward(
            torch.empty(1, 1, 2), [2], [1, 1, size], None
        )
        return without_python(name) - before

    assert [call(1), call(1)] == [0, 1]
    for size in range(2, 4200):
        call(size)
    assert [call(4199), call(1), call(1)] == [1, 0, 1]


def test_threads(enable):
    enable("hot")
    x = random(2, 4, 9, 9)
    w = random(6, 4, 3, 3)

    def gradients():
        leaves = [each.clone().requires_grad_() for each in (x, w)]
        y = F.interpolate(F.conv2d(*leaves, padding=1), size=(17, 18), mode="bilinear")
        y.square().sum().backward()
        return [each.grad for each in leaves]

    by_gradnn = gradients()
    gradnn.torch.disable()
    by_pytorch = gradients()
    failures = []

    def work():
        try:
            torch.set_num_threads(2)
            for _ in range(150):
                for ours, a, b in zip(gradients(), by_gradnn, by_pytorch):
                    # The switch may fall between two ops.
                    torch.testing.assert_close(ours, a, rtol=1e-3, atol=1e-3)
                    torch.testing.assert_close(ours, b, rtol=1e-3, atol=1e-3)
        except BaseException as failure:  # noqa: BLE001
            failures.append(failure)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for each in workers:
        each.start()
    switched = 0
    while any(each.is_alive() for each in workers):
        gradnn.torch.enable()
        gradnn.torch.disable()
        if switched % 10 == 0:
            _hot.forget()
        switched += 1
    assert not failures, failures[0]
    assert switched > 10
    gradnn.torch.enable()
    assert all(torch.equal(a, b) for a, b in zip(gradients(), by_gradnn))


def test_unregister():
    """PyTorch's dispatcher is as it was, and takes the kernels again."""
    code = """
import torch, gradnn.torch
from gradnn.torch import _hot
ops = ["aten::convolution_backward", "aten::upsample_linear1d_backward"]
tables = lambda: [torch._C._dispatch_dump_table(op) for op in ops]
def grad():
    x = torch.ones(1, 1, 4, requires_grad=True)
    torch.nn.functional.interpolate(x, scale_factor=2, mode="linear").sum().backward()
    return x.grad
before = tables()
_hot.unregister()
for _ in range(8):
    gradnn.torch.enable()
    assert tables() != before
    for _ in range(3):
        grad()
    gradnn.torch.disable()
    assert tables() != before
    _hot.unregister()
    assert tables() == before
    grad()
(entry,) = gradnn.torch.status()
assert (entry["ran"], entry["calls"]) == ("gradnn", 24), entry
(counted,) = _hot._counts()
assert counted[1] == 23, counted  # all but the first, also after the way back
"""
    run("-c", code)


def test_missing_functions():
    code = """
import os, torch, gradnn.torch
from gradnn.torch import _hot
folder = os.path.join(os.path.dirname(torch.__file__), "lib")
for name in ("libc10.so", "libno.so"):
    path = os.path.join(folder, name).encode()
    assert not _hot.library.gradnn_torch_bind(0, path)
    assert not _hot.library.gradnn_torch_register(0)
    print(_hot.library.gradnn_torch_missing().decode())
_hot.missing = lambda device: "a function"
gradnn.torch.enable()
x = torch.ones(1, 1, 4, requires_grad=True)
for _ in range(3):
    torch.nn.functional.interpolate(x, scale_factor=2).sum().backward()
assert _hot._counts() == [] and not _hot._registered
assert gradnn.torch.status()[0]["calls"] == 3
gradnn.torch.disable()
"""
    first, second = run("-c", code).stdout.split()
    assert first.startswith("aoti_torch_") and second.endswith("libno.so")


def test_nothing_is_said():
    code = """
import torch, gradnn.torch
gradnn.torch.enable()
x = torch.ones(1, 1, 4, requires_grad=True)
for _ in range(3):
    torch.nn.functional.interpolate(x, scale_factor=2).sum().backward()
gradnn.torch.disable()
torch.nn.functional.interpolate(x, scale_factor=2).sum().backward()
assert gradnn.torch.status()[0]["calls"] == 3
"""
    done = run("-c", code, PYTHONMALLOC="debug", PYTHONDEVMODE="0")
    assert done.stdout + done.stderr == ""


if __name__ == "__main__":
    print(*checksums())
