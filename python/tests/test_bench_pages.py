"""bench/pages.py: tables that are put into the pages of doc/performance."""

import json
import subprocess
import sys

import pytest

from bench_sweep import BENCH, ROOT, settings

import options
import pages

H100 = {"cpu": "Xeon", "threads": 16, "gpus": [{"name": "NVIDIA H100 80GB HBM3"}]}


def results(dtypes, time_ms=0.5, **changes):
    rows = [
        {
            "case": "fpn_2x",
            "layout": layout,
            "dtype": dtype,
            "bytes": 1e8,
            "gradnn": {"time_ms": time_ms, "limit_share": 0.9},
            "pytorch": {"ms": 2 * time_ms},
        }
        for dtype in dtypes
        for layout in ("NCX", "NXC")
    ]
    found = {
        "kind": "interpolation",
        "engine": "gpu",
        "command": "bench/compare --engine gpu --kind interpolation",
        "commit": "1234567",
        "cudnn_measured": False,
        "machine": H100,
        "pytorch": {"pytorch": "2.11"},
        "rows": rows,
    }
    return found | changes


def test_a_page_is_made_and_its_table_overwritten(tmp_path):
    page = pages.write(results(["f32", "bf16"]), doc=tmp_path)
    assert page == tmp_path / "performance" / "h100.md"
    first = page.read_text()
    assert first.startswith("# H100\n")
    assert "## Interpolation, GPU, f32, bf16\nCommit 1234567.\n" in first
    assert "| fpn_2x | 0.500 ms, 90 %, 2.00x |" in first
    (plot,) = (tmp_path / "figures").iterdir()
    assert f"../figures/{plot.name})" in first
    assert plot.name == "h100_gpu_interpolation_f32_bf16.svg"
    newer = results(["f32", "bf16"], 0.25, commit="7654321")
    second = pages.write(newer, doc=tmp_path).read_text()
    assert "Commit 7654321." in second and "0.250 ms" in second
    assert "1234567" not in second and "0.500 ms" not in second
    assert len(second.splitlines()) == len(first.splitlines())


def test_a_table_takes_the_place_of_what_it_has_itself(tmp_path):
    for dtypes in (["f32"], ["f64", "f16"], ["bf16"]):
        page = pages.write(results(dtypes), doc=tmp_path)
    pages.write(results(["f32"], gradient="src", kind="convolution"), doc=tmp_path)
    pages.write(results(["f32"], names=["fpn"]), doc=tmp_path)
    text = page.read_text()
    assert text.count("<!-- table: ") == text.count("<!-- end -->") == 5
    text = pages.write(results(["f32", "bf16"], 0.25), doc=tmp_path).read_text()
    names = [part.split(" -->")[0] for part in text.split("<!-- table: ")[1:]]
    assert names == [
        "compare gpu interpolation: f32, bf16",
        "compare gpu interpolation: f64, f16",
        "compare gpu convolution src: f32",
        "compare gpu interpolation of fpn: f32",
    ]


def test_what_stands_between_tables_stays(tmp_path):
    page = pages.write(results(["f32"]), doc=tmp_path)
    page.write_text(page.read_text() + "\nA remark.\n")
    pages.write(results(["f16"]), doc=tmp_path)
    text = pages.write(results(["f32"], 0.25), doc=tmp_path).read_text()
    assert text.index("0.250 ms") < text.index("A remark.")
    assert text.count("A remark.") == 1


@pytest.mark.parametrize(
    "machine, engine, page",
    (
        (H100, "gpu", "h100"),
        ({"cpu": "AMD EPYC", "gpus": []}, "cpu", "epyc"),
        (H100, "cpu", "xeon"),
        ({"cpu": "Xeon", "gpus": [{"name": "NVIDIA H200"}]}, "gpu", "h200"),
    ),
)
def test_the_machine_names_the_page(machine, engine, page):
    assert pages.machine_of({"engine": engine, "machine": machine}) == page


def test_an_unknown_machine_or_commit_is_refused(tmp_path):
    other = {"cpu": "Graviton", "gpus": []}
    with pytest.raises(options.UsageError, match="Graviton has no page"):
        pages.write(results(["f32"], machine=other, engine="cpu"), doc=tmp_path)
    with pytest.raises(options.UsageError, match="name no commit"):
        pages.write(results(["f32"], commit=""), doc=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_sweep_and_training_steps_have_tables_too(tmp_path):
    sweep = results(["f32"]) | {
        "settings": settings("interpolation", "gpu"),
        "command": "bench/sweep --seed 5",
        "every_row": False,
        "seconds_in_all": 3,
        "seconds_of_gradnn": 2,
        "rows": [],
    }
    text = pages.write(sweep, doc=tmp_path).read_text()
    assert "## Random interpolations, GPU, " in text and "bench/sweep --seed 5" in text
    report = {
        "machine": {"device": "cuda", "name": "NVIDIA H100", "torch": "2.11"},
        "rows": [
            {
                "network": "FPN",
                "dtype": "f32",
                "layout": "NXC",
                "modes": {"pytorch": {"ms": 3.0}, "gradnn": {"ms": 2.0}},
            }
        ],
        "calls": [],
    }
    with pytest.raises(options.UsageError, match="--commit"):
        pages.write_training([report], None, doc=tmp_path)
    page = pages.write_training([report], "7654321", doc=tmp_path)
    assert page.name == "h100.md"
    assert "| FPN | f32 NXC | 3.0 | - | 2.0 | 1.50 | - |" in page.read_text()
    assert "bench/sweep --seed 5" in page.read_text()


def test_tables_of_the_pages_can_be_replaced():
    """The pages of the repository have the form that the next --write needs."""
    found = sorted((ROOT / "doc" / "performance").glob("*.md"))
    assert found and {each.stem for each in found} <= {*pages.MACHINES}
    for page in found:
        text = page.read_text()
        tables = list(pages.TABLE.finditer(text))
        assert tables and text.count("<!--") == 2 * len(tables)
        for each in tables:
            assert each["text"].startswith("## ") and "Commit" in each["text"], each
            name = each["name"]
            changed = pages.with_table(text, name, "## New\n")
            assert f"<!-- table: {name} -->\n## New\n<!-- end -->" in changed
            assert changed.count("<!-- table") == text.count("<!-- table")


def test_write_wants_all_cases(tmp_path):
    for words in (["--few"], ["--layout", "NCX"]):
        done = subprocess.run(
            [sys.executable, str(BENCH / "compare"), "--engine", "cpu", "--kind",
             "interpolation", "--write", "--out", str(tmp_path), *words],
            capture_output=True,
            text=True,
        )  # fmt: skip
        assert done.returncode == 2 and "--write" in done.stderr, done.stderr


def test_files_of_another_machine(tmp_path):
    file = tmp_path / "results.json"
    file.write_text(json.dumps(results(["f32"], commit="")))
    done = subprocess.run(
        [sys.executable, str(BENCH / "pages.py"), str(file)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "--commit" in done.stderr, done.stderr
