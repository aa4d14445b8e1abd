"""The tables of doc/performance: steps and host times, of one or more reports."""

from __future__ import annotations

from .table import geometric_mean, ratio

_STEPS = (
    "| network | type, layout | PyTorch | deterministic | gradnn "
    "| step, times faster | kernels, times faster | upsampling | convolution |",
    "|---|---|---|---|---|---|---|---|---|",
)
_CALLS = ("| op | PyTorch | gradnn | execute |", "|---|---|---|---|")
_BOTH = ("pytorch", "gradnn")


def _kernels(row: dict, part: str = "ms") -> list[float | None]:
    """Milliseconds of kernels of a step, in PyTorch and in gradnn."""
    return [row["modes"].get(mode, {}).get("profile", {}).get(part) for mode in _BOTH]


def kernel_ratio(row: dict) -> float | None:
    theirs, ours = _kernels(row)
    return theirs / ours if theirs and ours else None


def _step(row: dict, mode: str) -> str:
    found = row["modes"].get(mode, {})
    if "ms" not in found:
        return "raises" if "error" in found else "-"
    kernels = found.get("profile", {}).get("ms")
    return f"{found['ms']:.1f}" + (f" ({kernels:.1f})" if kernels else "")


def _gradients(row: dict, part: str) -> str:
    theirs, ours = _kernels(row, part)
    if not theirs and not ours:
        return ""
    return f"{theirs or 0:.2f} to {ours or 0:.2f}"


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _means(rows: list[dict]) -> list[str]:
    lines = []
    for dtype in dict.fromkeys(row["dtype"] for row in rows):
        some = [row for row in rows if row["dtype"] == dtype]
        parts = []
        for name, of in (("step", ratio), ("kernels", kernel_ratio)):
            values = [value for value in map(of, some) if value is not None]
            if values:
                parts.append(
                    f"{name} {geometric_mean(values):.2f} (worst {min(values):.2f})"
                )
        against = geometric_mean(ratio(row, "deterministic") for row in some)
        parts.append(f"against deterministic PyTorch {_times(against)}")
        lines.append(f"- {dtype}, {len(some)} rows: {', '.join(parts)}")
    return lines


def markdown(reports: list[dict]) -> str:
    """Rows by network, as the first report that names one has them."""
    rows = [row for report in reports for row in report["rows"]]
    order = list(dict.fromkeys(row["network"] for row in rows))
    rows.sort(key=lambda row: (order.index(row["network"]), row["dtype"]))
    lines = [*_STEPS]
    for row in rows:
        cells = [row["network"], f"{row['dtype']} {row['layout']}"]
        cells += [_step(row, mode) for mode in ("pytorch", "deterministic", "gradnn")]
        cells += [_times(ratio(row)), _times(kernel_ratio(row))]
        cells += [_gradients(row, f"{part}_ms") for part in ("upsample", "convolution")]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "Geometric means of times faster:", *_means(rows)]
    calls = [call for report in reports for call in report["calls"]]
    if calls:
        lines += ["", "Host time of one small call, us:", "", *_CALLS]
        for call in calls:
            times = [call[f"{each}_us"] for each in ("pytorch", "gradnn", "execute")]
            lines.append(
                f"| {call['op']} | {' | '.join(f'{us:.1f}' for us in times)} |"
            )
    return "\n".join(lines)
