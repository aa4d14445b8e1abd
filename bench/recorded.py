"""What bench/record has left, joined to the results of whole tables, and the tables that
bench/pages.py has no other program's text for: Markdown of dicts."""

import json
import pathlib
import re
import statistics
import tarfile
import tempfile

import measures
import sweep_report
from measures import geometric_mean
from train import table as train

# The types that share a table.
TABLES = {
    "interpolation": (("f32", "bf16"), ("f64", "f16")),
    "convolution": (("bf16",), ("f32",), ("f64", "f16")),
}
SECTIONS = ("compare", "sweep", "train", "upsample_conv", "fused", "jax")
_OF_THE_RUN = re.compile(r" --(?:program|out|commit) \S+")


def load(path):
    """The results in a folder of bench/record, or in a tar of one, by the program."""
    path = pathlib.Path(path)
    if path.is_file():
        with tempfile.TemporaryDirectory() as folder, tarfile.open(path) as packed:
            # Python below 3.11.4 knows no filter.
            safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            packed.extractall(folder, **safe)
            (index,) = pathlib.Path(folder).rglob("record.json")
            return load(index.parent)
    commit = json.loads((path / "record.json").read_text())["commit"]
    found = {section: [] for section in SECTIONS}
    for file in sorted(path.glob("*.json")):
        results = json.loads(file.read_text())
        if not (results.get("rows") or results.get("calls")):
            continue
        results.setdefault("commit", commit)
        found[_program_of(results)].append(results)
    return commit, found


def _program_of(results):
    if "tool" in results:
        return results["tool"]
    if "calls" in results:
        return "train"
    return "sweep" if "settings" in results else "compare"


def _joined(parts):
    rows = [row for part in parts for row in part["rows"]]
    lines = dict.fromkeys(_OF_THE_RUN.sub("", part["command"]) for part in parts)
    whole = parts[0] | {"rows": rows, "command": "\n".join(lines)}
    for key in ("seconds_in_all", "seconds_of_gradnn"):
        if key in whole:
            whole[key] = sum(part[key] for part in parts)
    return whole


def compared(parts):
    """One result for each table: parts of the same gradients, by types."""
    groups = {}
    for part in parts:
        whole = part["gradient"] == "all" and not part["no_search"]
        key = part["kind"], None if whole else (part["gradient"], *part["names"])
        groups.setdefault(key, []).append(part)
    for (kind, alone), some in groups.items():
        joined = _joined(some)
        if alone:
            yield joined
            continue
        for types in TABLES[kind]:
            of_types = [part for part in some if part["rows"][0]["dtype"] in types]
            if of_types:
                whole = _joined(of_types) | {"names": []}
                whole["rows"].sort(key=lambda row: types.index(row["dtype"]))
                yield whole


def swept(parts):
    """One result for each kind, of all seeds."""
    for kind in dict.fromkeys(part["settings"]["kind"] for part in parts):
        some = [part for part in parts if part["settings"]["kind"] == kind]
        seeds = ", ".join(str(part["settings"]["seed"]) for part in some)
        yield _joined(some) | {"settings": some[0]["settings"] | {"seed": seeds}}


def _types(results):
    return list(dict.fromkeys(row["dtype"] for row in results["rows"]))


def _lines(head, rows):
    return ["| " + " | ".join(head) + " |", "|---" * len(head) + "|",
            *("| " + " | ".join(row) + " |" for row in rows)]  # fmt: skip


def _machine(results):
    name = results["machine"]["gpus"][0]["name"] if results["engine"] == "gpu" else "CPU"
    version = results.get("pytorch", {}).get("pytorch")
    return name + (f"; PyTorch {version}" if version else "")


def upsample(parts):
    """Composed gradients beside PyTorch's, then networks."""
    rows = [row for part in parts for row in part["rows"]]
    shapes = [row for row in rows if "times" in row]
    columns = list(dict.fromkeys((row["dtype"], row["layout"]) for row in shapes))
    found = {(row["name"], row["dtype"], row["layout"]): row for row in shapes}
    lines = [
        f"{_machine(parts[0])}. `bench/upsample_conv`: the three gradients of nearest "
        "upsampling by 2 and a 3x3 (3x3x3) convolution behind it, ms; PyTorch with "
        "`cudnn.benchmark`, gradnn in the form that it chooses, times as fast. MiB: "
        "the most memory of a forward and backward, PyTorch to gradnn, of the first column.",
        "",
    ]

    def cell(row):
        if row is None:
            return "-"
        ours = row["composed_ms" if row["composed"] else "ops_ms"]
        how = "" if row["composed"] else " ops"
        return f"{row['pytorch_ms']:.2f}, {ours:.2f}{how}, {row['times']:.2f}"

    table = []
    for name in dict.fromkeys(row["name"] for row in shapes):
        of_name = [row for row in shapes if row["name"] == name]
        images, channels, outputs, small = of_name[0]["shape"]
        sizes = "x".join(map(str, small))
        cells = [f"{images}x{channels} {sizes} to {outputs}"]
        cells += [cell(found.get((name, *column))) for column in columns]
        cells.append("{:.0f} to {:.0f}".format(*of_name[0]["mib"]))
        table.append(cells)
    head = ["", *(" ".join(column) for column in columns), "MiB"]
    lines += _lines(head, table) if table else []
    for dtype, layout in columns:
        of = [row["times"] for row in shapes
              if (row["dtype"], row["layout"]) == (dtype, layout)]  # fmt: skip
        lines += [""] * (not lines[-1].startswith("-"))
        lines.append(f"- {dtype} {layout}, {len(of)} shapes: mean "
                     f"{geometric_mean(of):.2f}, least {min(of):.2f}")  # fmt: skip
        late = [row["forward_ms"][row["forward_composed"]] / min(row["forward_ms"])
                for row in shapes if (row["dtype"], row["layout"]) == (dtype, layout)
                and "forward_ms" in row]  # fmt: skip
        if late:
            lines[-1] += (f"; the forward's form takes {geometric_mean(late):.2f} times as "
                          f"long as the faster one, most {max(late):.2f}")  # fmt: skip
    table = [
        [f"{row['network']} {row['dtype']} {row['layout']}, {row['pairs']} pairs",
         *(f"{row[key]:.2f}" for key in ("pytorch_ms", "gradnn_ms", "fused_ms")),
         f"{row['pytorch_ms'] / row['fused_ms']:.2f}",
         "{:.0f} to {:.0f}".format(*row["mib"])]
        for row in rows if "network" in row
    ]  # fmt: skip
    if table:
        head = ["step, ms", "PyTorch", "gradnn", "fused", "times as fast", "MiB"]
        lines += ["", *_lines(head, table)]
    return "\n".join(lines)


def fused(parts):
    """Chains in one kernel beside their steps, a row for each type and layout."""
    rows = [row for part in parts for row in part["rows"]]
    chains = list(dict.fromkeys(row["chain"] for row in rows))
    groups = sweep_report.groups(rows, lambda row: f"{row['dtype']} {row['layout']}")
    table = []
    for name, some in groups.items():
        cells = [name]
        for chain in chains:
            of = [row["ops_us"] / row["us"] for row in some
                  if row["chain"] == chain and row["fused"] and row["us"]]  # fmt: skip
            cells.append(
                f"{geometric_mean(of):.2f} ({min(of):.2f} to {max(of):.2f}; {len(of)})"
                if of else "steps"
            )  # fmt: skip
        table.append(cells)
    return "\n".join([
        f"{_machine(parts[0])}. `bench/fused`: chains of ops in one kernel, times as fast "
        "as steps in the mean (range; how many of the problems are one kernel).",
        "",
        *_lines(["", *chains], table),
    ])  # fmt: skip


def jax(parts):
    """The table of doc/jax.md."""
    rows = [row for part in parts for row in part["rows"]]
    found = {(row["case"], row["of"], row["dtype"]): row for row in rows}
    types = [each for each in ("f32", "bf16") if any(row["dtype"] == each for row in rows)]

    def cells(row):
        if row is None:
            return ["-"] * 3
        return [
            f"{row['jax_us']:.0f}, {row['gradnn_us']:.0f}",
            f"{row['jax_us'] / row['gradnn_us']:.1f}",
            f"{row['jax_eager_us'] / row['gradnn_eager_us']:.1f}",
        ]

    names = dict.fromkeys((row["case"], row["of"]) for row in rows)
    table = [
        [case if of == "x" else f"{case}, {of}",
         *(cell for dtype in types for cell in cells(found.get((case, of, dtype))))]
        for case, of in names
    ]  # fmt: skip
    head = ["gradient"]
    for dtype in types:
        head += [f"{dtype}: JAX, gradnn, µs", "ratio", "eager"]
    slower = [f"{row['case']} {row['of']} {row['dtype']}" for row in rows
              if row["jax_us"] < row["gradnn_us"]]  # fmt: skip
    return "\n".join([
        f"{_machine(parts[0])}, JAX {parts[0]['jax']}, channels last, warm caches, strict "
        "float32 (`jax_default_matmul_precision` highest); commit "
        f"{parts[0]['commit']}. Jitted times, how many times as fast gradnn is, and the "
        "same of eager calls.",
        "",
        *_lines(head, table),
        "",
        "Slower than JAX's: " + (", ".join(slower) or "none") + ".",
    ])  # fmt: skip


def _mean_and_worst(values, show):
    values = [value for value in values if value]
    if not values:
        return "-"
    return f"{show(geometric_mean(values))} ({show(min(values))})"


def _times(value):
    return f"{value:.0f}" if value >= 10 else f"{value:.2f}"


def _percent(value):
    return f"{100 * value:.0f}"


def _limit(results):
    """What shares are of."""
    return "the copy rate" if results["engine"] == "gpu" else "a plain stream's rate"


def _random(results):
    rows = sweep_report.timed(results["rows"])
    kind = results["settings"]["kind"]
    types = [each for each in ("f32", "f64", "bf16", "f16")
             if any(row["dtype"] == each for row in rows)]  # fmt: skip

    def cells(value_of, show):
        return [_mean_and_worst([value_of(row) for row in rows if row["dtype"] == each], show)
                for each in types]  # fmt: skip

    lines = []
    if kind == "interpolation":
        shares = cells(lambda row: sweep_report.share(row["gradnn"]), _percent)
        lines.append([f"{len(rows)} {kind}s, % of {_limit(results)}", *shares])
    lines.append([f"{len(rows)} {kind}s, times PyTorch's speed",
                  *cells(measures.faster, _times)])  # fmt: skip
    return types, lines


def _listed(results):
    columns = [(dtype, layout) for part in results for dtype, layout in
               measures.columns_of(part)]  # fmt: skip
    kind = results[0]["kind"]
    rows = {
        (dtype, layout): [row for part in results
                          for row in measures.rows_of(part, dtype, [layout])]
        for dtype, layout in columns
    }  # fmt: skip
    lines = [["times PyTorch's speed", *(
        _mean_and_worst(map(measures.faster, rows[column]), _times) for column in columns)]]
    if kind == "interpolation":
        lines.append([f"% of {_limit(results[0])}", *(
            _mean_and_worst([measures.share(row) for row in rows[column]
                             if not measures.is_small(row)], _percent)
            for column in columns)])  # fmt: skip
    elif results[0]["engine"] == "gpu":
        peer = "pytorch_deterministic"
        slower = [_mean_and_worst([measures.faster(row, peer) for row in rows[column]], _times)
                  for column in columns]  # fmt: skip
        if {*slower} != {"-"}:
            lines.append(["times its deterministic kernels'", *slower])
        lines += _alone(rows)
    return ["", *(" ".join(column) for column in columns)], lines


def _alone(rows_of):
    """Of steps of 64 MB and more, by columns: of depthwise data and weights, and of the
    bias."""
    for name, prefix, output in (("depthwise dX", "depthwise", "diff_src"),
                                 ("depthwise dW", "depthwise", "diff_weights"),
                                 ("dB", "", "diff_bias")):  # fmt: skip
        yield [f"{name}, % of the copy rate", *(
            _mean_and_worst([
                step["limit_share"]
                for row in rows
                if row["case"].startswith(prefix)
                for step in row["gradnn"].get("steps", [])
                if step.get("output") == output and step.get("limit_share")
                and step.get("bytes", 0) >= 64e6
            ], _percent) for rows in rows_of.values())]  # fmt: skip


def _trained(reports):
    rows = [row for report in reports for row in report["rows"]]
    runs = [run for run in ("eager", "graph", "compiled")
            if any(train.run_of(row) == run for row in rows)]  # fmt: skip
    lines = []
    for dtype in dict.fromkeys(row["dtype"] for row in rows):
        cells = [dtype]
        for run in runs:
            some = [row for row in rows if (row["dtype"], train.run_of(row)) == (dtype, run)]
            cells.append(_mean_and_worst(map(train.ratio, some), _times) + f", {len(some)}")
            if run == "eager":
                cells.append(_mean_and_worst(map(train.kernel_ratio, some), _times))
        lines.append(cells)
    head = [""]
    for run in runs:
        head += [f"{run} step, networks"] + ["its kernels"] * (run == "eager")
    return head, lines


def overview(commit, found, page, engine):
    """The tables of doc/performance.md for an engine."""
    comparisons = [*compared(found["compare"])]
    lines = [f"All of {commit}, [every case]({page}). Geometric mean (worst)."]

    def put(title, head, rows):
        lines.extend(["", f"**{title}**", "", *_lines(head, rows)])

    sweeps = [_random(each) for each in swept(found["sweep"])]
    for types in dict.fromkeys(tuple(types) for types, _ in sweeps):
        rows = [row for each, part in sweeps for row in part if tuple(each) == types]
        put("Random problems", ["", *types], rows)
    for kind in TABLES:
        whole = [each for each in comparisons if each["kind"] == kind
                 and each["gradient"] == "all" and not each["no_search"]]  # fmt: skip
        if kind == "convolution":  # of f64 and f16 few are timed
            whole = [each for each in whole if not {"f64", "f16"} & {*_types(each)}]
        if whole:
            cases = {row["case"] for each in whole for row in each["rows"]}
            put(f"{len(cases)} listed {kind}s", *_listed(whole))
            name = page.rpartition("/")[2].removesuffix(".md")
            figure = f"figures/{name}_{engine}_{kind}_{'_'.join(_types(whole[0]))}.svg"
            lines += ["", f"![Plot of these]({figure})"]
    if any(report["rows"] for report in found["train"]):
        put("Training steps, times PyTorch's speed", *_trained(found["train"]))
    return "\n".join(lines)


def partitions(parts, commit, page):
    """What doc/partitions.md says of a GPU."""
    rows = [row for part in parts for row in part["rows"] if "times" in row]
    if not rows:
        return ""
    groups = sweep_report.groups(rows, lambda row: f"{row['dtype']} {row['layout']}")
    said = ", ".join(
        f"{name} {statistics.geometric_mean(row['times'] for row in some):.2f} times as "
        f"fast (least {min(row['times'] for row in some):.2f}, {len(some)} layers)"
        for name, some in groups.items()
    )
    return (f"Layers of VAEs, U-Nets and FPNs beside PyTorch's gradients ({commit}; "
            f"{_machine(parts[0])}): {said} ([the table]({page}#upsampling-and-convolution))."
            )  # fmt: skip
