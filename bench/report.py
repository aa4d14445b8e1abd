"""Tables of what bench/compare has measured, with means and targets.

A row is {"case", "layout", "dtype", "bytes", "gradnn": {...} or {"failed"},
"pytorch": {...}, "pytorch_deterministic": {...}}; times are in "time_ms" (gradnn)
and "ms" (PyTorch), latencies in "latency_us" and "replay_us" of both.
"""

import json
import os

import chart
from measures import (
    PEER_NAMES,
    PEERS,
    columns_of,
    faster,
    geometric_mean,
    is_small,
    machine_line,
    milliseconds,
    percent,
    rows_of,
    share,
    times,
)
from verdicts import verdicts


def _figures(row, kind, gradient):
    """What a cell says beside the time."""
    if kind == "interpolation":
        return [percent(share(row)), times(faster(row))]
    rate = [] if gradient == "all" else [percent(share(row))]
    return rate + [times(faster(row, peer)) for peer in PEERS if peer in row]


def _cell(row, kind, gradient):
    if row is None:
        return ""
    if "failed" in row["gradnn"]:
        return "failed"
    parts = [milliseconds(row["gradnn"]["time_ms"]), *_figures(row, kind, gradient)]
    return ", ".join(parts)


def _mean_cell(rows, kind, combine):
    parts = []
    if kind == "interpolation":
        large = [row for row in rows if not is_small(row)]
        parts.append(percent(combine([share(row) for row in large])))
        parts.append(times(combine([faster(row) for row in rows])))
    else:
        for peer in PEERS:
            if any(peer in row for row in rows):
                parts.append(times(combine([faster(row, peer) for row in rows])))
    return ", ".join(parts)


def _worst(values):
    values = [value for value in values if value]
    return min(values) if values else None


def table(results):
    """Markdown: a row for each case, a column for each type and layout."""
    kind = results["kind"]
    columns = columns_of(results)
    found = {(row["case"], row["dtype"], row["layout"]): row for row in results["rows"]}
    head = ["case", *(f"{dtype} {layout}" for dtype, layout in columns)]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for case in dict.fromkeys(row["case"] for row in results["rows"]):
        cells = [
            _cell(found.get((case, *column)), kind, results.get("gradient", "all"))
            for column in columns
        ]
        lines.append("| " + " | ".join([case, *cells]) + " |")
    for title, combine in (("geometric mean", geometric_mean), ("worst", _worst)):
        cells = [
            _mean_cell(rows_of(results, dtype, [layout]), kind, combine)
            for dtype, layout in columns
        ]
        lines.append("| " + " | ".join([title, *cells]) + " |")
    return "\n".join(lines)


def _compile_line(results):
    """Compile times; a kernel's first in a process loads libraries too."""
    first, others = [], []
    for row in results["rows"]:
        if "compile_ms" in row["gradnn"]:
            place = f"{row['case']} {row['dtype']} {row['layout']}"
            to = first if row["gradnn"]["compile_first"] else others
            to.append((row["gradnn"]["compile_ms"], place))
    parts = []
    if others:
        middle = sorted(others)[len(others) // 2][0]
        worst, place = max(others)
        parts.append(
            f"median {middle:.2f} ms, worst {worst:.2f} ms ({place}) of "
            f"{len(others)} cases"
        )
    if first:
        worst, place = max(first)
        parts.append(
            f"of {len(first)} that were a kernel's first in a process, which loads "
            f"libraries too, up to {worst:.2f} ms ({place})"
        )
    if not parts:
        return []
    measured = ""
    if results["engine"] == "gpu" and results["kind"] == "convolution":
        measured = ", cuDNN's kernels " + (
            "measured" if results["cudnn_measured"] else "not measured"
        )
    return [f"- compile time of an op{measured}: " + "; ".join(parts)]


def summary(results):
    """Means for each column, then the targets."""
    lines = []
    for dtype, layout in columns_of(results):
        rows = rows_of(results, dtype, [layout])
        parts = []
        if results["kind"] == "interpolation":
            mean = geometric_mean([share(row) for row in rows if not is_small(row)])
            parts.append(f"{percent(mean)} of the memory limit")
        for peer in PEERS:
            mean = geometric_mean([faster(row, peer) for row in rows])
            if mean:
                parts.append(f"{times(mean)} as fast as {PEER_NAMES[peer]}")
        failed = sum("failed" in row["gradnn"] for row in rows)
        if failed:
            parts.append(f"{failed} of {len(rows)} failed")
        text = "; ".join(parts) or "no figures"
        lines.append(f"- {results['kind']} {dtype} {layout}, geometric mean: {text}")
    absent = results["pytorch"].get("absent")
    if absent:
        lines.append(f"- PyTorch was not timed: {absent}")
    return "\n".join(lines + verdicts(results) + _compile_line(results))


def latency_table(results):
    """Markdown: one call at a time, where that was measured; else nothing."""
    rows = [row for row in results["rows"] if "latency_us" in row["gradnn"]]
    if not rows:
        return ""
    keys = {"latency_us": "a call"}
    if results["engine"] == "gpu":
        keys["replay_us"] = "by replay"
    head = ["case"]
    for what in keys.values():
        head += [f"{what}, us", "PyTorch's", "times faster"]
    if "replay_us" in keys:
        head.append("launches")
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        cells = [f"{row['case']} {row['dtype']} {row['layout']}"]
        for key in keys:
            ours = row["gradnn"][key]
            theirs = row.get("pytorch", {}).get(key)
            cells.append(f"{ours:.1f}")
            cells.append(f"{theirs:.1f}" if theirs else "-")
            cells.append(times(theirs / ours if theirs else None))
        if "replay_us" in keys:
            cells.append(str(row["gradnn"]["launches"]))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(
        [
            "One call at a time, its tensors warm: time of the host until the work "
            "is done"
            + (", and of a CUDA graph of it." if "replay_us" in keys else "."),
            "",
            *lines,
        ]
    )


def memory_table(results):
    """Markdown: memory beside the tensors, where PyTorch's was asked for; else
    nothing."""
    if not results.get("memory"):
        return ""
    lines = ["| case | gradnn, MiB | PyTorch, MiB |", "|---|---|---|"]
    for row in results["rows"]:
        cells = [f"{row['case']} {row['dtype']} {row['layout']}"]
        for side in ("gradnn", "pytorch"):
            taken = row.get(side, {}).get("workspace_bytes")
            cells.append("-" if taken is None else f"{taken / 2**20:.1f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(["The most memory of a call beside its tensors.", "", *lines])


def _without_figures(results):
    """Cases that one side did not run, and why."""
    lines = []
    for row in results["rows"]:
        place = f"{row['case']} {row['dtype']} {row['layout']}"
        if "failed" in row["gradnn"]:
            lines.append(f"- {place}: gradnn failed: {row['gradnn']['failed']}")
        for peer in PEERS:
            answer = row.get(peer, {})
            reason = answer.get("refused") or answer.get("failed")
            if reason:
                lines.append(f"- {place}: {PEER_NAMES[peer]}: {reason}")
    return lines


def _legend(results):
    if results["kind"] == "interpolation":
        return (
            "Cells: gradnn's time, its share of the memory limit, times faster "
            "than PyTorch (- where PyTorch has no such gradient). Shares of cases "
            "that move less than 64 MB are not in the means."
        )
    against = "times faster than PyTorch"
    if any("pytorch_deterministic" in row for row in results["rows"]):
        against += " and than PyTorch with its deterministic flag"
    against += "."
    gradient = results.get("gradient", "all")
    if gradient == "all":
        return f"Cells: gradnn's time for dX, dW and dB together, {against}"
    return (
        f"Cells: gradnn's time for the gradient of {gradient} alone, its share of "
        f"the memory limit (each tensor once), {against}"
    )


def markdown(results):
    copy = results.get("copy_gb_per_s")
    lines = [
        f"# {results['kind']}, {results['engine']}",
        machine_line(results) + ".",
        "",
        "```",
        results["command"],
        "```",
        "Caches cold, medians. "
        + (f"Copy rate of the run: {copy:.0f} GB/s. " if copy else "")
        + _legend(results),
        "",
        table(results),
        "",
        summary(results),
    ]
    for more in (latency_table(results), memory_table(results)):
        if more:
            lines += ["", more]
    without = _without_figures(results)
    if without:
        lines += ["", "Without figures:", *without]
    return "\n".join(lines) + "\n"


def write(results, folder):
    """results.json, results.md and results.svg in the folder."""
    for name, text in (
        ("results.json", json.dumps(results, indent=1) + "\n"),
        ("results.md", markdown(results)),
        ("results.svg", chart.svg(results)),
    ):
        replace_file(os.path.join(folder, name), text)


def replace_file(path, text):
    """Writes a file in one piece: a run that is cut off leaves the old one."""
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".tmp", path)
