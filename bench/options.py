"""What bench/compare and bench/sweep ask of their command lines, and of the
program that they time."""

import argparse
import os
import pathlib
import subprocess

import processes

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ("build/cuda/bin/gradnn", "build/release/bin/gradnn", "build/ci/bin/gradnn")


class UsageError(Exception):
    """The command line asks for what cannot be."""


def listed(allowed):
    """An argument of values with commas between them."""

    def parse(text):
        values = [each for each in text.split(",") if each]
        wrong = [each for each in values if each not in allowed]
        if wrong or not values:
            raise argparse.ArgumentTypeError(
                f"given {text!r}, allowed are {', '.join(allowed)}"
            )
        return list(dict.fromkeys(values))

    return parse


def add_page_options(parser):
    parser.add_argument(
        "--write",
        action="store_true",
        help="put the table into the machine's page of doc/performance",
    )
    parser.add_argument(
        "--machine",
        metavar="NAME",
        help="the page that --write means (default: by the name of the machine's "
        "GPU or CPU)",
    )
    parser.add_argument(
        "--commit",
        metavar="ID",
        help="what is measured (default: what git has checked out here)",
    )


def commit():
    """What is checked out: "1234567" or "1234567 and changes"; "" outside git."""

    def git(*words):
        return subprocess.run(
            ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        found = git("rev-parse", "--short=7", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{found} and changes" if changed else found


def find_program(named):
    """The program that --program names, or that of build/."""
    if named:
        if not os.access(named, os.X_OK):
            raise UsageError(f"--program: there is no program {named}")
        return os.path.abspath(named)
    for name in PROGRAMS:
        if os.access(ROOT / name, os.X_OK):
            return str(ROOT / name)
    raise UsageError(
        f"no gradnn in {', '.join(PROGRAMS)}: build it (cmake --preset cuda && "
        "cmake --build --preset cuda), or name it by --program"
    )


def check_engine(program, engine):
    """What `gradnn info` says of a machine that has the engine."""
    info = processes.gradnn_info(program)
    counts = {each["kind"]: each["count"] for each in info["engines"]}
    if not counts.get(engine):
        reason = info.get("no_gpu") if engine == "gpu" else ""
        raise UsageError(f"--engine: {program} has no {engine} engine here: {reason}")
    return info


def measure_cudnn(kind):
    """PyTorch's cudnn.benchmark measures cuDNN's kernels; gradnn does it too,
    unless the environment says otherwise. Where interpolations alone are timed,
    the figures are to judge the rules that choose their kernels."""
    if kind != "interpolation":
        os.environ.setdefault("GRADNN_AUTOTUNE", "1")
