"""Tables of what bench/compare has measured, with means and targets.

A row is {"case", "layout", "dtype", "bytes", "gradnn": {...} or {"failed"},
"pytorch": {...}, "pytorch_deterministic": {...}}; times are in "time_ms" (gradnn)
and "ms" (PyTorch), latencies in "latency_us" and "replay_us" of both.
"""

import json
import math
import os

import chart
import targets

PEERS = ("pytorch", "pytorch_deterministic")
PEER_NAMES = {"pytorch": "PyTorch", "pytorch_deterministic": "deterministic PyTorch"}


def faster(row, peer="pytorch"):
    """Times faster than the peer; None where one of them has no time."""
    theirs = row.get(peer, {}).get("ms")
    ours = row["gradnn"].get("time_ms")
    return theirs / ours if theirs and ours else None


def share(row):
    return row["gradnn"].get("limit_share")


def is_small(row):
    """Whether launches, and not memory, bound the problem."""
    return row["bytes"] < targets.INTERPOLATION_BYTES


def launches(row, results):
    """Time in units of an empty launch and the bytes at the copy rate."""
    empty = results.get("empty_launch")
    ours = row["gradnn"].get("time_ms")
    if not empty or not ours:
        return None
    copied = row["bytes"] / results["copy_gb_per_s"] / 1e6
    return ours / (empty["device_ms"] + copied)


def geometric_mean(values):
    values = [value for value in values if value]
    if not values:
        return None
    return math.exp(sum(math.log(value) for value in values) / len(values))


def columns_of(results):
    """The (dtype, layout) pairs that were measured, in order."""
    return list(dict.fromkeys((row["dtype"], row["layout"]) for row in results["rows"]))


def rows_of(results, dtype, layouts):
    return [
        row
        for row in results["rows"]
        if row["dtype"] == dtype and row["layout"] in layouts
    ]


def percent(value):
    return "-" if value is None else f"{100 * value:.0f} %"


def times(value):
    if value is None:
        return "-"
    return f"{value:.1f}x" if value >= 10 else f"{value:.2f}x"


def milliseconds(value):
    return f"{value:.3f} ms" if value < 10 else f"{value:.1f} ms"


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


def _verdict(label, rows, value_of, mean_wanted, worst_wanted, show):
    """One target as a line: the figures, and met or missed with the cases."""
    valued = [(value_of(row), row) for row in rows]
    failed = [
        f"{row['case']} {row['layout']}" for row in rows if "failed" in row["gradnn"]
    ]
    known = [(value, row) for value, row in valued if value is not None]
    if not known:
        return f"- {label}: nothing measured" + _listed("failed", failed)
    mean = geometric_mean([value for value, _ in known])
    worst, worst_row = min(known, key=lambda pair: pair[0])
    wanted = []
    if mean_wanted is not None:
        wanted.append(f"{show(mean_wanted)} mean")
    if worst_wanted is not None:
        wanted.append(f"{show(worst_wanted)} worst")
    below = [
        f"{row['case']} {row['layout']} {show(value)}"
        for value, row in sorted(known, key=lambda pair: pair[0])
        if worst_wanted is not None and value < worst_wanted
    ]
    missed = below or failed or (mean_wanted is not None and mean < mean_wanted)
    return (
        f"- {label}: mean {show(mean)}, worst {show(worst)} "
        f"({worst_row['case']} {worst_row['layout']}) of {len(known)} cases; "
        f"target {' / '.join(wanted)}: {'missed' if missed else 'met'}"
        + _listed("below", below)
        + _listed("failed", failed)
    )


def _small_verdict(results, dtype, rows):
    """How far small problems are from an empty launch and their bytes."""
    known = [(launches(row, results), row) for row in rows]
    known = sorted(
        (pair for pair in known if pair[0]), key=lambda pair: pair[0], reverse=True
    )
    if not known:
        return []
    worst, row = known[0]
    wanted = targets.SMALL_LAUNCHES
    return [
        f"- small interpolation {dtype}, times an empty launch "
        f"({1e3 * results['empty_launch']['device_ms']:.1f} us) and the bytes: worst "
        f"{times(worst)} ({row['case']} {row['layout']}) of {len(known)} cases; "
        f"target {times(wanted)}: {'missed' if worst > wanted else 'met'}"
    ]


def _host_verdict(results):
    """Host time of execute on a GPU, and of the peer's call."""
    spent = sorted(
        (row["gradnn"]["host_ms"], f"{row['case']} {row['dtype']} {row['layout']}")
        for row in results["rows"]
        if "host_ms" in row["gradnn"]
    )
    if not spent:
        return []
    middle, (worst, name) = spent[len(spent) // 2][0], spent[-1]
    peer = sorted(
        row["pytorch"]["host_ms"]
        for row in results["rows"]
        if "host_ms" in row.get("pytorch", {})
    )
    of_peer = f", of PyTorch's call {1e3 * peer[len(peer) // 2]:.1f} us" if peer else ""
    return [
        f"- host time of one execute: median {1e3 * middle:.1f} us, worst "
        f"{1e3 * worst:.1f} us ({name}) of {len(spent)} cases; of an empty "
        f"launch {1e3 * results['empty_launch']['host_ms']:.1f} us" + of_peer,
        *_launches_verdict(results),
    ]


def _launches_verdict(results):
    """Host time of execute beside so many empty launches as it has launches."""
    empty = results["empty_launch"]["host_ms"]
    spent = sorted(
        (
            row["gradnn"]["host_ms"] - row["gradnn"]["launches"] * empty,
            row["gradnn"]["host_ms"],
            row["gradnn"]["launches"],
            f"{row['case']} {row['dtype']} {row['layout']}",
        )
        for row in results["rows"]
        if "launches" in row["gradnn"]
    )

    def shown(beyond, host, count, name):
        return (
            f"{1e3 * beyond:.1f} us ({name}: {1e3 * host:.1f} us beside {count} "
            f"launches, {1e3 * count * empty:.1f} us)"
        )

    if not spent:
        return []
    return [
        "- host time of one execute beyond as many empty launches: median "
        f"{shown(*spent[len(spent) // 2])}, worst {shown(*spent[-1])} of "
        f"{len(spent)} cases"
    ]


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


def _listed(what, names, most=8):
    if not names:
        return ""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"; {what}: " + ", ".join(names[:most]) + more


def verdicts(results):
    """The targets, each met or missed; they are of strict, deterministic runs."""
    if results.get("relaxed"):
        return []
    kind, engine = results["kind"], results["engine"]
    lines = []
    for dtype in dict.fromkeys(row["dtype"] for row in results["rows"]):
        if kind == "interpolation":
            wanted = targets.INTERPOLATION[engine][dtype]
            rows = rows_of(results, dtype, ("NCX", "NXC"))
            large = [row for row in rows if not is_small(row)]
            label = f"interpolation {dtype}, share of the memory limit"
            lines.append(_verdict(label, large, share, *wanted, percent))
            lines += _small_verdict(results, dtype, [*filter(is_small, rows)])
            continue
        if results.get("gradient", "all") != "all":
            lines += _alone_verdict(results, dtype)
            continue
        for peer, layouts, mean, worst in targets.CONVOLUTION[engine][dtype]:
            rows = rows_of(results, dtype, layouts)
            if not any(peer in row for row in rows):
                continue
            label = (
                f"convolution {dtype} {' and '.join(layouts)}, "
                f"times faster than {PEER_NAMES[peer]}"
            )

            def value_of(row, peer=peer):
                return faster(row, peer)

            lines.append(_verdict(label, rows, value_of, mean, worst, times))
    return lines + _host_verdict(results)


def _alone_verdict(results, dtype):
    """Targets of one gradient alone."""
    gradient, engine = results["gradient"], results["engine"]
    rows = [
        row
        for row in rows_of(results, dtype, ("NCX", "NXC"))
        if row["bytes"] >= targets.ALONE_BYTES
    ]
    if gradient == "bias":
        wanted = targets.BIAS_SHARE.get(engine)
    else:
        rows = [row for row in rows if row["case"].startswith("depthwise")]
        wanted = targets.DEPTHWISE_SHARE.get(engine)
    if not rows or not wanted:
        return []
    label = f"gradient of {gradient} {dtype}, share of the memory limit"
    return [_verdict(label, rows, share, None, wanted, percent)]


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
        lines.append(f"- no peer: {absent}")
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


def machine_line(results):
    machine = results["machine"]
    parts = [f"{machine.get('cpu', '?')}, {machine.get('threads', '?')} threads"]
    parts += [gpu["name"] for gpu in machine.get("gpus", [])]
    for name, key in (("CUDA", "cuda_runtime"), ("cuDNN", "cudnn")):
        if results["engine"] == "gpu" and machine.get(key):
            parts.append(f"{name} {machine[key]}")
    if machine.get("onednn"):
        parts.append(f"oneDNN {machine['onednn']}")
    peer = results["pytorch"]
    if "pytorch" in peer:
        cudnn = f" (cuDNN {peer['cudnn']})" if peer.get("cudnn") else ""
        parts.append(f"PyTorch {peer['pytorch']}{cudnn}")
    return "; ".join(parts)


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
    latency = latency_table(results)
    if latency:
        lines += ["", latency]
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
