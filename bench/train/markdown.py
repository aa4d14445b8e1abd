"""The tables of doc/performance: steps and host times, of one or more reports."""

from __future__ import annotations

from .table import geometric_mean, kernel_ratio, kernels, ratio, run_of

_STEPS = (
    "| network | type, layout | PyTorch | deterministic | gradnn "
    "| step, times faster | kernels, times faster | upsampling | convolution |",
    "|---|---|---|---|---|---|---|---|---|",
)
_RUNS = (
    "| network | type, layout | graph: PyTorch | gradnn | times faster "
    "| compiled: PyTorch | gradnn | times faster |",
    "|---|---|---|---|---|---|---|---|",
)
_CALLS = ("| op | PyTorch | gradnn | execute |", "|---|---|---|---|")


def _step(row: dict, mode: str) -> str:
    found = row["modes"].get(mode, {})
    if "ms" not in found:
        return "raises" if "error" in found else "-"
    inside = found.get("profile", {}).get("ms")
    return f"{found['ms']:.1f}" + (f" ({inside:.1f})" if inside else "")


def _gradients(row: dict, part: str) -> str:
    theirs, ours = kernels(row, part)
    if not theirs and not ours:
        return ""
    return f"{theirs or 0:.2f} to {ours or 0:.2f}"


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _means(rows: list[dict]) -> list[str]:
    lines = []
    for dtype, run in dict.fromkeys((row["dtype"], run_of(row)) for row in rows):
        some = [r for r in rows if (r["dtype"], run_of(r)) == (dtype, run)]
        parts = []
        for name, of in (("step", ratio), ("kernels", kernel_ratio)):
            values = [value for value in map(of, some) if value is not None]
            if values:
                parts.append(
                    f"{name} {geometric_mean(values):.2f} (worst {min(values):.2f})"
                )
        against = geometric_mean(ratio(row, "deterministic") for row in some)
        if against:
            parts.append(f"against deterministic PyTorch {_times(against)}")
        title = dtype if run == "eager" else f"{dtype} {run}"
        lines.append(f"- {title}, {len(some)} rows: {', '.join(parts) or '-'}")
    return lines


def _name(row: dict) -> list[str]:
    images = row.get("images")  # where they are fewer than the network's
    network = row["network"] + (f", batch {images}" if images else "")
    return [network, f"{row['dtype']} {row['layout']}"]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _steps(rows: list[dict]) -> list[str]:
    lines = []
    for row in rows:
        cells = _name(row)
        cells += [_step(row, mode) for mode in ("pytorch", "deterministic", "gradnn")]
        cells += [_times(ratio(row)), _times(kernel_ratio(row))]
        cells += [_gradients(row, f"{part}_ms") for part in ("upsample", "convolution")]
        lines.append(_line(cells))
    return lines


def _runs(rows: list[dict]) -> list[str]:
    """Graphs and compiled models, side by side; below them what raised."""
    lines: dict[str, dict[str, list[str]]] = {}
    raised = []
    for row in rows:
        cells = [*(_step(row, mode) for mode in ("pytorch", "gradnn"))]
        cells.append(_times(ratio(row)))
        lines.setdefault(" | ".join(_name(row)), {})[row["run"]] = cells
        for mode, found in row["modes"].items():
            if "error" in found:
                name = f"{' '.join(_name(row))}, {row['run']}"
                raised.append(f"- {name}: {mode} raises {found['error']}")
    none = ["-"] * 3
    return [
        _line([name, *by_run.get("graph", none), *by_run.get("compiled", none)])
        for name, by_run in lines.items()
    ] + (["", *raised] if raised else [])


def markdown(reports: list[dict]) -> str:
    """Rows by network, as the first report that names one has them."""
    rows = [row for report in reports for row in report["rows"]]
    order = list(dict.fromkeys(row["network"] for row in rows))
    rows.sort(key=lambda row: (order.index(row["network"]), row["dtype"]))
    eager = [row for row in rows if run_of(row) == "eager"]
    others = [row for row in rows if run_of(row) != "eager"]
    lines = []
    if eager:
        lines += [*_STEPS, *_steps(eager), ""]
    if others:
        lines += [*_RUNS, *_runs(others), ""]
    lines += ["Geometric means of times faster:", *_means(eager + others)]
    # A report that another version wrote may have no such list.
    missing = [each for report in reports for each in report.get("not_run", [])]
    lines += [f"- not run: {each}" for each in missing if not each.endswith("no time")]
    calls = [call for report in reports for call in report["calls"]]
    if calls:
        lines += ["", "Host time of one small call, us:", "", *_CALLS]
        for call in calls:
            times = [call[f"{each}_us"] for each in ("pytorch", "gradnn", "execute")]
            lines.append(
                f"| {call['op']} | {' | '.join(f'{us:.1f}' for us in times)} |"
            )
    return "\n".join(lines)
