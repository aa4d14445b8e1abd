"""bench/sweep's random problems: what is drawn, and that it is what the formulas say."""

import json
import os
import subprocess
import sys

import pytest

from bench_sweep import BENCH, documented, program, settings  # bench/ on the path

import graphs
import problems
import report


@pytest.mark.parametrize("kind", graphs.KINDS)
@pytest.mark.parametrize("engine", ("cpu", "gpu"))
def test_problems_are_of_the_seed_and_the_index_alone(kind, engine):
    drawn = [problems.problem(settings(kind, engine), i) for i in range(40)]
    again = [problems.problem(settings(kind, engine), i) for i in reversed(range(40))]
    assert drawn == again[::-1]
    others = [problems.problem(settings(kind, engine, seed=6), i) for i in range(40)]
    assert all(a["case"] != b["case"] for a, b in zip(drawn, others))
    lines = [problems.line(each) for each in drawn]
    assert len(set(lines)) == 40


def test_problems_stay_what_they_are():
    """Figures of a seed can be compared only with the same problems. Where the
    generator changes on purpose, so do these lines."""
    assert problems.line(problems.problem(settings("both", seed=1), 0)) == (
        "254267x4 7 -> 14 nearest asymmetric NCX f64"
    )
    assert problems.line(problems.problem(settings("both", seed=1), 3)) == (
        "770x25 3x3x4 -> 384, 3x3x3, pad 1, NCX f64"
    )


@pytest.mark.parametrize("engine", ("cpu", "gpu"))
def test_problems_cover_what_they_should(engine):
    drawn = [problems.problem(settings("both", engine), i) for i in range(1000)]
    least, most = (1e6 * each for each in problems.MEGABYTES[engine])
    for each in drawn:
        case = each["case"]
        assert least <= graphs.moved_bytes(case, each["dtype"]) <= most
        assert problems.flops(case) <= problems.MOST_FLOPS[engine]
        src, dst, _ = graphs.shapes(case)
        assert min(src + dst) >= 1 and max(src[1], dst[1]) <= 768
    for key in ("layout", "dtype"):
        assert {each[key] for each in drawn} == set(settings("both")[key])
    cases = [each["case"] for each in drawn if each["kind"] == "interpolation"]
    assert {len(case["src"]) for case in cases} == {1, 2, 3}
    modes = {(c["mode"], c["coordinate_transformation_mode"]) for c in cases}
    assert len(modes) == 6
    assert any(case["scales"] for case in cases)
    assert any(case["src"] < case["dst"] for case in cases)
    assert any(case["src"] > case["dst"] for case in cases)
    assert min(case["c"] for case in cases) == 1
    assert max(case["c"] for case in cases) == 768
    cases = [each["case"] for each in drawn if each["kind"] == "convolution"]
    families = {each["family"] for each in drawn if each["kind"] == "convolution"}
    assert families == {
        "dense", "1x1", "groups", "depthwise", "first layer", "transposed"
    }  # fmt: skip
    assert {len(case["src"]) for case in cases} == {1, 2, 3}
    for key, values in (("stride", {1, 2, 3}), ("dilation", {1, 2, 3})):
        assert values <= {case[key] for case in cases}
    assert any(isinstance(case["kernel"], list) for case in cases)


@pytest.mark.parametrize("kind", graphs.KINDS)
def test_problems_are_valid_and_right(kind, tmp_path):
    small = settings(kind, "cpu", megabytes=[0.02, 0.1])
    for index in range(12):
        drawn = problems.problem(small, index)
        file = tmp_path / f"{drawn['name']}.json"
        graphs.write_graph(file, drawn["case"], drawn["layout"], drawn["dtype"], "cpu")
        done = subprocess.run(
            [program(), "check", "--threads", "1", str(file)],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, (problems.line(drawn), done.stdout, done.stderr)


def test_compare_writes_the_graphs_of_its_cases(tmp_path):
    """The way from a case of the benchmark to the kernel that takes it."""
    done = subprocess.run(
        [sys.executable, str(BENCH / "compare"), "--engine", "cpu",
         "--kind", "interpolation", "--name", "fpn_2x", "--dtype", "f32",
         "--graphs", str(tmp_path)],
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    files = done.stdout.split()
    assert sorted(map(os.path.basename, files)) == [
        "fpn_2x_ncx_f32.json", "fpn_2x_nxc_f32.json"
    ]  # fmt: skip
    for file in files:
        said = subprocess.run(
            [program(), "kernels", file], capture_output=True, text=True
        )
        assert said.returncode == 0, said.stderr
        assert said.stdout.count(" taken ") == 1, said.stdout


def test_fields_of_compare_are_documented(tmp_path):
    done = subprocess.run(
        [sys.executable, str(BENCH / "compare"), "--engine", "cpu",
         "--kind", "convolution", "--name", "first_3x3", "--dtype", "f32",
         "--layout", "NCX", "--gradient", "bias", "--seconds", "0", "--latency",
         "--program", program(), "--out", str(tmp_path)],
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    known = documented("What `bench/compare")
    (row,) = results["rows"]
    for each in (results, results["pytorch"], row, row.get("pytorch", {})):
        assert set(each) <= known
    # Of GPUs, and of what was not timed.
    assert {"empty_launch", "pytorch_deterministic", "host_ms", "replay_us", "cuda",
            "times_faster_than_pytorch_deterministic", "refused", "failed",
            "absent"} <= known  # fmt: skip


def listed(*words):
    done = subprocess.run(
        [sys.executable, str(BENCH / "compare"), "--engine", "gpu",
         "--kind", "convolution", "--list", *words],
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [line.split()[0] for line in done.stdout.splitlines()]


def test_the_largest_case_is_timed_where_it_is_named():
    assert listed("--name", "video_256_64") == ["video_256_64"]
    every = listed()
    assert "volume_16_256" in every and "video_256_64" not in every


def test_memory_is_compared_where_it_is_asked_for():
    results = {
        "memory": True,
        "rows": [
            {"case": "a", "dtype": "bf16", "layout": "NCX",
             "gradnn": {"workspace_bytes": 3 << 20},
             "pytorch": {"workspace_bytes": 1 << 30}},
            {"case": "b", "dtype": "f32", "layout": "NXC",
             "gradnn": {"workspace_bytes": 0}, "pytorch": {"refused": "memory"}},
        ],
    }  # fmt: skip
    lines = report.memory_table(results).splitlines()
    assert "| a bf16 NCX | 3.0 | 1024.0 |" in lines
    assert "| b f32 NXC | 0.0 | - |" in lines
    assert report.memory_table(results | {"memory": False}) == ""


def test_taps_are_those_of_the_forward():
    torch = pytest.importorskip("torch")

    def most_taps(case):
        """Of the columns of the forward's matrix, by PyTorch in f64."""
        src, dst = case["src"][0], case["dst"][0]
        align = case["coordinate_transformation_mode"] == "align_corners"
        if case["mode"] == "linear":
            how = {"mode": "linear", "align_corners": align}
        else:
            exact = case["coordinate_transformation_mode"] == "half_pixel"
            how = {"mode": "nearest-exact" if exact else "nearest"}
        unit = torch.eye(src, dtype=torch.float64)[:, None]
        made = torch.nn.functional.interpolate(unit, size=dst, **how)
        return int((made.abs() > 1e-9).sum(dim=2).max())

    for mode, coordinates in (
        ("linear", "half_pixel"),
        ("linear", "align_corners"),
        ("nearest", "half_pixel"),
        ("nearest", "asymmetric"),
    ):
        for src, dst in ((7, 14), (7, 28), (10, 23), (23, 10), (9, 3), (5, 37)):
            case = graphs.complete(
                "interpolation",
                {"src": [src], "dst": [dst], "n": 1, "c": 3, "mode": mode,
                 "coordinate_transformation_mode": coordinates},
            )  # fmt: skip
            drawn = {"case": case, "dtype": "f32", "layout": "NCX"}
            assert problems.facts(drawn)["taps"] == most_taps(case), case
