"""The report in words: a row for each network, type and layout, then targets."""

from __future__ import annotations

import math

# Of the issue, against PyTorch with cudnn.benchmark: geometric means, by the way
# that steps are run; and of the time of bf16's kernels.
FASTER = {
    "eager": {"bf16": 1.2, "f32": 1.5},
    "graph": {"bf16": 1.2, "f32": 1.5},
    "compiled": {"bf16": 1.15, "f32": 1.5},
}
FASTER_KERNELS = 1.2
FASTER_THAN_DETERMINISTIC = 2.0
WORST = 1.0
UPSAMPLE_BEYOND_EXECUTE_US = 6.0


def ratio(row: dict, against: str = "pytorch") -> float | None:
    """How many times faster gradnn's step is; None where one did not run."""
    times = [row["modes"].get(mode, {}).get("ms") for mode in (against, "gradnn")]
    if None in times:
        return None
    return times[0] / times[1]


def run_of(row: dict) -> str:
    """Reports of earlier versions have eager steps alone."""
    return row.get("run", "eager")


def kernels(row: dict, part: str = "ms") -> list[float | None]:
    """Milliseconds of kernels of a step, in PyTorch and in gradnn."""
    modes = (row["modes"].get(mode, {}) for mode in ("pytorch", "gradnn"))
    return [mode.get("profile", {}).get(part) for mode in modes]


def kernel_ratio(row: dict) -> float | None:
    theirs, ours = kernels(row)
    return theirs / ours if theirs and ours else None


def geometric_mean(values) -> float | None:
    values = [value for value in values if value is not None]
    if not values:
        return None
    return math.exp(sum(map(math.log, values)) / len(values))


def _number(value: float | None, pattern: str) -> str:
    return "-" if value is None else format(value, pattern)


def _share(profile: dict | None, part: str) -> str:
    if not profile or not profile["ms"]:
        return "-"
    return f"{100 * profile[part] / profile['ms']:.0f}"


def cells(row: dict) -> list[str]:
    """A line of the table."""
    modes = row["modes"]
    line = [row["network"], row["dtype"], row["layout"], run_of(row)]
    for mode in ("pytorch", "deterministic", "gradnn"):
        found = modes.get(mode, {})
        text = "raises" if "error" in found else _number(found.get("ms"), ".4g")
        line.append(text)
    line.append(_number(ratio(row), ".2f"))
    line.append(_number(ratio(row, "deterministic"), ".2f"))
    for mode in ("pytorch", "gradnn"):
        profile = modes.get(mode, {}).get("profile")
        parts = [_share(profile, f"{part}_ms") for part in ("upsample", "convolution")]
        line.append("+".join(parts))
    for mode in ("pytorch", "gradnn"):
        found = modes.get(mode, {}).get("difference")
        line.append(_number(found and found["max"], ".1e"))
    bits = []
    for mode in ("pytorch", "gradnn"):
        same = modes.get(mode, {}).get("same_bits")
        bits.append("-" if same is None else "yes" if same else "no")
    line.append("/".join(bits))
    peaks = [modes.get(mode, {}).get("peak_bytes") for mode in ("pytorch", "gradnn")]
    line.append(
        "/".join("-" if peak is None else f"{peak / 1e9:.1f}" for peak in peaks)
    )
    return line


_HEADER = [
    "network",
    "type",
    "layout",
    "run",
    "PyTorch ms",
    "determ. ms",
    "gradnn ms",
    "x",
    "x det.",
    "up+conv %",
    "gradnn's",
    "f64 diff",
    "gradnn's",
    "same bits",
    "peak GB",
]


def _aligned(rows: list[list[str]], lefts: int = 3) -> list[str]:
    """Lines of a grid; so many columns are words."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for row in rows:
        padded = [
            cell.ljust(width) if index < lefts else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(padded).rstrip())
    return lines


def _remarks(rows: list[dict]) -> list[str]:
    """What the table has no room for, the same once."""
    lines = []
    for row in rows:
        name = f"{row['network']} {row['dtype']} {row['layout']} {run_of(row)}"
        for mode, found in row["modes"].items():
            if "error" in found:
                lines.append(f"{name}: {mode} raises {found['error']}")
        gradnn = row["modes"].get("gradnn", {})
        if gradnn.get("same_bits") is False:
            parts = ", ".join(gradnn["unequal"])
            lines.append(f"{name}: gradnn's bits differ in two runs: {parts}")
        for each in row["native"]:
            lines.append(
                f"{name}: {each['op']} ran in PyTorch {each['calls']} times: "
                f"{each['how']}"
            )
        size = "x".join(map(str, row["size"]))
        if row["reference"] != size:
            lines.append(
                f"{name}: float64 at {row['reference']}, {size} does not fit"
            )
        theirs = row["modes"].get("pytorch", {}).get("profile", {}).get("ms")
        kernels = gradnn.get("profile", {}).get("ms")
        step = gradnn.get("ms")
        if row["device"] == "cuda" and kernels and step and kernels < 0.8 * step:
            lines.append(
                f"{name}: the host bounds the step: gradnn's kernels take "
                f"{kernels:.1f} ms of {step:.1f}, PyTorch's {_number(theirs, '.1f')}"
            )
    return lines


def _best_layouts(rows: list[dict]) -> list[float]:
    """PyTorch in its better layout by gradnn in its better one."""
    best: dict[str, dict[str, float]] = {}
    for row in rows:
        if ratio(row) is None:
            continue
        found = best.setdefault(row["network"], {})
        for mode in ("pytorch", "gradnn"):
            ms = row["modes"][mode]["ms"]
            found[mode] = min(found.get(mode, ms), ms)
    return [each["pytorch"] / each["gradnn"] for each in best.values()]


def targets(report: dict) -> list[dict[str, object]]:
    """Each target with its value, what was measured, and whether it is met."""
    rows, found = report["rows"], []

    def add(what: str, value, wanted: float, met) -> None:
        if value is not None:
            found.append({"what": what, "value": value, "wanted": wanted, "met": met})

    def add_mean(what: str, mean: float | None, wanted: float) -> None:
        met = mean is not None and mean >= wanted
        add(f"{what}, geometric mean, at least", mean, wanted, met)

    for run, by_dtype in FASTER.items():
        for dtype, wanted in by_dtype.items():
            some = [r for r in rows if r["dtype"] == dtype and run_of(r) == run]
            mean = geometric_mean(map(ratio, some))
            add_mean(f"{dtype} {run}: times faster than PyTorch", mean, wanted)
    mean = geometric_mean(kernel_ratio(r) for r in rows if r["dtype"] == "bf16")
    add_mean("bf16: kernels, times faster than PyTorch's", mean, FASTER_KERNELS)
    mean = geometric_mean(ratio(row, "deterministic") for row in rows)
    add_mean("times faster than deterministic PyTorch", mean, FASTER_THAN_DETERMINISTIC)
    ratios = [value for value in map(ratio, rows) if value is not None]
    if ratios:
        add("slowest step, at least", min(ratios), WORST, min(ratios) >= WORST)
    beyond, shares = [], []
    for call in report["calls"]:
        shares.append(call["gradnn_us"] / call["pytorch_us"])
        if call["op"].startswith("convolution"):
            add(
                f"{call['op']}: host time in us, at most",
                call["gradnn_us"],
                call["pytorch_us"],
                shares[-1] <= 1,
            )
        else:
            beyond.append(call["gradnn_us"] - call["execute_us"])
    if beyond:
        add(
            "upsampling: host time in us beyond execute, at most",
            max(beyond),
            UPSAMPLE_BEYOND_EXECUTE_US,
            max(beyond) <= UPSAMPLE_BEYOND_EXECUTE_US,
        )
    if shares:
        add("a call by PyTorch's, at most", max(shares), 1.0, max(shares) <= 1)
    return found


def text(report: dict) -> str:
    rows = report["rows"]
    lines = []
    if report["calls"]:
        grid = [["op, us of the host", "", "", "PyTorch", "gradnn", "execute"]]
        for call in report["calls"]:
            times = [call[f"{each}_us"] for each in ("pytorch", "gradnn", "execute")]
            grid.append([call["op"], "", "", *(f"{us:.1f}" for us in times)])
        lines += [*_aligned(grid), ""]
    if report["network_calls"]:
        grid = [["convolution_backward of a step", "", "", "calls"]]
        grid[0] += ["PyTorch's host ms", "gradnn's", "with the device's ms", "gradnn's"]
        for row in report["network_calls"]:
            times = [
                row[f"{mode}{part}_ms"]
                for part in ("_host", "")
                for mode in ("pytorch", "gradnn")
            ]
            grid.append([row["network"], row["dtype"], row["layout"]])
            grid[-1] += [str(row["calls"]), *(f"{ms:.2f}" for ms in times)]
        lines += [*_aligned(grid), ""]
    if rows:
        lines += [*_aligned([_HEADER, *map(cells, rows)], lefts=4), ""]
        lines += _remarks(rows)
        for dtype, run in sorted({(row["dtype"], run_of(row)) for row in rows}):
            some = [r for r in rows if (r["dtype"], run_of(r)) == (dtype, run)]
            parts = []
            for layout in ("NCX", "NXC"):
                mean = geometric_mean(ratio(r) for r in some if r["layout"] == layout)
                parts.append(f"{layout} {_number(mean, '.2f')}")
            best = geometric_mean(_best_layouts(some))
            slow = geometric_mean(ratio(row, "deterministic") for row in some)
            lines.append(
                f"{dtype} {run}: geometric means {', '.join(parts)}, each side in its "
                f"better layout {_number(best, '.2f')}, against deterministic "
                f"{_number(slow, '.2f')}"
            )
    for each in report["not_run"]:
        lines.append(f"not run: {each}")
    for each in report["targets"]:
        verdict = "met" if each["met"] else "missed"
        lines.append(
            f"{verdict}: {each['what']} {each['wanted']:.2f}: {each['value']:.2f}"
        )
    return "\n".join(lines)
