"""What bench/sweep prints: how its problems are distributed, the worst, means by
kernel and by shape, what other kernels would have done, and the targets.

A row is one of report.py's with a problem of problems.py in it and its "line".
"""

import math

import measures
import targets

MOST_SHOWN = 10
# A kernel is called faster from here on: what is below is the spread of times.
NOTICED = 1.05


def share(figures):
    """Of the limit which is nearer, of a result or a step of gradnn bench."""
    bound = figures.get("bound")
    return figures.get("compute_share" if bound == "compute" else "limit_share")


def percentile(values, percent):
    """Between the two values nearest to that place, in proportion."""
    values = sorted(values)
    place = (len(values) - 1) * percent / 100
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def steps_of(rows):
    """(row, step) of all rows that were timed."""
    for row in rows:
        for step in row["gradnn"].get("steps", []):
            yield row, step


def short(kernel):
    return kernel.split(".", 1)[-1]


def others(step):
    """(time of the step's kernel, [(time, kernel) of the others]), all timed in
    the same way; None without --every-row."""
    rows = [each for each in step.get("rows", []) if "time_ms" in each]
    taken = [each["time_ms"] for each in rows if each["taken"]]
    if not taken:
        return None
    return taken[0], [
        (each["time_ms"], each["kernel"]) for each in rows if not each["taken"]
    ]


def beaten(rows):
    """[(factor, kernel, the faster kernel, row, step)], the largest first."""
    found = []
    for row, step in steps_of(rows):
        timed = others(step)
        if not timed or not timed[1]:
            continue
        best, kernel = min(timed[1])
        if timed[0] > NOTICED * best:
            found.append((timed[0] / best, step["kernel"], kernel, row, step))
    return sorted(found, key=lambda each: each[0], reverse=True)


def groups(rows, key):
    """{key: rows} in the order of the keys."""
    found = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return dict(sorted(found.items()))


def _kind_and_type(row):
    return row["kind"], row["dtype"]


def timed(rows):
    return [row for row in rows if "time_ms" in row["gradnn"]]


def _table(head, lines):
    return [
        "| " + " | ".join(head) + " |",
        "|---" * len(head) + "|",
        *("| " + " | ".join(cells) + " |" for cells in lines),
    ]


def spread(rows):
    """Markdown: deciles of the shares, and times PyTorch."""
    lines = []
    for (kind, dtype), part in groups(timed(rows), _kind_and_type).items():
        shares = [share(row["gradnn"]) for row in part]
        ratios = [r for r in map(measures.faster, part) if r]
        lines.append(
            [
                f"{kind} {dtype}",
                str(len(part)),
                " ".join(f"{100 * percentile(shares, p):.0f}" for p in range(10, 91, 10)),
                measures.percent(measures.geometric_mean(shares)),
                _precise(percentile(shares, 10)),
                _precise(min(shares)),
                measures.times(measures.geometric_mean(ratios)),
                measures.times(min(ratios) if ratios else None),
                f"{sum(r < 1 for r in ratios)} of {len(ratios)}",
            ]
        )
    head = ["", "problems", "deciles of the share, %", "geometric mean"]
    head += ["tenth percentile", "worst", "times PyTorch", "worst", "slower than it"]
    return _table(head, lines)


def _precise(value):
    return f"{100 * value:.1f} %" if value < 0.0995 else measures.percent(value)


def _means(title, valued):
    """Markdown: for each name and type what the values come to. `valued` are
    (name, type, share, times PyTorch or None)."""
    found = {}
    for name, dtype, of_limit, ratio in valued:
        found.setdefault(name, {}).setdefault(dtype, []).append((of_limit, ratio))
    types = [
        each
        for each in ("f64", "f32", "bf16", "f16")
        if any(each in by_type for by_type in found.values())
    ]

    def cell(values):
        if not values:
            return ""
        shares = [each for each, _ in values]
        mean = measures.geometric_mean(shares)
        text = f"{measures.percent(mean)} ({_precise(min(shares))}, {len(values)})"
        ratio = measures.geometric_mean([each for _, each in values])
        return f"{text}, {measures.times(ratio)}" if ratio else text

    lines = [
        [name, *(cell(by_type.get(dtype)) for dtype in types)]
        for name, by_type in sorted(found.items())
    ]
    return _table([title, *types], lines)


def by_kernel(rows):
    """Means of the gradients of each kernel; those of the bias are left out."""

    def name(row, step):
        output = "" if row["kind"] == "interpolation" else f" {step['output']}"
        return short(step["kernel"]) + output

    return _means(
        "kernel",
        [
            (name(row, step), row["dtype"], share(step), None)
            for row, step in steps_of(rows)
            if step["output"] != "diff_bias"
        ],
    )


def by_name(rows, title, name_of):
    """Means of whole problems."""
    return _means(
        title,
        [
            (name_of(row), row["dtype"], share(row["gradnn"]), measures.faster(row))
            for row in timed(rows)
        ],
    )


def shape_of(row):
    return f"{len(row['case']['src'])}-D {row['layout']}"


def _described(row):
    figures = row["gradnn"]
    ratio = measures.faster(row)
    kernels = "+".join(
        dict.fromkeys(short(step["kernel"]) for step in figures["steps"])
    )
    against = f", {measures.times(ratio)} PyTorch" if ratio else ""
    return (
        f"- {row['index']}: {row['line']}: {kernels} "
        f"{_precise(share(figures))} {figures['bound']}{against}"
    )


def worst(rows, value_of):
    known = [(value_of(row), row["index"], row) for row in timed(rows)]
    known = sorted(each for each in known if each[0] is not None)
    return [_described(row) for _, _, row in known[:MOST_SHOWN]]


def faster_rows(rows):
    """What other kernels would have done, where they were timed."""
    compared = [
        timed for timed in (others(step) for _, step in steps_of(rows)) if timed
    ]
    compared = [each for each in compared if each[1]]
    if not compared:
        return []
    found = beaten(rows)
    lost = [time / min(time, min(rivals)[0]) for time, rivals in compared]
    gain = 1 - 1 / measures.geometric_mean(lost)
    lines = [
        f"Another kernel was faster by more than {100 * NOTICED - 100:.0f} % in "
        f"{len(found)} of {len(compared)} gradients that several can compute. With "
        f"the fastest each they would take {100 * gain:.1f} % less time (geometric "
        "mean)."
    ]
    if not found:
        return lines
    lines += ["", "Taken and faster: number, mean and largest factor:", ""]
    pairs = {}
    for factor, kernel, better, _, _ in found:
        pairs.setdefault((short(kernel), short(better)), []).append(factor)
    for (kernel, better), factors in sorted(
        pairs.items(), key=lambda each: sum(map(math.log, each[1])), reverse=True
    ):
        lines.append(
            f"- {kernel} -> {better}: {len(factors)}, "
            f"{measures.times(measures.geometric_mean(factors))}, "
            f"{measures.times(max(factors))}"
        )
    lines += ["", "The largest factors:", ""]
    for factor, kernel, better, row, step in found[:MOST_SHOWN]:
        lines.append(
            f"- {row['index']}: {row['line']}, {step['output']}: {short(kernel)} -> "
            f"{short(better)} {measures.times(factor)}"
        )
    return lines


def verdicts(results):
    """The targets, each met or missed."""
    engine = results["engine"]
    lines = []
    for (kind, dtype), part in groups(results["rows"], _kind_and_type).items():
        failed = len(part) - len(timed(part))
        tail = f"; {failed} failed" if failed else ""
        shares = [share(row["gradnn"]) for row in timed(part)]
        if kind == "interpolation" and shares:
            found = (
                measures.geometric_mean(shares),
                percentile(shares, 10),
                min(shares),
            )
            wanted = targets.SWEEP[engine][dtype]
            met = not failed and all(a >= b for a, b in zip(found, wanted))
            lines.append(
                f"- {kind} {dtype}, mean / tenth percentile / worst: "
                f"{' / '.join(map(_precise, found))} of "
                f"{' / '.join(map(measures.percent, wanted))}: "
                f"{'met' if met else 'missed'}{tail}"
            )
        ratios = [each for each in map(measures.faster, part) if each]
        least = targets.SWEEP_PEER[engine].get(kind)
        if ratios and least:
            below = sum(each < least for each in ratios)
            lines.append(
                f"- {kind} {dtype}, times PyTorch at least {least:g}: worst "
                f"{measures.times(min(ratios))}, {below} of {len(ratios)} below: "
                f"{'missed' if below or failed else 'met'}{tail}"
            )
    return lines


def _without_figures(rows):
    lines = []
    for row in rows:
        answer = row.get("pytorch", {})
        if "failed" in row["gradnn"]:
            lines.append(f"- {row['line']}: gradnn: {row['gradnn']['failed']}")
        elif "failed" in answer:
            lines.append(f"- {row['line']}: PyTorch: {answer['failed']}")
    return lines


def summary(results, count):
    """All that is printed, as Markdown. `count` problems were asked for."""
    rows = results["rows"]
    settings = results["settings"]
    copy = results.get("copy_gb_per_s")
    refused = sum("refused" in row.get("pytorch", {}) for row in rows)
    least, most = settings["megabytes"]
    lines = [
        f"{measures.machine_line(results)}.",
        "",
        f"{len(rows)} of {count} problems of seed {settings['seed']}, {least:g} to "
        f"{most:g} MB, in {results['seconds_in_all']:.0f} s "
        f"({results['seconds_of_gradnn']:.0f} of gradnn's program); "
        f"{len(rows) - len(timed(rows))} failed, {refused} without a gradient of "
        "PyTorch's." + (f" Copy rate {copy:.0f} GB/s." if copy else ""),
    ]
    absent = results["pytorch"].get("absent")
    if absent:
        lines.append(f"PyTorch is not compared: {absent}.")
    if not timed(rows):
        return "\n".join([*lines, "", *_without_figures(rows)])
    lines += ["", *spread(rows)]
    for kind, part in groups(rows, lambda row: row["kind"]).items():
        lines += ["", f"{kind}, the worst by share:", ""]
        lines += worst(part, lambda row: share(row["gradnn"]))
        slower = [row for row in part if (measures.faster(row) or 1) < 1]
        if slower:
            lines += ["", f"{kind}, slower than PyTorch:", ""]
            lines += worst(slower, measures.faster)
        lines += ["", "Mean share (worst, number), times PyTorch:", ""]
        lines += by_kernel(part)
        lines += ["", *by_name(part, "shape", shape_of)]
        lines += ["", *by_name(part, "family", lambda row: row["family"])]
        other = faster_rows(part)
        lines += ["", *other] if other else []
    reached = verdicts(results)
    lines += ["", "Targets:", "", *reached] if reached else []
    without = _without_figures(rows)
    if without:
        lines += ["", "Without figures:", "", *without]
    return "\n".join(lines)


def _row_cells(row, every_row):
    figures = row["gradnn"]
    cells = [str(row["index"]), row["line"]]
    if "failed" in figures:
        return cells + ["failed"] + [""] * (3 + every_row)
    kernels = "+".join(
        dict.fromkeys(short(step["kernel"]) for step in figures["steps"])
    )
    cells += [
        kernels,
        measures.milliseconds(figures["time_ms"]),
        f"{_precise(share(figures))} {figures['bound']}",
        measures.times(measures.faster(row)),
    ]
    if every_row:
        better = [
            f"{short(kernel)} {measures.times(factor)}"
            for factor, _, kernel, _, _ in beaten([row])
        ]
        cells.append(", ".join(better))
    return cells


def _of_convolutions(gradient):
    if gradient == "all":
        return "A convolution is its three gradients together."
    return f"Of convolutions the gradient of {gradient} alone."


def markdown(results, text):
    """The summary and a line for each problem."""
    head = ["", "problem", "kernel", "time", "share of the limit", "times PyTorch"]
    if results["every_row"]:
        head.append("a faster kernel")
    lines = [
        f"# Random problems, {results['settings']['kind']}, {results['engine']}",
        "",
        "```",
        results["command"],
        "```",
        "Caches cold, medians. The share is of the limit that is nearer: the rate "
        "of a large copy (on the CPU of a plain stream), or of the arithmetic "
        "units. " + _of_convolutions(results["settings"].get("gradient", "all")),
        "",
        text,
        "",
        *_table(head, [_row_cells(r, results["every_row"]) for r in results["rows"]]),
    ]
    return "\n".join(lines) + "\n"
