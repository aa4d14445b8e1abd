"""Networks as programs: traced, scripted, exported and packaged. What is made
while gradnn is enabled, or of gradnn.torch.interpolate, runs without gradnn."""

import io

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import gradnn.torch  # noqa: E402
from torch_status import ran  # noqa: E402
from torch_steps import run_python  # noqa: E402


class Network(torch.nn.Module):
    """With upsampling by torch.nn or by gradnn.torch.interpolate."""

    def __init__(self, by_gradnn: bool) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.up = torch.nn.Upsample(scale_factor=2, mode="bilinear")
        self.by_gradnn = by_gradnn

    def forward(self, x):
        x = self.conv(x)
        if self.by_gradnn:
            x = gradnn.torch.interpolate(x, scale_factor=2.0, mode="bilinear")
            x = gradnn.torch.interpolate(x, size=[17, 15])
            return gradnn.torch.interpolate(x, scale_factor=[1.5, 2.0])
        return F.interpolate(F.interpolate(self.up(x), size=[17, 15]), scale_factor=2.0)


X = torch.randn(1, 3, 8, 9, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True, params=["enabled", "disabled"])
def switch(request):
    gradnn.torch.reset_status()
    torch._dynamo.reset()
    if request.param == "enabled":
        gradnn.torch.enable()
    return request.param == "enabled"


@pytest.fixture(params=["module", "interpolate"])
def network(request, switch):
    if request.param == "module" and not switch:
        pytest.skip("has nothing of gradnn's")
    torch.manual_seed(1)
    return Network(request.param == "interpolate").eval()


def runs_without_gradnn(load, want, file, tmp_path):
    """`load` are lines that make a function `program` of `path`."""
    torch.save((X, want), tmp_path / "want.pt")
    result = run_python(
        f"import io, sys, torch\npath = {str(file)!r}\n{load}\n"
        f"x, want = torch.load({str(tmp_path / 'want.pt')!r})\n"
        "torch.testing.assert_close(program(x), want)\n"
        "assert not any(name.startswith('gradnn') for name in sys.modules)"
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("way", ["trace", "script"])
def test_torchscript(network, way, switch, tmp_path):
    want = network(X).detach()
    made = torch.jit.trace(network, X) if way == "trace" else torch.jit.script(network)
    assert "gradnn::" not in str(made.inlined_graph)
    x = X.clone().requires_grad_()
    for _ in range(3):  # the profiling executor optimizes the second
        made(x).square().sum().backward()
    assert ran("upsample_bilinear2d_backward") == (3 if switch else 0)
    made.save(tmp_path / "program.pt")
    load = "program = torch.jit.load(path)"
    runs_without_gradnn(load, want, tmp_path / "program.pt", tmp_path)


def test_traced_code_runs_in_the_input_type_under_autocast(switch):
    def up(x):
        return gradnn.torch.interpolate(x, scale_factor=2.0, mode="bilinear")

    x = X.bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        traced = torch.jit.trace(up, x, check_trace=False)
    assert torch.equal(traced(x), up(x)) and traced(x).dtype == torch.bfloat16


@pytest.mark.parametrize("strict", [False, True])
def test_export(network, strict, switch, tmp_path):
    program = torch.export.export(network, (X,), strict=strict)
    for each in (program, program.run_decompositions()):
        ops = {str(node.target) for node in each.graph.nodes}
        assert not any("gradnn" in op for op in ops), ops
        torch.testing.assert_close(each.module()(X), network(X))
    # Trained, it takes its gradients from gradnn.
    program.module()(X.clone().requires_grad_()).sum().backward()
    assert ran("upsample_bilinear2d_backward") == switch
    torch.export.save(program, tmp_path / "program.pt2")
    load = "program = torch.export.load(path).module()"
    runs_without_gradnn(load, network(X).detach(), tmp_path / "program.pt2", tmp_path)


def test_aotinductor_package(network, tmp_path):
    path = str(tmp_path / "network.pt2")
    config = {"cpp.vec_isa_ok": True}  # as in test_torch_compile.py
    torch._inductor.aoti_compile_and_package(
        torch.export.export(network, (X,)), package_path=path, inductor_configs=config
    )
    want = network(X).detach()
    torch.testing.assert_close(torch._inductor.aoti_load_package(path)(X), want)
    load = "program = torch._inductor.aoti_load_package(path)"
    runs_without_gradnn(load, want, path, tmp_path)


@pytest.mark.parametrize("dynamo", [False, True], ids=["torchscript", "dynamo"])
def test_onnx(network, dynamo):
    pytest.importorskip("onnx")
    if dynamo:
        pytest.importorskip("onnxscript")
    file = io.BytesIO()
    torch.onnx.export(network, (X,), file, dynamo=dynamo)
    import onnx

    model = onnx.load_from_string(file.getvalue())
    onnx.checker.check_model(model)
    assert {node.domain for node in model.graph.node} == {""}
    assert [node.op_type for node in model.graph.node].count("Resize") == 3
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(file.getvalue())
    (got,) = session.run(None, {session.get_inputs()[0].name: X.numpy()})
    want = network(X).detach()
    torch.testing.assert_close(torch.from_numpy(got), want, rtol=1e-4, atol=1e-4)


def test_compiled_inference_is_pytorchs(switch):
    """Where there is no gradient, the code is the same as without gradnn."""
    seen = []

    def backend(graph, inputs):
        seen.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    from torch._dynamo.backends.common import aot_autograd

    network = Network(False)
    compiled = torch.compile(network, backend=aot_autograd(fw_compiler=backend))
    with torch.no_grad():
        torch.testing.assert_close(compiled(X), network(X))
    assert seen and not any("gradnn" in op for op in seen)


@pytest.mark.parametrize("by_gradnn", [False, True])
@pytest.mark.parametrize("switch", ["enabled"], indirect=True)
def test_training_with_the_cpp_wrapper(by_gradnn, switch):
    import torch._inductor.config as config

    torch.manual_seed(1)
    network = Network(by_gradnn)
    x = X.clone().requires_grad_()
    (want,) = torch.autograd.grad(network(x).square().sum(), x)
    with config.patch({"cpp_wrapper": True, "cpp.vec_isa_ok": True}):
        compiled = torch.compile(network)
        (got,) = torch.autograd.grad(compiled(x).square().sum(), x)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
