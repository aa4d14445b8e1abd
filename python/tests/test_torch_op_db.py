"""PyTorch's own samples of these ops: enabled against disabled."""

import importlib.util
import sys
import types
import unittest
import unittest.mock

import pytest

torch = pytest.importorskip("torch")

if importlib.util.find_spec("expecttest") is None:
    # PyTorch's samples take nothing of it but the name of a base class.
    expecttest = types.ModuleType("expecttest")
    expecttest.TestCase = unittest.TestCase
    sys.modules["expecttest"] = expecttest

# At its import this forbids the process to set the flags of torch.backends, which
# other tests do.
with unittest.mock.patch.object(torch.backends, "disable_global_flags", lambda: None):
    import torch.testing._internal.common_methods_invocations as methods

import gradnn.torch  # noqa: E402

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])

NAMES = (
    "nn.functional.interpolate",
    "nn.functional.upsample_nearest",
    "nn.functional.upsample_bilinear",
    "nn.functional.conv1d",
    "nn.functional.conv2d",
    "nn.functional.conv3d",
    "nn.functional.conv_transpose1d",
    "nn.functional.conv_transpose2d",
    "nn.functional.conv_transpose3d",
)
PYTORCHS = ("area", "bicubic")  # what interpolate has beside gradnn's modes
OPS = [op for op in methods.op_db if op.name in NAMES]


def gradients(op, sample):
    tensors = [sample.input, *sample.args, *sample.kwargs.values()]
    leaves = [t for t in tensors if torch.is_tensor(t) and t.requires_grad]
    result = op(sample.input, *sample.args, **sample.kwargs)
    generator = torch.Generator().manual_seed(0)
    grad = torch.randn(result.shape, generator=generator, dtype=torch.float64)
    grad = grad.to(result.device, result.dtype)
    return torch.autograd.grad(result, leaves, grad)


@pytest.fixture(autouse=True)
def fresh():
    gradnn.torch.reset_status()
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.formatted_name)
def test_samples(op, dtype, device):
    if dtype not in op.supported_backward_dtypes(device):
        pytest.skip("PyTorch has no gradient of this type")
    tolerance = {torch.float64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 3e-2}
    tried = 0
    for sample in op.sample_inputs(device, dtype, requires_grad=True):
        if not torch.is_tensor(sample.input) or not sample.input.requires_grad:
            continue
        want = gradients(op, sample)
        with gradnn.torch.enabled():
            got = gradients(op, sample)
        for a, b in zip(got, want):
            scale = max(b.abs().max().item(), 1.0) if b.numel() else 1.0
            torch.testing.assert_close(
                a, b, rtol=tolerance[dtype], atol=tolerance[dtype] * scale
            )
            assert a.shape == b.shape and a.dtype == b.dtype
            for size, ours, theirs in zip(a.shape, a.stride(), b.stride()):
                assert size == 1 or ours == theirs
        tried += 1
    assert tried
    if op.variant_test_name in PYTORCHS:
        return
    served = [each for each in gradnn.torch.status() if each["ran"] == "gradnn"]
    assert served and {each["device"] for each in served} == {device}
