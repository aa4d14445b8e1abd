"""What the tests of bench/sweep and of what it draws share."""

import importlib.machinery
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
sys.path.insert(0, str(BENCH))

import options  # noqa: E402
import problems  # noqa: E402


def load(name):
    """A program of bench/ as a module."""
    loader = importlib.machinery.SourceFileLoader(name, str(BENCH / name))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader(name, loader)
    )
    loader.exec_module(module)
    return module


def documented(title):
    """The words in backticks of a section of doc/bench_json.md."""
    page = (ROOT / "doc" / "bench_json.md").read_text(encoding="utf-8")
    (section,) = [each for each in page.split("\n# ") if each.startswith(title)]
    return set(re.findall(r"`([^`]+)`", section))


def settings(kind, engine="gpu", seed=5, **others):
    usual = {
        "seed": seed,
        "kind": kind,
        "engine": engine,
        "dtype": ["f32", "bf16", "f16", "f64"],
        "layout": ["NCX", "NXC"],
        "megabytes": problems.MEGABYTES[engine],
    }
    return usual | others


def program():
    """The gradnn program beside the library under test."""
    library = os.environ.get("GRADNN_LIBRARY")
    if library:
        beside = pathlib.Path(library).resolve().parents[1] / "bin" / "gradnn"
        if os.access(beside, os.X_OK):
            return str(beside)
    try:
        return options.find_program(None)
    except options.UsageError as failure:
        pytest.skip(str(failure))


def sweep(*words, code=0):
    """Runs bench/sweep on the CPU; returns what it printed."""
    done = subprocess.run(
        [sys.executable, str(BENCH / "sweep"), "--engine", "cpu", *words],
        capture_output=True,
        text=True,
        # Threads that wait for each other take long on a machine that is busy.
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr
