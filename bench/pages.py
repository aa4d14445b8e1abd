"""The pages of doc/performance, one a machine. A page is made of tables, each
between two comments of HTML. bench/compare and bench/sweep put theirs
there (--write): a new table takes the place of the older one of the
same name, or of several whose types it has.

    python3 bench/pages.py FILE.json... [--commit ID] [--machine NAME]
    python3 bench/pages.py FOLDER [--anew]

does the same with what they and scripts/bench_train have left in files, such as
those of a machine that has no checkout, and with all that bench/record has left in a
folder, or in a tar of it: also the tables of doc/performance.md, doc/jax.md and
doc/partitions.md. --anew leaves nothing of the older page of the machine.
"""

import argparse
import json
import os
import pathlib
import re
import sys

import chart
import options
import recorded
import report
import sweep_report
from train import markdown as train

DOC = options.ROOT / "doc"
MACHINES = ("h100", "h200", "epyc", "xeon")
TABLE = re.compile(r"<!-- table: (?P<name>.*?) -->\n(?P<text>.*?)<!-- end -->\n", re.S)


def machine_of(results):
    """The name of the page: h100 of a machine whose GPU has H100 in its name."""
    machine = results["machine"]
    named = [gpu["name"] for gpu in machine.get("gpus", [])]
    if results["engine"] == "cpu":
        named = [machine.get("cpu", "")]
    for name in MACHINES:
        if any(name in each.lower() for each in named):
            return name
    raise options.UsageError(
        f"--machine is missing: {', '.join(named) or 'this machine'} has no page, "
        f"pages are {', '.join(MACHINES)}"
    )


def check(given, info):
    """Before anything is timed: whether --write will know the page and the commit."""
    if not given.machine:
        machine_of({"engine": given.engine, "machine": info})
    if not (given.commit or options.commit()):
        raise options.UsageError("--write: this is no git checkout: name the --commit")


def _types(results):
    return list(dict.fromkeys(row["dtype"] for row in results["rows"]))


def _name(results):
    """"compare gpu convolution weights: f32, bf16"; the types are behind the colon."""
    if "settings" in results:
        parts = ["sweep", results["engine"], results["settings"]["kind"]]
        if results["settings"].get("family"):
            parts.append(results["settings"]["family"])
        return " ".join(parts) + ": " + ", ".join(results["settings"]["dtype"])
    parts = ["compare", results["engine"], results["kind"]]
    if results.get("gradient", "all") != "all":
        parts.append(results["gradient"])
    if results.get("names"):
        parts.append("of " + " ".join(results["names"]))
    if results.get("weights", "pytorch") != "pytorch":
        parts.append(f"weights {results['weights']}")
    for key in ("relaxed", "f32_gradients", "no_search"):
        if results.get(key):
            parts.append(key.replace("_", " "))
    return " ".join(parts) + ": " + ", ".join(_types(results))


def _heading(name):
    what, _, types = name.partition(": ")
    tool, engine, *rest = what.split(" ")
    title = " ".join(rest)
    if tool == "sweep":
        title = f"random {title}s"
    return f"{title[0].upper()}{title[1:]}, {engine.upper()}, {types}"


def _figure(results, page):
    """The plot of a table; bench/sweep has none, nor has what no search chose."""
    if "settings" in results or results.get("no_search"):
        return None
    name = re.sub("[^a-z0-9]+", "_", _name(results).removeprefix("compare ").lower())
    engine = f"_{results['engine']}_"
    return f"{page}{engine}{name.removeprefix(results['engine']).strip('_')}.svg"


def table(results, page, at):
    """The text of a table; `at` is the commit that was measured."""
    lines = [f"## {_heading(_name(results))}", f"Commit {at}.", ""]
    if "settings" in results:
        body = sweep_report.summary(results, len(results["rows"]))
        lines += ["```", results["command"], "```", body]
    else:
        # Without its heading.
        lines += report.markdown(results).rstrip("\n").split("\n")[1:]
        if figure := _figure(results, page):
            lines += ["", f"![Plot of this table](../figures/{figure})"]
    return "\n".join(lines) + "\n"


def _replaces(new, old):
    """Whether a table of that name leaves nothing for the older one to say."""
    new_what, _, new_types = new.partition(": ")
    old_what, _, old_types = old.partition(": ")
    return new_what == old_what and set(old_types.split(", ")) <= set(
        new_types.split(", ")
    )


def with_table(page, name, text):
    """The text of a page that has this table, in the place of what it replaces."""
    new = f"<!-- table: {name} -->\n{text}<!-- end -->\n"
    placed = False

    def exchange(found):
        nonlocal placed
        if not _replaces(name, found["name"]):
            return found[0]
        if placed:
            return ""
        placed = True
        return new

    page = TABLE.sub(exchange, page)
    if not placed:
        page = page.rstrip("\n") + "\n\n" + new
    return re.sub(r"\n{3,}", "\n\n", page)


def training_table(reports, at):
    """The table of scripts/bench_train, of one report or of several parts."""
    of_machine = reports[0]["machine"]
    lines = [
        "## Training steps",
        f"Commit {at}.",
        "",
        f"{of_machine['name']}; PyTorch {of_machine['torch']}. `scripts/bench_train` "
        "([what it measures](../training_steps.md)). ms of a step: the host's time, "
        "and in brackets that of its kernels; upsampling and convolution: the "
        "kernels of their gradients, PyTorch's to gradnn's.",
        "",
        train.markdown(reports),
    ]
    return "\n".join(lines) + "\n"


def _new_page(name):
    return f"# {name.upper()}\n[How to read it](../performance.md#the-pages).\n"


def put(name, title, text, doc=DOC):
    """Writes one table into the page of a machine; returns the page's path."""
    return put_into(pathlib.Path(doc) / "performance" / f"{name}.md", name, title, text)


def put_into(path, name, title, text):
    os.makedirs(path.parent, exist_ok=True)
    old = path.read_text(encoding="utf-8") if path.exists() else _new_page(name)
    report.replace_file(str(path), with_table(old, title, text))
    return path


def write(results, machine=None, doc=DOC):
    """Puts what was measured into the machine's page, and its plot into
    doc/figures; returns the page's path."""
    at = results.get("commit")
    if not at:
        raise options.UsageError(
            "the results name no commit: name what was measured by --commit"
        )
    page = machine or machine_of(results)
    figure = _figure(results, page)
    if figure:
        os.makedirs(pathlib.Path(doc) / "figures", exist_ok=True)
        report.replace_file(
            str(pathlib.Path(doc) / "figures" / figure), chart.svg(results)
        )
    return put(page, _name(results), table(results, page, at), doc)


def write_training(reports, at, machine=None, doc=DOC):
    """The same for reports of scripts/bench_train, which name no commit."""
    if not at:
        raise options.UsageError("--commit is missing: bench_train's files name none")
    found = reports[0]["machine"]
    engine = "gpu" if found["device"] == "cuda" else "cpu"
    named = {"engine": engine, "machine": {"gpus": [found], "cpu": found["name"]}}
    page = machine or machine_of(named)
    return put(page, f"train {engine}: ", training_table(reports, at), doc)


def write_record(source, machine=None, anew=False, doc=DOC, at=None):
    """All that bench/record has left; returns the paths of the pages."""
    commit, found = recorded.load(source)
    commit = at or commit
    comparisons = [*recorded.compared(found["compare"])]
    sweeps = [*recorded.swept(found["sweep"])]
    of_all = [*comparisons, *sweeps, *found["upsample_conv"], *found["fused"]]
    if not (machine or of_all):
        raise options.UsageError(f"{source}: nothing of it was measured")
    page = machine or machine_of(of_all[0])
    doc = pathlib.Path(doc)
    path = doc / "performance" / f"{page}.md"
    link = f"performance/{page}.md"
    if anew:
        os.makedirs(path.parent, exist_ok=True)
        text = _new_page(page).replace("[How", f"All of {commit}. [How")
        report.replace_file(str(path), text)
    for results in comparisons + sweeps:
        write(results | {"commit": commit}, page, doc)
    for tool, title, made in (
        ("upsample_conv", "Upsampling and convolution", recorded.upsample),
        ("fused", "Ops in one kernel", recorded.fused),
    ):
        if found[tool]:
            text = f"## {title}\nCommit {commit}.\n\n{made(found[tool])}\n"
            put(page, f"{tool} gpu: ", text, doc)
    written = [path]
    if found["train"]:
        write_training(found["train"], commit, page, doc)
        steps = doc / "training_steps.md"
        if steps.exists():
            text = re.sub(r"performance/\w+\.md", link, steps.read_text("utf-8"))
            report.replace_file(str(steps), text)
            written.append(steps)
    engine = of_all[0]["engine"] if of_all else "gpu"
    for file, name, text in (
        ("performance.md", f"overview {engine}",
         recorded.overview(commit, found, link, engine)),
        ("jax.md", "jax gpu", found["jax"] and recorded.jax(found["jax"])),
        ("partitions.md", "upsample_conv gpu",
         recorded.partitions(found["upsample_conv"], commit, link)),
    ):  # fmt: skip
        if text:
            written.append(put_into(doc / file, file, f"{name}: ", text + "\n"))
    return written


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "results",
        nargs="+",
        help="files of bench/compare, bench/sweep or scripts/bench_train; a folder of "
        "bench/record or a tar of it",
    )
    parser.add_argument("--machine", help="the page (default: by the machine's name)")
    parser.add_argument("--commit", help="what was measured, where the file lacks it")
    parser.add_argument("--anew", action="store_true", help="with a folder: a new page")
    parser.add_argument("--doc", default=DOC, help="the folder of the pages")
    given = parser.parse_args()
    try:
        training = []
        for file in given.results:
            if os.path.isdir(file) or not file.endswith(".json"):
                chosen = given.machine, given.anew, given.doc, given.commit
                print(*write_record(file, *chosen), sep="\n")
                continue
            with open(file, encoding="utf-8") as text:
                results = json.load(text)
            if "calls" in results:
                training.append(results)
                continue
            results["commit"] = given.commit or results.get("commit")
            print(write(results, given.machine, given.doc))
        if training:
            print(write_training(training, given.commit, given.machine, given.doc))
    except (options.UsageError, OSError, ValueError, KeyError) as failure:
        print(f"pages: {failure}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
