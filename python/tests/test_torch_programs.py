"""Networks as programs: traced, scripted, exported and packaged. What is made
while gradnn is enabled, or of gradnn.torch.interpolate, runs without gradnn."""

import io
import json
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import gradnn.torch  # noqa: E402
from torch_status import ran  # noqa: E402


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


class Both(torch.nn.Module):
    """With upsampling by either, for what takes long to compile."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.parts = torch.nn.ModuleList([Network(False), Network(True)])

    def forward(self, x):
        return torch.cat([part(x).flatten() for part in self.parts])


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


# Runs the lines that it is given, one JSON string each.
WITHOUT_GRADNN = """
import json, sys, traceback, torch
for line in sys.stdin:
    try:
        exec(json.loads(line), {"torch": torch})
        assert not any(name.startswith("gradnn") for name in sys.modules)
        said = ""
    except BaseException:
        said = traceback.format_exc()
    print(json.dumps(said), flush=True)
"""


@pytest.fixture(scope="module")
def process_without_gradnn():
    with subprocess.Popen(
        [sys.executable, "-c", WITHOUT_GRADNN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


@pytest.fixture
def runs_without_gradnn(process_without_gradnn, tmp_path):
    def check(load, want, file):
        """`load` are lines that make a function `program` of `path`."""
        torch.save((X, want), tmp_path / "want.pt")
        lines = (
            f"path = {str(file)!r}\n{load}\n"
            f"x, want = torch.load({str(tmp_path / 'want.pt')!r})\n"
            "torch.testing.assert_close(program(x), want)"
        )
        process_without_gradnn.stdin.write(json.dumps(lines) + "\n")
        process_without_gradnn.stdin.flush()
        said = process_without_gradnn.stdout.readline()
        assert said and not json.loads(said), said or "the process ended"

    return check


@pytest.mark.parametrize("way", ["trace", "script"])
def test_torchscript(network, way, switch, runs_without_gradnn, tmp_path):
    want = network(X).detach()
    made = torch.jit.trace(network, X) if way == "trace" else torch.jit.script(network)
    assert "gradnn::" not in str(made.inlined_graph)
    x = X.clone().requires_grad_()
    for _ in range(3):  # the profiling executor optimizes the second
        made(x).square().sum().backward()
    assert ran("upsample_bilinear2d_backward") == (3 if switch else 0)
    made.save(tmp_path / "program.pt")
    load = "program = torch.jit.load(path)"
    runs_without_gradnn(load, want, tmp_path / "program.pt")


def test_traced_code_runs_in_the_input_type_under_autocast(switch):
    def up(x):
        return gradnn.torch.interpolate(x, scale_factor=2.0, mode="bilinear")

    x = X.bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        traced = torch.jit.trace(up, x, check_trace=False)
    assert torch.equal(traced(x), up(x)) and traced(x).dtype == torch.bfloat16


@pytest.mark.parametrize("strict", [False, True])
def test_export(network, strict, switch, runs_without_gradnn, tmp_path):
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
    runs_without_gradnn(load, network(X).detach(), tmp_path / "program.pt2")


@pytest.mark.parametrize("switch", ["enabled"], indirect=True)
def test_aotinductor_package(switch, runs_without_gradnn, tmp_path):
    network = Both().eval()
    program = torch.export.export(network, (X,))
    # Packaged while gradnn is disabled, it would be PyTorch's own doing.
    gradnn.torch.disable()
    assert torch.export.export(network, (X,)).graph_module.code == (
        program.graph_module.code
    )
    gradnn.torch.enable()
    path = str(tmp_path / "network.pt2")
    config = {"cpp.vec_isa_ok": True}  # as in test_torch_compile.py
    torch._inductor.aoti_compile_and_package(
        program, package_path=path, inductor_configs=config
    )
    want = network(X).detach()
    torch.testing.assert_close(torch._inductor.aoti_load_package(path)(X), want)
    load = "program = torch._inductor.aoti_load_package(path)"
    runs_without_gradnn(load, want, path)


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


@pytest.mark.parametrize("switch", ["enabled"], indirect=True)
def test_training_with_the_cpp_wrapper(switch):
    import torch._inductor.config as config

    network = Both()
    x = X.clone().requires_grad_()
    (want,) = torch.autograd.grad(network(x).square().sum(), x)
    with config.patch({"cpp_wrapper": True, "cpp.vec_isa_ok": True}):
        compiled = torch.compile(network)
        (got,) = torch.autograd.grad(compiled(x).square().sum(), x)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
