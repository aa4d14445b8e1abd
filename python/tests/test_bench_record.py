"""bench/record, on the CPU, and the pages that bench/pages.py makes of its folder."""

import json
import shutil
import subprocess
import sys
import tarfile

from bench_sweep import BENCH, ROOT, program

import pages
import recorded

PARTS = ("interpolation_f32", "convolution_f32_NXC", "convolution_f32_NCX")


def record(folder, *words):
    return subprocess.run(
        [sys.executable, str(BENCH / "record"), "--engine", "cpu", "--small",
         "--commit", "1234567", "--program", program(), "--out", str(folder), *words],
        capture_output=True,
        text=True,
    )  # fmt: skip


def test_measures_each_part_once_and_makes_pages(tmp_path):
    folder = tmp_path / "record"
    only = ["--only", "interpolation_f32,convolution_f32"]
    done = record(folder, *only)
    assert done.returncode == 0, done.stdout + done.stderr
    ended = json.loads((folder / "record.json").read_text())
    assert ended["commit"] == "1234567"
    assert {name: each["status"] for name, each in ended["parts"].items()} == dict.fromkeys(
        PARTS, 0
    )
    for part in PARTS:
        rows = json.loads((folder / f"{part}.json").read_text())["rows"]
        assert rows and all("time_ms" in row["gradnn"] for row in rows)
    assert record(folder, *only).stdout == ""
    again = record(folder, *only, "--again", "interpolation_f32").stdout
    assert again.count("record: ") == 1 and "interpolation_f32" in again

    with tarfile.open(tmp_path / "record.tar", "w") as packed:
        packed.add(folder, "record")
    for source in (folder, tmp_path / "record.tar"):
        doc = tmp_path / f"doc_{source.name}"
        shutil.copytree(ROOT / "doc", doc)
        old = (doc / "performance" / "h200.md").read_text()
        written = pages.write_record(source, "h200", anew=True, doc=doc)
        assert [path.name for path in written] == ["h200.md", "performance.md"]
        page = (doc / "performance" / "h200.md").read_text()
        assert page.startswith("# H200\nAll of 1234567.")
        assert old.split("\n", 1)[1] not in page
        # One table for both layouts, whose parts were two.
        assert page.count("<!-- table: ") == 2
        assert "| case | f32 NCX | f32 NXC |" in page
        assert "--out" not in page and "--program" not in page
        overview = (doc / "performance.md").read_text()
        assert "All of 1234567, [every case](performance/h200.md)." in overview
        assert "**1 listed interpolations**" in overview
        assert overview.count("<!-- table: overview cpu: ") == 1
        assert overview.count("<!-- table: ") == overview.count("<!-- end -->") == 2


def test_begins_nothing_without_time(tmp_path):
    done = subprocess.run(
        [sys.executable, str(BENCH / "record"), "--engine", "cpu", "--seconds", "0",
         "--commit", "1", "--program", program(), "--out", str(tmp_path)],
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "" and not list(tmp_path.glob("*.json"))


def test_every_command_is_one_that_its_program_takes(tmp_path):
    listed = subprocess.run(
        [sys.executable, str(BENCH / "record"), "--out", str(tmp_path), "--list"],
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    assert len(listed) == len({line.split(" (")[0] for line in listed}) > 30
    for tool in ("compare", "sweep"):
        for line in listed:
            _, _, words = line.partition(f": bench/{tool} ")
            if not words:
                continue
            out = ["--out", str(tmp_path / "x")]
            done = subprocess.run(
                [sys.executable, str(BENCH / tool), *words.split(), *out, "--list"],
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0 and done.stdout, (line, done.stderr)


def row(name, dtype, layout, times):
    return {
        "name": name, "dtype": dtype, "layout": layout, "pytorch_ms": 2.0,
        "ops_ms": 3.0, "composed_ms": 2 / times, "composed": True, "times": times,
        "mib": [100, 50], "shape": [1, 512, 256, [64, 64]],
    }  # fmt: skip


def test_tables_of_upsampling_and_jax():
    of = {"engine": "gpu", "commit": "1234567", "machine": {"gpus": [{"name": "H200"}]}}
    parts = [of | {"rows": [row("vae", "bf16", layout, times)]}
             for layout, times in (("NXC", 4.0), ("NCX", 2.0))]  # fmt: skip
    text = recorded.upsample(parts)
    assert "|  | bf16 NXC | bf16 NCX | MiB |" in text
    assert "| 1x512 64x64 to 256 | 2.00, 0.50, 4.00 | 2.00, 1.00, 2.00 | 100 to 50 |" in text
    times = {"jax_us": 30.0, "gradnn_us": 60.0, "jax_eager_us": 90.0, "gradnn_eager_us": 30.0}
    rows = [{"case": "a", "of": "lhs", "dtype": "f32", "layout": "NXC"} | times]
    text = recorded.jax([of | {"jax": "0.11", "rows": rows}])
    assert "| a, lhs | 30, 60 | 0.5 | 3.0 |" in text
    assert "Slower than JAX's: a lhs f32." in text
