"""The programs of examples/ in Python."""

import os
import pathlib
import subprocess
import sys

import pytest

from gradnn._library import library

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def run(name):
    # On the machine's CPU, and the first GPU where there is one.
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_torch_unet():
    pytest.importorskip("torch")
    text = run("torch_unet.py")
    assert "'upsample_bilinear2d_backward'" in text
    assert "'convolution_backward'" in text


def test_jax_train():
    pytest.importorskip("jax", minversion="0.6")
    if not pathlib.Path(library.path).with_name("libgradnn_jax.so").exists():
        pytest.skip("gradnn was built without jaxlib")
    text = run("jax_train.py")
    for op in ("conv_backward_data", "conv_backward_weights", "resize_backward"):
        assert f"{{'op': '{op}', 'device': " in text


def test_each_program_is_short_and_listed():
    listed = (EXAMPLES / "README.md").read_text()
    programs = [each for each in EXAMPLES.iterdir() if each.suffix in (".c", ".cpp", ".py")]
    assert len(programs) >= 6
    for each in programs:
        assert len(each.read_text().splitlines()) < 100, each.name
        assert f"({each.name})" in listed
