"""Times of cases, by gradnn and by PyTorch, in the form of report.py's rows."""

import os

import graphs
import processes


def time_with_gradnn(program, options, seconds, named, engine, folder, **choices):
    """gradnn's figures by name, and what the program reports of the run.

    `named` are {name: (case, layout, dtype)}; `choices` are write_graph's, and
    `limit`, the seconds that the programs may take in all.
    """
    limit = choices.pop("limit", None)
    files = {}
    for name, (case, layout, dtype) in named.items():
        file = os.path.join(folder, f"{name}_{dtype}_{layout}.json")
        graphs.write_graph(file, case, layout, dtype, engine, **choices)
        files[file] = name
    whole, failed = processes.time_graphs(
        program,
        options,
        seconds,
        list(files),
        os.path.join(folder, "report.json"),
        limit,
    )
    figures = {
        files[each["graph"]]: {
            key: value for key, value in each.items() if key != "graph"
        }
        for each in whole["results"]
    }
    for file, reason in failed.items():
        figures[files[file]] = {"failed": reason.replace(folder + os.sep, "")}
    for file in files:
        os.remove(file)
    return figures, whole


def pytorch_job(case, layout, dtype, seconds, **choices):
    """A job for peers/pytorch.py."""
    usual = {
        "gradient": "all",
        "fpmath": "strict",
        "deterministic": False,
        "search": True,
        "latency": False,
    }
    job = {"case": case, "layout": layout, "dtype": dtype, "seconds": seconds}
    return usual | job | choices
