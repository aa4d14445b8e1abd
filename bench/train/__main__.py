"""Times training steps in PyTorch and through gradnn, in one run.

    GRADNN_LIBRARY=build/cuda/lib/libgradnn.so PYTHONPATH=python \\
        python3 -m bench.train --json build/train.json

Eight networks, bf16 autocast and strict float32, channels first and last; then
the host time of each op. `--run` says how: op by op, as one CUDA graph of the
whole step, or with the model compiled. The report ends the output. Exit status 1
where a mode other than PyTorch's deterministic one fails, or gradnn's bits
differ in two runs.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pathlib
import platform
import sys
import time

# What cuBLAS needs to be deterministic; the same in all modes.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402

import gradnn  # noqa: E402

from . import calls, markdown, network_calls, steps, table, trainer  # noqa: E402
from .networks import NETWORKS  # noqa: E402


def _listed(allowed):
    """An argument of values with commas between them."""

    def parse(text: str) -> list[str]:
        values = [each for each in text.split(",") if each]
        wrong = [each for each in values if each not in allowed]
        if wrong or not values:
            raise argparse.ArgumentTypeError(
                f"given {text!r}, allowed are {', '.join(allowed)}"
            )
        return list(dict.fromkeys(values))

    return parse


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"given {text}, at least 1")
    return count


def _arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m bench.train",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    on_gpu = torch.cuda.is_available()
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda" if on_gpu else "cpu"
    )
    add = parser.add_argument
    add("--networks", type=_listed(NETWORKS), default=list(NETWORKS))
    add("--dtype", type=_listed(("bf16", "f32")), default=["bf16", "f32"])
    add("--layout", type=_listed(("NXC", "NCX")), default=["NXC", "NCX"])
    add("--run", type=_listed(trainer.RUNS), default=["eager"])
    add("--modes", type=_listed(trainer.MODES), default=list(trainer.MODES))
    add("--size", choices=("full", "reduced", "small"), default="full")
    add("--images", type=_count, help="a step has this many at most")
    add(
        "--small",
        action="store_const",
        dest="size",
        const="small",
        help="thin networks on tiny data, for tests and the CPU",
    )
    add(
        "--seconds",
        type=float,
        default=2.0,
        help="timed rounds of a network, type and layout (2)",
    )
    add(
        "--limit",
        type=float,
        default=440.0,
        help="seconds of the whole run: rounds get fewer, then rows go (440)",
    )
    add("--threads", type=int, help="of the CPU, as torch.set_num_threads has it")
    add("--no-calls", action="store_true", help="no host times of small calls")
    add(
        "--network-calls",
        action="store_true",
        help="the host time of the networks' convolution gradients, and no steps",
    )
    add("--status", action="store_true", help="print gradnn.torch.status()")
    add("--json", type=pathlib.Path, help="write the report to this file too")
    add(
        "--tables",
        type=pathlib.Path,
        nargs="+",
        metavar="JSON",
        help="time nothing: print what --json wrote as tables in Markdown",
    )
    return parser.parse_args(given)


def _machine(device: str) -> dict[str, object]:
    found: dict[str, object] = {
        "device": device,
        "name": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "gradnn": gradnn.version(),
        "threads": torch.get_num_threads(),
    }
    if device == "cuda":
        found["name"] = torch.cuda.get_device_name()
        found["cuda"] = torch.version.cuda
        found["cudnn"] = torch.backends.cudnn.version()
    return found


def _write(report: dict, path: pathlib.Path | None) -> None:
    """Whole or not at all: a run that is ended leaves what it had."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(report, indent=1) + "\n")
    partial.replace(path)


def _say(start: float, text: str) -> None:
    print(f"[{time.perf_counter() - start:5.0f} s] {text}", file=sys.stderr, flush=True)


def _free(device: str) -> None:
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def _not_run(report: dict, start: float, title: str, failure: Exception) -> None:
    report["not_run"].append(f"{title}: {type(failure).__name__}: {failure}")
    report["failed"] = True
    _say(start, report["not_run"][-1])


def _time_network_calls(
    options, networks: dict, report: dict, rows: list, start: float
) -> None:
    for name, dtype, layout in rows:
        title = f"{name} {dtype} {layout}"
        if time.perf_counter() > start + options.limit:
            report["not_run"].append(f"{title}: no time")
            continue
        try:
            row = network_calls.measure(
                networks[name], options.size, dtype, layout, options.device
            )
        except Exception as failure:  # the others go on
            _not_run(report, start, title, failure)
            continue
        _say(start, title)
        report["network_calls"].append(row)
        _free(options.device)
        _write(report, options.json)


def _run(options: argparse.Namespace, report: dict) -> None:
    start = time.perf_counter()
    end = start + options.limit
    device = options.device
    trainer.set_up(device)
    if not options.no_calls:
        try:
            report["calls"] = calls.measure(device)
            _say(start, "small calls")
        except Exception as failure:  # the networks go on
            _not_run(report, start, "small calls", failure)
        _write(report, options.json)
    left = [
        (name, dtype, layout, run)
        for name in options.networks
        for dtype in options.dtype
        for layout in options.layout
        if layout in NETWORKS[name].layouts
        for run in options.run
    ]
    networks = dict(NETWORKS)
    if options.images:
        networks = {k: each.of_images(options.images) for k, each in networks.items()}
    reference, of = None, None
    if options.network_calls:
        rows = list(dict.fromkeys(each[:3] for each in left))
        _time_network_calls(options, networks, report, rows, start)
        report["seconds"] = time.perf_counter() - start
        return
    while left:
        name, dtype, layout, run = left[0]
        title = f"{name} {dtype} {layout} {run}"
        network = networks[name]
        now = time.perf_counter()
        if now > end:
            report["not_run"] += [f"{' '.join(each)}: no time" for each in left]
            break
        deadline = now + (end - now) / len(left)
        left.pop(0)
        try:
            if of != name:
                reference = None
                _free(device)
                reference = steps.make_reference(network, options.size, device)
                of = name
                _say(start, f"{name} in float64")
            row = steps.measure(
                network, options.size, dtype, layout, run, device, reference,
                options.seconds, deadline, options.modes,
            )  # fmt: skip
        except Exception as failure:  # the other networks go on
            _not_run(report, start, title, failure)
            _write(report, options.json)
            continue
        row["device"] = device
        images = network.images(options.size)
        fewer = images < NETWORKS[name].images(options.size)
        row["images"] = images if fewer else None
        report["rows"].append(row)
        _free(device)
        _say(start, " ".join(table.cells(row)))
        _write(report, options.json)
    report["seconds"] = time.perf_counter() - start


def _has_failed(report: dict) -> bool:
    for row in report["rows"]:
        gradnn_found = row["modes"]["gradnn"]
        if "error" in row["modes"]["pytorch"] or "error" in gradnn_found:
            return True
        if not gradnn_found["same_bits"]:
            return True
    return bool(report["failed"])


def main(given: list[str] | None = None) -> int:
    options = _arguments(given)
    if options.tables:
        reports = [json.loads(each.read_text()) for each in options.tables]
        print(markdown.markdown(reports))
        return 0
    if options.threads:
        torch.set_num_threads(options.threads)
    report: dict = {
        "machine": _machine(options.device),
        "size": options.size,
        "calls": [],
        "network_calls": [],
        "rows": [],
        "not_run": [],
        "failed": False,
        "targets": [],
    }
    _run(options, report)
    # The targets are those of whole batches of networks of full size on a GPU.
    if options.device == "cuda" and options.size == "full" and not options.images:
        report["targets"] = table.targets(report)
    _write(report, options.json)
    if options.status:
        for row in report["rows"]:
            print(f"{row['network']} {row['dtype']} {row['layout']}")
            for each in row["status"]:
                print(f"  {each}")
    machine = ", ".join(f"{key} {value}" for key, value in report["machine"].items())
    print(f"{machine}, {options.size} size, {report['seconds']:.0f} s\n")
    print(table.text(report))
    return 1 if _has_failed(report) else 0


if __name__ == "__main__":
    sys.exit(main())
