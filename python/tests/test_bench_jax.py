"""bench/jax, on the CPU."""

import os
import pathlib
import subprocess
import sys

import jax_support  # noqa: F401 (skips without JAX)

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*words):
    """What it prints to standard output and error, and its exit status."""
    paths = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "jax"), *words],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"},
    )
    return done.stdout, done.stderr, done.returncode


def test_times_a_resize_and_both_gradients_of_a_convolution():
    out, err, status = run("--name", "small_2x,batch_1_1x1", "--dtype", "f32")
    assert status == 0, err
    rows = [line for line in out.splitlines() if " f32 NXC, " in line]
    gradients = [row.split("|")[1].split(", ")[1].strip() for row in rows]
    assert gradients == ["x", "lhs", "rhs"]
    for row in rows:
        assert all(float(row.split("|")[cell]) > 0 for cell in (2, 3))


def test_refuses_a_name_that_no_case_has():
    _, err, status = run("--name", "small_2x,no_such_case")
    assert status != 0
    assert "no case is called no_such_case" in err
