"""The plot of bench/compare: horizontal bars for each case, as SVG.

Interpolation: share of the memory limit, from 0. Convolution: times faster than
PyTorch on a logarithmic axis, from the line of equal speed.
"""

import math
from xml.sax.saxutils import escape

import measures
import targets

COLOURS = {"f32": "#2f6db3", "bf16": "#e0812b", "f16": "#3f9b62", "f64": "#8a63b8"}
LABELS = 190  # width of the cases' names
WIDTH = 330  # of a panel's bars
GAP = 30
BAR = 7
TOP = 74


class _Linear:
    """From 0 % to 100 % or what is beyond."""

    title = "share of the memory limit"
    start = 0.0

    def __init__(self, values):
        self.end = max(1.0, math.ceil(5 * max(values, default=1)) / 5)
        self.ticks = [index / 5 for index in range(round(5 * self.end) + 1)]

    def place(self, value):
        return min(value, self.end) / self.end

    def label(self, value):
        return f"{100 * value:.0f} %"


class _Logarithmic:
    """Powers of 2 around 1."""

    title = "times faster than PyTorch"
    start = 1.0

    def __init__(self, values):
        low = math.floor(math.log2(min([0.5, *values])))
        high = math.ceil(math.log2(max([2.0, *values])))
        self.low, self.span = low, high - low
        step = 1 if self.span <= 8 else 2
        self.ticks = [
            2.0**power for power in range(low, high + 1) if power % step == 0
        ]

    def place(self, value):
        return (math.log2(value) - self.low) / self.span

    def label(self, value):
        return f"{value:g}x"


def _text(x, y, words, anchor="start", size=11, fill="#222", weight="normal"):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="{fill}" font-weight="{weight}">{escape(words)}</text>'
    )


def _line(x1, y1, x2, y2, colour, dashes=""):
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{colour}"{dashed}/>'
    )


def _bar(axis, left, y, value, colour, title):
    begin, end = sorted((axis.place(axis.start), axis.place(value)))
    return (
        f'<rect x="{left + WIDTH * begin:.1f}" y="{y:.1f}" '
        f'width="{max(1.0, WIDTH * (end - begin)):.1f}" height="{BAR - 1}" '
        f'fill="{colour}"><title>{escape(title)}</title></rect>'
    )


def _without(row, kind):
    """Why a case has no bar; None where the layout does not have the case."""
    if row is None:
        return None
    if "failed" in row["gradnn"]:
        return "failed"
    return "PyTorch not timed" if kind == "convolution" else "no figure"


def _panel(results, layout, left, axis, cases, dtypes, height):
    kind = results["kind"]
    value_of = measures.share if kind == "interpolation" else measures.faster
    found = {
        (row["case"], row["dtype"]): row
        for row in results["rows"]
        if row["layout"] == layout
    }
    bottom = TOP + height * len(cases)
    parts = [_text(left, TOP - 22, layout, weight="bold", size=12)]
    for tick in axis.ticks:
        x = left + WIDTH * axis.place(tick)
        strong = tick == axis.start
        parts.append(_line(x, TOP - 4, x, bottom, "#777" if strong else "#ddd"))
        parts.append(_text(x, TOP - 8, axis.label(tick), "middle", 9, "#666"))
        parts.append(_text(x, bottom + 12, axis.label(tick), "middle", 9, "#666"))
    parts.append(_text(left + WIDTH / 2, bottom + 28, axis.title, "middle"))
    for index, case in enumerate(cases):
        for place, dtype in enumerate(dtypes):
            y = TOP + index * height + 3 + place * BAR
            row = found.get((case, dtype))
            value = value_of(row) if row else None
            if value:
                title = f"{case} {dtype} {layout}: {axis.label(round(value, 3))}"
                colour = COLOURS[dtype]
                parts.append(_bar(axis, left, y, value, colour, title))
                continue
            reason = _without(row, kind)
            if reason:
                x = left + WIDTH * axis.place(axis.start) + 3
                parts.append(_text(x, y + 6, reason, size=7, fill="#a00"))
    if kind == "interpolation":
        for dtype in dtypes:
            mean, _ = targets.INTERPOLATION[results["engine"]][dtype]
            x = left + WIDTH * axis.place(mean)
            parts.append(_line(x, TOP, x, bottom, COLOURS[dtype], "4 3"))
    return parts


def svg(results):
    rows = results["rows"]
    kind = results["kind"]
    cases = list(dict.fromkeys(row["case"] for row in rows))
    dtypes = list(dict.fromkeys(row["dtype"] for row in rows))
    layouts = list(dict.fromkeys(row["layout"] for row in rows))
    if kind == "interpolation":
        axis = _Linear([value for value in map(measures.share, rows) if value])
    else:
        axis = _Logarithmic([value for value in map(measures.faster, rows) if value])
    height = BAR * len(dtypes) + 7
    width = LABELS + len(layouts) * (WIDTH + GAP)
    total = TOP + height * len(cases) + 44
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
        f'height="{total}" viewBox="0 0 {width} {total}" '
        'font-family="sans-serif">',
        f'<rect width="{width}" height="{total}" fill="white"/>',
        _text(10, 20, f"{kind} backward, {results['engine']}", size=14, weight="bold"),
        _text(10, 36, measures.machine_line(results), size=10, fill="#666"),
    ]
    for index, dtype in enumerate(dtypes):
        x = 10 + 44 * index
        parts.append(
            f'<rect x="{x}" y="44" width="9" height="9" fill="{COLOURS[dtype]}"/>'
        )
        parts.append(_text(x + 13, 53, dtype))
    for index, case in enumerate(cases):
        y = TOP + index * height
        if index % 2 == 0:
            parts.append(
                f'<rect x="0" y="{y}" width="{width}" height="{height}" '
                'fill="#f6f6f6"/>'
            )
        parts.append(_text(LABELS - 8, y + height / 2 + 4, case, "end"))
    for index, layout in enumerate(layouts):
        left = LABELS + index * (WIDTH + GAP)
        parts += _panel(results, layout, left, axis, cases, dtypes, height)
    return "\n".join([*parts, "</svg>"]) + "\n"
