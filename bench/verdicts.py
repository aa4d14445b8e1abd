"""The targets of targets.py, each met or missed."""

import targets
from measures import (
    PEER_NAMES,
    faster,
    geometric_mean,
    is_small,
    launches,
    percent,
    rows_of,
    share,
    times,
)


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
    """Host time of execute on a GPU, and of PyTorch's call."""
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
