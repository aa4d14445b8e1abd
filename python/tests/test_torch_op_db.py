"""PyTorch's own samples of these ops: enabled against disabled."""

import pytest

torch = pytest.importorskip("torch")
methods = pytest.importorskip(
    "torch.testing._internal.common_methods_invocations",
    reason="wants expecttest and numpy",
)

import gradnn.torch  # noqa: E402

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
OPS = [op for op in methods.op_db if op.name in NAMES]


def gradients(op, sample):
    tensors = [sample.input, *sample.args, *sample.kwargs.values()]
    leaves = [t for t in tensors if torch.is_tensor(t) and t.requires_grad]
    result = op(sample.input, *sample.args, **sample.kwargs)
    generator = torch.Generator().manual_seed(0)
    grad = torch.randn(result.shape, generator=generator, dtype=torch.float64)
    return torch.autograd.grad(result, leaves, grad.to(result.dtype))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.formatted_name)
def test_samples(op, dtype):
    if dtype not in op.supported_backward_dtypes("cpu"):
        pytest.skip("PyTorch has no gradient of this type")
    tolerance = {torch.float64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 3e-2}
    tried = 0
    for sample in op.sample_inputs("cpu", dtype, requires_grad=True):
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
            assert a.shape == b.shape
        tried += 1
    assert tried
