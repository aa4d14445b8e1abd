"""torch.compile, export and deterministic algorithms."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import gradnn.torch  # noqa: E402
from torch_compiling import fresh  # noqa: E402, F401
from torch_status import ran  # noqa: E402


def network(x, w):
    y = F.conv2d(x, w, padding=1)
    y = F.interpolate(y.relu(), scale_factor=2, mode="bilinear")
    y = F.interpolate(y, size=(46, 30), mode="nearest")
    y = F.interpolate(y, size=(23, 20), mode="nearest-exact")
    return gradnn.torch.interpolate(y, scale_factor=1.5, mode="bilinear")


def gradients(function, memory_format=torch.contiguous_format):
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(2, 4, 14, 10, generator=generator)
    x = x.to(memory_format=memory_format).requires_grad_()
    w = torch.randn(6, 4, 3, 3, generator=generator).requires_grad_()
    function(x, w).square().sum().backward()
    return x.grad, w.grad


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_compile(backend, memory_format):
    gradnn.torch.enable()
    want = gradients(network, memory_format)
    gradnn.torch.reset_status()
    compiled = torch.compile(network, backend=backend, fullgraph=True)
    got = gradients(compiled, memory_format)
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)
    assert ran("convolution_backward") == 1
    assert ran("upsample_bilinear2d_backward") == 2
    assert ran("upsample_nearest2d_backward") == 1
    assert ran("_upsample_nearest_exact2d_backward") == 1


def test_compile_with_dynamic_shapes():
    gradnn.torch.enable()

    @torch.compile(backend="aot_eager", dynamic=True, fullgraph=True)
    def up(x):
        return F.interpolate(x, scale_factor=2.0, mode="bilinear")

    for size in (5, 8, 9):
        x = torch.randn(1, 2, size, size + 1, requires_grad=True)
        up(x).sum().backward()
        torch.testing.assert_close(x.grad.sum(), torch.tensor(4.0 * x.numel()))
    assert ran("upsample_bilinear2d_backward") == 3


def test_disabled_code_compiles_as_before():
    x = torch.randn(1, 2, 5, 5, requires_grad=True)

    def count_ops():
        seen = []

        def backend(graph, inputs):
            seen.extend(str(node.target) for node in graph.graph.nodes)
            return graph

        from torch._dynamo.backends.common import aot_autograd

        torch._dynamo.reset()
        torch.compile(
            lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
            backend=aot_autograd(fw_compiler=backend, bw_compiler=backend),
        )(x).sum().backward()
        return seen

    before = count_ops()
    assert not any("gradnn" in each for each in before)
    with gradnn.torch.enabled():
        assert any("gradnn.upsample" in each for each in count_ops())
    assert count_ops() == before


def test_deterministic_algorithms():
    gradnn.torch.enable()
    torch.use_deterministic_algorithms(True)
    try:
        gradients(network)
    finally:
        torch.use_deterministic_algorithms(False)
    assert ran("upsample_bilinear2d_backward") == 2


def test_the_deterministic_branch_calls_the_op():
    """What interpolate calls on GPUs while deterministic algorithms are on."""
    import importlib

    module = importlib.import_module("torch._decomp.decompositions")
    before = module._upsample_linear_vec
    x = torch.randn(1, 2, 5, 5, requires_grad=True)
    with gradnn.torch.enabled():
        y = module._upsample_linear_vec(x, [10, 10], False, None)
        assert torch.equal(y, F.interpolate(x, (10, 10), mode="bilinear"))
        y.sum().backward()
        assert ran("upsample_bilinear2d_backward") == 1
    assert module._upsample_linear_vec is before
