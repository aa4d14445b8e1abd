"""The cases of bench/compare (bench/cases.json) and their graphs."""

import json

import pytest

import bench_sweep  # noqa: F401  puts bench/ on the path

import graphs

KEYS = {"name", "n", "src", "cpu", "cpu_peer"}
KEYS_OF_KIND = {
    "interpolation": {"c", "dst"},
    "convolution": {"in", "out", "kernel"},
}


@pytest.mark.parametrize("kind", graphs.KINDS)
def test_cases_have_no_unknown_keys(kind):
    """bench/cases.hpp and graphs.py pass over a key that they do not know."""
    with open(graphs.CASES_FILE, encoding="utf-8") as text:
        listed = json.load(text)[kind]
    defaults = set(graphs.complete(kind, {"src": [8], "kernel": 1})) - {"dst"}
    known = KEYS | KEYS_OF_KIND[kind] | defaults
    for case in listed:
        assert set(case) <= known, case["name"]
        assert set(case["cpu"]) <= set(case), case["name"]


@pytest.mark.parametrize("dtype, summed", [("bf16", "f32"), ("f64", "f64")])
def test_gradients_of_weights_may_be_f32(tmp_path, dtype, summed):
    cases = graphs.load_cases("convolution", "gpu")
    chosen = [case for case in cases if case["f32_gradients"]]
    assert chosen
    for case in chosen:
        plain = case | {"f32_gradients": False}
        dtypes = {}
        for name, each in (("f32", case), ("plain", plain)):
            file = tmp_path / f"{name}.json"
            graphs.write_graph(file, each, "NXC", dtype, "gpu")
            outputs = json.loads(file.read_text())["graph"][0]["outputs"]
            dtypes[name] = [port["dtype"] for port in outputs]
        assert dtypes == {"f32": [dtype, summed, summed], "plain": [dtype] * 3}
        kernel = case["out"] * case["in"] * case["kernel"] ** len(case["src"])
        wider = graphs.DTYPE_BYTES[summed] - graphs.DTYPE_BYTES[dtype]
        more = graphs.moved_bytes(case, dtype) - graphs.moved_bytes(plain, dtype)
        assert more == wider * (kernel // case["groups"] + case["out"])
