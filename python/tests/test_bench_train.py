"""bench/train: its report is complete, and gradnn's steps are what they must be.
On the CPU, with thin networks on tiny data."""

import json
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import gradnn.torch  # noqa: E402
from bench.train import __main__ as program  # noqa: E402
from bench.train import steps, table, trainer  # noqa: E402
from bench.train.networks import NETWORKS  # noqa: E402
from bench_sweep import documented  # noqa: E402

UPSAMPLINGS = {
    "deeplab": {"upsample_bilinear2d_backward"},
    "unet_bilinear": {"upsample_bilinear2d_backward"},
    "unet_nearest": {"upsample_nearest2d_backward"},
    "fpn": {"upsample_bilinear2d_backward", "upsample_nearest2d_backward"},
    "unet3d": {"upsample_trilinear3d_backward"},
}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    benchmark = torch.backends.cudnn.benchmark
    yield
    torch.set_num_threads(before)
    torch.backends.cudnn.benchmark = benchmark


def run(capsys, path, *options):
    given = ["--device", "cpu", "--small", "--threads", "1", "--seconds", "0"]
    code = program.main([*given, "--json", str(path), *options])
    report = json.loads(path.read_text())
    return code, report, capsys.readouterr().out


@pytest.mark.parametrize("name", NETWORKS)
def test_network(name, tmp_path, capsys):
    code, report, printed = run(
        capsys, tmp_path / "report.json", "--networks", name, "--no-calls"
    )
    assert code == 0
    assert not report["not_run"]
    network = NETWORKS[name]
    rows = {(row["dtype"], row["layout"]): row for row in report["rows"]}
    assert set(rows) == {(d, l) for d in ("bf16", "f32") for l in network.layouts}
    for (dtype, layout), row in rows.items():
        assert row["network"] == network.title
        for mode in trainer.MODES:
            found = row["modes"][mode]
            assert found["ms"] > 0 and found["first_step_s"] > 0
            assert found["same_bits"], (mode, found["unequal"])
        check_that_gradnn_served(row, name)
        theirs, ours = (row["modes"][m] for m in ("pytorch", "gradnn"))
        # bf16's difference is the forward's, so that both have about the same.
        off, limit = ours["difference"], theirs["difference"]
        assert 0 < off["max"] <= (1.1 if dtype == "bf16" else 4) * limit["max"]
        assert off["norm"] <= (0.6 if dtype == "bf16" else 1e-4)
        for found in (theirs, ours):
            assert 0 < found["profile"]["convolution_ms"] < found["profile"]["ms"]
        cells = table.cells(row)
        assert cells[:4] == [network.title, dtype, layout, "eager"]
        assert any(line.split() == " ".join(cells).split() for line in
                   printed.splitlines())  # fmt: skip
    assert "met:" not in printed and "missed:" not in printed


def check_that_gradnn_served(row, name):
    assert row["native"] == []
    by_gradnn = {each["op"] for each in row["status"] if each["ran"] == "gradnn"}
    wanted = UPSAMPLINGS.get(name, set()) | {"convolution_backward"}
    assert by_gradnn == wanted
    # The profiler saw the same ops in both steps.
    for mode in ("pytorch", "gradnn"):
        assert set(row["modes"][mode]["profile"]["ops"]) == wanted


def markdown_of(path, capsys):
    assert program.main(["--tables", str(path)]) == 0
    return capsys.readouterr().out


def check_runs(rows, run):
    """The steps of both runs have about the same gradients."""
    eager, other = rows
    assert [each["run"] for each in rows] == ["eager", run]
    assert set(other["modes"]) == {"pytorch", "gradnn"}
    for mode, found in other["modes"].items():
        assert found["ms"] > 0 and found["first_step_s"] > 0
        assert found["same_bits"] or mode == "pytorch", found["unequal"]
        limit = eager["modes"][mode]["difference"]
        assert 0 < found["difference"]["max"] <= 8 * limit["max"]
        assert 0 < found["difference"]["norm"] <= 1e-4
    assert other["native"] == []


def test_compiled(monkeypatch, tmp_path, capsys):
    """By a backend without Inductor, whose C++ takes minutes to compile."""
    known = torch._dynamo.lookup_backend
    inner = known("aot_eager")
    compiled = []

    def lookup(name):
        if name != "inductor":
            return known(name)

        def backend(*args, **named):
            compiled.append(gradnn.torch.is_enabled())
            return inner(*args, **named)

        return backend

    monkeypatch.setattr(torch._dynamo, "lookup_backend", lookup)
    code, report, printed = run(
        capsys, tmp_path / "report.json", "--networks", "unet_nearest", "--dtype",
        "f32", "--layout", "NXC", "--no-calls", "--run", "eager,compiled",
    )  # fmt: skip
    assert code == 0 and not report["not_run"]
    assert compiled == [False, True]  # once each
    check_runs(report["rows"], "compiled")
    # gradnn's code is its own: PyTorch's has no backward op of upsampling.
    _, row = report["rows"]
    by_gradnn = {each["op"] for each in row["status"] if each["ran"] == "gradnn"}
    assert by_gradnn == UPSAMPLINGS["unet_nearest"] | {"convolution_backward"}
    assert "f32 compiled: geometric means" in printed
    lines = markdown_of(tmp_path / "report.json", capsys).splitlines()
    (line,) = [each for each in lines if each.startswith("| U-Net nearest | f32 NXC | -")]
    assert line.split("|")[6].strip() == f"{row['modes']['pytorch']['ms']:.1f}"
    assert any(each.startswith("- f32 compiled, 1 rows: step ") for each in lines)


def test_fewer_images(tmp_path, capsys):
    whole = NETWORKS["unet_nearest"].images("small")
    for images in (1, whole, whole + 1):
        code, report, _ = run(
            capsys, tmp_path / "report.json", "--networks", "unet_nearest", "--dtype",
            "f32", "--layout", "NXC", "--no-calls", "--images", str(images),
        )  # fmt: skip
        assert code == 0
        (row,) = report["rows"]
        fewer = images < whole
        assert row["size"][0] == (images if fewer else whole)
        assert row["images"] == (images if fewer else None)
        text = markdown_of(tmp_path / "report.json", capsys)
        name = "U-Net nearest, batch 1" if fewer else "U-Net nearest"
        assert f"| {name} | f32 NXC |" in text
    with pytest.raises(SystemExit):
        run(capsys, tmp_path / "report.json", "--images", "0")
    assert "given 0, at least 1" in capsys.readouterr().err


def test_a_run_that_fails_is_said(tmp_path, capsys):
    code, report, printed = run(
        capsys, tmp_path / "report.json", "--networks", "hifigan", "--dtype", "f32",
        "--no-calls", "--run", "graph,eager",
    )  # fmt: skip
    assert code == 1
    graph, eager = report["rows"]
    assert "ms" in eager["modes"]["gradnn"]
    assert all("error" in each for each in graph["modes"].values())
    assert "graph: gradnn raises RuntimeError: CUDA graphs need a GPU" in printed
    text = markdown_of(tmp_path / "report.json", capsys)
    assert "| HiFi-GAN generator | f32 NCX | raises | raises | - |" in text
    assert "f32 NCX, graph: gradnn raises RuntimeError: CUDA graphs" in text


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("name", ["unet_bilinear", "convnext", "hifigan"])
def test_graph(name, tmp_path, capsys):
    code, report, _ = run(
        capsys, tmp_path / "report.json", "--networks", name, "--dtype", "f32",
        "--layout", "NCX", "--no-calls", "--run", "eager,graph", "--device", "cuda",
    )  # fmt: skip
    assert code == 0 and not report["not_run"]
    check_runs(report["rows"], "graph")


def test_calls(tmp_path, capsys):
    _, report, printed = run(
        capsys, tmp_path / "report.json", "--networks", "hifigan", "--dtype", "f32",
        "--layout", "NCX",
    )  # fmt: skip
    known = documented("What `scripts/bench_train")
    (row,) = report["rows"]
    mode = row["modes"]["gradnn"]
    for each in (report, report["machine"], report["calls"][0], row, row["modes"],
                 *row["modes"].values(), mode["profile"], mode["difference"]):  # fmt: skip
        assert set(each) <= known
    # Of GPUs, of failures and of targets.
    target = {"what": "", "value": 0, "wanted": 0, "met": True}
    assert {"peak_bytes", "error", "cuda", "cudnn", *target} <= known
    ops = [call["op"] for call in report["calls"]]
    assert len(set(ops)) == 11
    for call in report["calls"]:
        assert min(call[f"{each}_us"] for each in ("pytorch", "gradnn")) > 0
        assert 0 < call["execute_us"]
        assert call["op"] in printed
    # The same as tables for doc/performance, of a report that was written.
    lines = markdown_of(tmp_path / "report.json", capsys).splitlines()
    (step,) = [line for line in lines if line.startswith("| HiFi-GAN generator |")]
    assert step.split("|")[2].strip() == "f32 NCX"
    assert f"{report['rows'][0]['modes']['gradnn']['ms']:.1f} (" in step
    assert sum(line.startswith("| convolution_backward") for line in lines) == 2


def test_network_calls(tmp_path, capsys):
    code, report, printed = run(
        capsys, tmp_path / "report.json", "--networks", "hifigan", "--dtype", "f32",
        "--no-calls", "--network-calls",
    )  # fmt: skip
    assert code == 0 and not report["rows"] and not report["not_run"]
    (row,) = report["network_calls"]
    assert set(row) <= documented("What `scripts/bench_train")
    network = NETWORKS["hifigan"]
    layers = (torch.nn.Conv1d, torch.nn.ConvTranspose1d)
    made = network.make("small").modules()
    assert row["calls"] == sum(isinstance(each, layers) for each in made)
    for mode in ("pytorch", "gradnn"):
        assert row[f"{mode}_host_ms"] > 0 and row[f"{mode}_ms"] > 0
    assert f"{row['gradnn_host_ms']:.2f}" in printed


def test_what_raises_and_what_runs_in_pytorch_is_said(monkeypatch, capsys, tmp_path):
    look = steps._look_at

    def look_at(trainer, checked, mode, reference):
        if mode == "deterministic":
            raise RuntimeError("has no deterministic implementation")
        found = look(trainer, checked, mode, reference)
        if mode == "gradnn":
            # A call that gradnn leaves to PyTorch.
            empty, weight = torch.zeros(0, 1, 3, 3), torch.zeros(1, 1, 3, 3)
            torch.ops.aten.convolution_backward(
                empty, empty, weight,
                [1], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False],
            )  # fmt: skip
        return found

    monkeypatch.setattr(steps, "_look_at", look_at)
    code, report, printed = run(
        capsys, tmp_path / "report.json", "--networks", "hifigan", "--dtype", "f32",
        "--no-calls",
    )  # fmt: skip
    assert code == 0
    (row,) = report["rows"]
    assert row["native"][0]["op"] == "convolution_backward"
    assert "convolution_backward ran in PyTorch 1 times: a tensor is empty" in printed
    assert "deterministic raises RuntimeError: has no determ" in printed
    assert table.ratio(row, "deterministic") is None
    assert table.ratio(row) > 0


def test_targets_are_marked():
    def row(dtype, layout, pytorch, deterministic, gradnn):
        names = ("pytorch", "deterministic", "gradnn")
        times = dict(zip(names, ({"ms": ms} for ms in
                                 (pytorch, deterministic, gradnn))))  # fmt: skip
        return {"network": "a", "dtype": dtype, "layout": layout, "modes": times}

    def without_deterministic(run, pytorch, gradnn):
        made = row("bf16", "NXC", pytorch, None, gradnn)
        del made["modes"]["deterministic"]
        return made | {"run": run}

    call = {"op": "upsample", "pytorch_us": 20.0, "gradnn_us": 10.0, "execute_us": 3.0}
    three = {**call, "op": "convolution_backward, 3 gradients", "gradnn_us": 25.0}
    report = {
        "rows": [row("bf16", "NXC", 9.0, 20.0, 10.0), row("bf16", "NCX", 16, 20, 8)],
        "calls": [call, three],
    }
    report["rows"].append(row("f32", "NXC", 14.0, 28.0, 10.0))
    for mode, ms in (("pytorch", 9.0), ("gradnn", 8.0)):
        report["rows"][0]["modes"][mode]["profile"] = {"ms": ms}
    report["rows"] += [
        without_deterministic("graph", 12.1, 10.0),
        without_deterministic("compiled", 11.4, 10.0),
    ]
    found = [(each["value"], each["met"]) for each in table.targets(report)]
    bf16, f32, graph, compiled, kernels, deterministic, worst = found[:7]
    convolution, beyond, share = found[7:]
    assert bf16 == (pytest.approx((0.9 * 2) ** 0.5), True)
    assert f32 == (pytest.approx(1.4), False)
    assert graph == (pytest.approx(1.21), True)
    assert compiled == (pytest.approx(1.14), False)
    assert kernels == (pytest.approx(1.125), False)
    assert deterministic == (pytest.approx((2 * 2.5 * 2.8) ** (1 / 3)), True)
    assert worst == (pytest.approx(0.9), False)
    assert convolution == (25.0, False)
    assert beyond == (7.0, False)
    assert share == (1.25, False)
