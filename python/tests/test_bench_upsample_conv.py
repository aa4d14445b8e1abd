"""bench/upsample_conv, on the CPU."""

import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*words):
    paths = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, str(ROOT / "bench" / "upsample_conv"), "--small", *words],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": paths, "CUDA_VISIBLE_DEVICES": ""},
    )


def test_times_both_forms_and_networks():
    done = run("--dtype", "f32", "--layout", "NXC")
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if " f32 NXC" in line]
    assert [row[0].split(" f32")[0] for row in rows] == [
        "| small_2d", "| small_3d", "| decoder", "| pyramid", "| unet",
    ]  # fmt: skip
    for row in rows[:2]:  # one form of the gradients and one of the forward is chosen
        assert all(float(cell.removesuffix(" *")) > 0 for cell in row[1:7])
        assert ["*" in cell for cell in row[2:4]].count(True) == 1
        assert "*" in row[5] and "*" not in row[6]
    for row, pairs in zip(rows[2:], (3, 3, 2)):
        assert row[0].endswith(f"{pairs} pairs")
        assert all(float(cell) > 0 for cell in row[1:5])


def test_refuses_a_type_that_is_none():
    done = run("--dtype", "f64")
    assert done.returncode != 0
    assert "allowed are f32, bf16, f16" in done.stderr
