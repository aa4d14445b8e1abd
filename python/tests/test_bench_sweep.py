"""bench/sweep and bench/fit: what they compute of times, and that a run can be cut
off, resumed, and outlives a problem that fails. On the CPU, with small problems."""

import json
import subprocess
import sys

import pytest

from bench_sweep import BENCH, ROOT, documented, load, program, settings, sweep

import graphs
import problems
import report
import sweep_report
import targets

fit = load("fit")


def test_percentiles():
    values = [5, 1, 4, 2, 3]
    found = [sweep_report.percentile(values, p) for p in (0, 10, 50, 75, 100)]
    assert found == pytest.approx([1, 1.4, 3, 4, 5])
    assert sweep_report.percentile([7], 10) == 7
    assert report.geometric_mean([1, 2, 4]) == pytest.approx(2)


def test_problems_of_a_family():
    words = ["--kind", "convolution", "--seed", "7", "--list"]
    drawn = [
        problems.problem(settings("convolution", "cpu", 7), index)
        for index in range(60)
    ]
    wanted = [
        f"{each['index']} {problems.line(each)}"
        for each in drawn
        if each["family"] == "depthwise"
    ]
    assert len(wanted) > 3
    found = sweep(*words, "--family", "depthwise", "--count", str(len(wanted)))
    assert found.split("\n")[: len(wanted)] == wanted
    sweep("--kind", "interpolation", "--seed", "7", "--list", "--family", "1x1", code=2)


def test_long_windows_are_drawn_where_they_are_asked_for():
    given = settings("convolution", "cpu", 7, family="long windows")
    drawn = [problems.problem(given, index) for index in range(60)]
    for each in drawn:
        case = each["case"]
        reach = case["dilation"] * (case["kernel"] - 1) + 1
        assert each["family"] == "long windows" and reach >= 0.8 * min(case["src"])
    beyond = [c for c in (d["case"] for d in drawn) if c["dilation"] >= max(c["src"])]
    assert beyond and {len(each["case"]["src"]) for each in drawn} == {1, 2, 3}
    assert len({problems.line(each) for each in drawn}) == 60
    words = ["--kind", "convolution", "--seed", "7", "--list", "--count", "3"]
    found = sweep(*words, "--family", "long windows")
    assert found.split("\n")[:3] == [
        f"{each['index']} {problems.line(each)}" for each in drawn[:3]
    ]


def made_row(index, of_limit, ratio=None, rows=(), dtype="f32", kind="interpolation"):
    """A row whose time is 2 ms."""
    drawn = problems.problem(settings(kind, dtype=[dtype]), index)
    step = {
        "output": "diff_src",
        "kernel": f"{kind}.a",
        "time_ms": 2.0,
        "limit_share": of_limit,
        "compute_share": 0.01,
        "bound": "memory",
    }
    figures = {**step, "steps": [step]}
    if rows:
        names = [f"{kind}.{name}" for name, _, _ in rows]
        step["rows"] = [
            {"kernel": name, "taken": name == step["kernel"], "time_ms": ms,
             "yields": yields}
            for name, (_, ms, yields) in zip(names, rows)
        ]  # fmt: skip
    made = drawn | {"line": problems.line(drawn), "bytes": 1, "gradnn": figures}
    if ratio:
        made["pytorch"] = {"ms": 2.0 * ratio}
    return made


def made_results(rows, engine="gpu"):
    return {
        "settings": settings("both"),
        "engine": engine,
        "every_row": True,
        "command": "bench/sweep",
        "machine": {},
        "pytorch": {},
        "seconds_in_all": 3,
        "seconds_of_gradnn": 2,
        "rows": rows,
    }


def test_the_larger_share_counts():
    figures = {"limit_share": 0.2, "compute_share": 0.6, "bound": "compute"}
    assert sweep_report.share(figures) == 0.6
    assert sweep_report.share({"limit_share": 0.2, "bound": "memory"}) == 0.2


def test_summary_of_known_rows():
    shares = [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    rows = [made_row(i, each, 2.0) for i, each in enumerate(shares)]
    rows[3]["pytorch"] = {"ms": 1.0}
    rows[4]["pytorch"] = {"refused": "none"}
    rows.append(made_row(7, 0.5) | {"gradnn": {"failed": "no memory"}})
    text = sweep_report.summary(made_results(rows), 9)
    assert "8 of 9 problems of seed 5" in text
    assert "1 failed, 1 without a gradient of PyTorch's" in text
    line = next(each for each in text.splitlines() if each.startswith("| interpol"))
    mean = 100 * report.geometric_mean(shares)
    ratio = report.geometric_mean([2, 2, 2, 0.5, 2, 2])
    assert line == (
        "| interpolation f32 | 7 | 46 52 58 64 70 76 82 88 94 | "
        f"{mean:.0f} % | 46 % | 40 % | {ratio:.2f}x | 0.50x | 1 of 6 |"
    )
    assert f"- 0: {rows[0]['line']}: a 40 % memory, 2.00x PyTorch" in text
    slower = text.split("slower than PyTorch:")[1]
    assert slower.strip().startswith(f"- 3: {rows[3]['line']}")
    assert f"{rows[7]['line']}: gradnn: no memory" in text
    assert f"| a | {mean:.0f} % (40 %, 7) |" in text
    table = sweep_report.markdown(made_results(rows), text)
    assert f"| 7 | {rows[7]['line']} | failed |" in table


@pytest.mark.parametrize("lowest, met", ((0.9, True), (0.1, False)))
def test_targets_are_met_or_missed(lowest, met):
    mean, tenth, worst = targets.SWEEP["gpu"]["f32"]
    assert lowest >= mean or lowest < worst
    rows = [made_row(i, 0.95, 1.5) for i in range(30)] + [made_row(30, lowest, 1.5)]
    share, peer = sweep_report.verdicts(made_results(rows))
    assert share.endswith("met" if met else "missed")
    assert peer.endswith(": met")
    rows[0]["pytorch"] = {"ms": 1.9}
    assert "1 of 31 below: missed" in sweep_report.verdicts(made_results(rows))[1]
    rows[1]["gradnn"] = {"failed": "why"}
    assert "missed; 1 failed" in sweep_report.verdicts(made_results(rows))[0]


def test_other_kernels_that_are_faster_are_said():
    slow = made_row(0, 0.5, rows=(("b", 1.0, ""), ("a", 2.0, ""), ("c", 1.6, "")))
    even = made_row(1, 0.5, rows=(("a", 2.0, ""), ("b", 1.95, "")))
    alone = made_row(2, 0.5, rows=(("a", 2.0, ""),))
    ((factor, kernel, better, row, _),) = sweep_report.beaten([even, slow, alone])
    assert (factor, kernel, better) == (2.0, "interpolation.a", "interpolation.b")
    assert row is slow
    text = "\n".join(sweep_report.faster_rows([slow, even, alone]))
    assert "in 1 of 2 gradients" in text
    saved = 100 * (1 - (1 / 2 * 1.95 / 2) ** 0.5)
    assert f"{saved:.1f} % less time" in text
    assert "- a -> b: 1, 2.00x, 2.00x" in text
    assert sweep_report.faster_rows([alone]) == []


def test_fit_compares_two_kernels():
    """a takes half of b's time with f64 and three times b's with f32; it yields
    with f32 alone, once without need."""
    rows = []
    for index in range(12):
        dtype = "f64" if index < 6 else "f32"
        a, yields = (1.0, "") if dtype == "f64" else (6.0, "slow")
        if index == 0:
            yields = "slow"
        rows.append(made_row(index, 0.5, dtype=dtype,
                             rows=(("a", a, yields), ("b", 2.0, ""))))  # fmt: skip
    found = fit.pairs(rows)
    ((names, samples),) = found.items()
    assert names == ("interpolation.a", "interpolation.b")
    text = "\n".join(fit.describe(names, samples, []))
    assert "a is faster in 6 of 12, by 2.00x, at most 2.00x" in text
    assert "b is faster in 6 of 12, by 3.00x, at most 3.00x" in text
    listed = 100 * (2 ** (1 / 12) - 1)
    assert f"the list {listed:.1f} %" in text
    assert f"always a {100 * (3**0.5 - 1):.1f} %" in text
    assert f"always b {100 * (2**0.5 - 1):.1f} %" in text
    assert "by type 0.0 %" in text
    assert "type f64: a faster in 6 of 6; b takes 2.00 times its time" in text
    # Judged where a is the faster one always, the choice by type errs.
    others = [made_row(i, 0.5, rows=(("a", 1.0, ""), ("b", 4.0, ""))) for i in (20, 21)]
    judged = fit.pairs(others)[names]
    assert "2 others: the list 0.0 %" in "\n".join(fit.describe(names, samples, judged))
    assert "by type 300.0 %" in "\n".join(fit.describe(names, samples, judged))


# Runs

FAKE = """#!{python}
import json, os, signal, sys
if sys.argv[1] == "info":
    print(json.dumps({{"engines": [{{"kind": "cpu", "count": 1}}]}}))
    sys.exit()
words = sys.argv[2:]
files = [each for each in words if "_" in os.path.basename(each)]
files = [each for each in files if not each.endswith("report.json")]
with open({log!r}, "a") as log:
    print(len(files), *words, file=log)
for file in files:
    for part, do in (("_2_", "say"), ("_5_", "die")):
        if os.path.basename(file).split("_", 1)[1].startswith("1" + part):
            if do == "say":
                print(file + ": graph: cannot be done", file=sys.stderr)
                sys.exit(2)
            os.kill(os.getpid(), signal.SIGSEGV)
step = {{"output": "diff_src", "kernel": "interpolation.a", "time_ms": 1.0,
        "limit_share": 0.5, "bound": "memory"}}
report = {{"machine": {{}}, "copy_gb_per_s": 1, "results": [
    {{"graph": file, **step, "steps": [step]}} for file in files]}}
with open(words[words.index("--json") + 1], "w") as out:
    json.dump(report, out)
"""


@pytest.fixture
def fake(tmp_path):
    """Options for a program that says times at once, refuses problem 2, and ends
    by a signal at problem 5."""
    path, log = tmp_path / "gradnn", tmp_path / "log"
    path.write_text(FAKE.format(python=sys.executable, log=str(log)))
    path.chmod(0o755)
    log.write_text("")
    common = ["--kind", "interpolation", "--seed", "1", "--no-pytorch"]
    common += ["--program", str(path), "--out", str(tmp_path / "sweep.json")]
    return common, log, tmp_path / "sweep.json"


def test_a_problem_that_fails_does_not_end_the_run(fake):
    common, _, out = fake
    text = sweep(*common, "--count", "8")
    rows = json.loads(out.read_text())["rows"]
    assert [row["index"] for row in rows] == list(range(8))
    failed = {r["index"]: r["gradnn"]["failed"] for r in rows if "failed" in r["gradnn"]}
    assert set(failed) == {2, 5}
    assert "graph: cannot be done" in failed[2]
    known = documented("What `bench/sweep")
    for each in (json.loads(out.read_text()), rows[0], rows[2]["gradnn"]):
        assert set(each) <= known
    assert "signal 11" in failed[5]
    assert "8 of 8 problems" in text and "2 failed" in text


def test_resume_does_what_is_missing(fake):
    common, log, out = fake
    sweep(*common, "--count", "3")
    first = json.loads(out.read_text())
    assert "--resume goes on with it" in sweep(*common, "--count", "7", code=2)
    log.write_text("")
    text = sweep(*common, "--count", "7", "--resume", "--batch", "2")
    assert "7 of 7 problems" in text
    second = json.loads(out.read_text())
    assert second["rows"][:3] == first["rows"]
    assert [row["index"] for row in second["rows"]] == list(range(7))
    assert second["seconds_in_all"] >= first["seconds_in_all"]
    # The four that were missing, two at a time; 5 ends its process, so 4 and 5
    # run once more, each alone.
    processes = [line.split()[0] for line in log.read_text().splitlines()]
    assert processes.count("2") == 2 and not {"3", "4"} & set(processes)
    log.write_text("")
    sweep(*common, "--count", "7", "--resume")
    assert log.read_text() == ""
    refused = sweep(*common, "--count", "7", "--resume", "--dtype", "f32", code=2)
    assert "another --dtype" in refused
    refused = sweep(*common, "--count", "7", "--resume", "--every-row", code=2)
    assert "another --every-row" in refused
    for other in ("[]", '{"settings": []}'):
        out.write_text(other)
        refused = sweep(*common, "--count", "7", "--resume", code=2)
        assert "no file of bench/sweep" in refused


def test_ends_in_time_and_says_how_far_it_came(fake):
    common, log, out = fake
    assert "0 of 5 problems" in sweep(*common, "--count", "5", "--seconds", "0")
    assert json.loads(out.read_text())["rows"] == [] and log.read_text() == ""
    for wrong in (["--count", "0"], ["--megabytes", "5,5"], ["--dtype", "f8"]):
        assert "allowed are" in sweep(*common, *wrong, code=2)


def test_times_one_gradient_of_convolutions(tmp_path):
    out, table = tmp_path / "sweep.json", tmp_path / "sweep.md"
    sweep(
        "--kind", "convolution", "--family", "depthwise", "--gradient", "weights",
        "--seed", "3", "--count", "2", "--program", program(), "--out", str(out),
        "--markdown", str(table), "--megabytes", "0.2,1", "--each", "0",
        "--no-pytorch",
    )  # fmt: skip
    for row in json.loads(out.read_text())["rows"]:
        steps = {each["output"] for each in row["gradnn"]["steps"]}
        assert steps == {"diff_weights"}
        whole = graphs.moved_bytes(row["case"], row["dtype"])
        assert row["bytes"] < whole
    assert "the gradient of weights alone" in table.read_text()
    refused = sweep(
        "--kind", "interpolation", "--gradient", "src", "--seed", "3", "--list", code=2
    )
    assert "--gradient: of --kind convolution alone" in refused


@pytest.mark.parametrize("kind", graphs.KINDS)
def test_times_every_row_beside_pytorch(kind, tmp_path):
    pytest.importorskip("torch")
    out, table = tmp_path / "sweep.json", tmp_path / "sweep.md"
    text = sweep(
        "--kind", kind, "--seed", "3", "--count", "4", "--every-row",
        "--program", program(), "--out", str(out), "--markdown", str(table),
        "--megabytes", "0.2,1", "--each", "0", "--seconds", "3000",
    )  # fmt: skip
    results = json.loads(out.read_text())
    assert len(results["rows"]) == 4 and "4 of 4 problems" in text
    page = (ROOT / "doc" / "bench_json.md").read_text()
    for key in (*results, *results["rows"][0], *results["settings"]):
        assert f"`{key}`" in page, key
    several = 0
    for row in results["rows"]:
        assert row["gradnn"]["time_ms"] > 0, row["gradnn"]
        assert "failed" not in row["pytorch"]
        assert row["line"] in table.read_text()
        for step in row["gradnn"]["steps"]:
            assert sum(each["taken"] for each in step["rows"]) == 1
            several += len(step["rows"]) > 1
    assert several >= 4
    done = subprocess.run(
        [sys.executable, str(BENCH / "fit"), str(out), "--least", "1"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "time beyond the faster one's" in done.stdout
    again = subprocess.run(
        [sys.executable, str(BENCH / "fit"), str(out), "--judge", str(out)],
        capture_output=True,
        text=True,
    )
    assert again.returncode == 2 and "the same problems" in again.stderr
