"""A program for oneDNN Graph compiles with gradnn's headers, the namespace changed.

oneDNN's headers are those that PyTorch brings.
"""

import importlib.util
import pathlib
import re
import shutil
import subprocess

import pytest

torch = importlib.util.find_spec("torch")
if torch is None:
    pytest.skip("no PyTorch", allow_module_level=True)

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = pathlib.Path(torch.origin).parent / "include"
GRAPH = HEADERS / "oneapi/dnnl/dnnl_graph.hpp"
OWNERS = {
    "data_type": "logical_tensor::",
    "layout_type": "logical_tensor::",
    "property_type": "logical_tensor::",
    "kind": "op::",
    "attr": "op::",
    "policy": "partition::",
}
MARKERS = {"op::kind::LastSymbol", "op::attr::end"}  # name nothing


def version():
    found = dict(
        re.findall(
            r"define DNNL_VERSION_(MAJOR|MINOR) (\d+)",
            (HEADERS / "oneapi/dnnl/dnnl_version.h").read_text(),
        )
    )
    return int(found["MAJOR"]), int(found["MINOR"])


pytestmark = [
    pytest.mark.skipif(not GRAPH.exists(), reason="PyTorch has no headers of oneDNN"),
    pytest.mark.skipif(not shutil.which("g++"), reason="no g++"),
]


def check(*words, text=None):
    """Whether it compiles, and what g++ says."""
    command = ["g++", "-std=c++17", "-fsyntax-only", "-w", "-isystem", str(HEADERS)]
    done = subprocess.run(
        [*command, *words], input=text, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def enumerators():
    code = re.sub(r"//.*", "", GRAPH.read_text())
    for name, body in re.findall(r"enum class (\w+)[^{]*\{(.*?)\}", code, re.S):
        for each in body.split(","):
            if each.strip():
                value = each.split("=")[0].strip()
                yield f"{OWNERS.get(name, '')}{name}::{value}"


def test_every_name_has_its_value():
    names = set(enumerators())
    assert {"status::success", "op::kind::InterpolateBackward"} | MARKERS <= names
    if version() >= (3, 13):
        assert {
            "logical_tensor::data_type::f8_e5m2",
            "logical_tensor::data_type::f8_e4m3",
            "logical_tensor::data_type::s4",
            "logical_tensor::data_type::u4",
            "logical_tensor::property_type::host_scalar",
            "op::kind::Dropout",
            "graph_dump_mode::subgraph",
        } <= names
    lines = ["#include <gradnn/gradnn.hpp>", "#include <oneapi/dnnl/dnnl_graph.hpp>"]
    for name in sorted(names - MARKERS):
        both = (f"static_cast<int>({space}::{name})" for space in ("gradnn", "dnnl::graph"))
        lines.append(f'static_assert({" == ".join(both)}, "{name}");')
    check("-I", str(ROOT / "include"), "-x", "c++", "-", text="\n".join(lines))


@pytest.mark.skipif(
    GRAPH.exists() and version() < (3, 13), reason="scratchpads are oneDNN 3.13's"
)
def test_the_program_of_the_api_test_is_one_for_onednn():
    if not pathlib.Path("/usr/include/gtest/gtest.h").exists():
        pytest.skip("no GoogleTest")
    check("-DWITH_ONEDNN_GRAPH", str(ROOT / "tests/onednn_graph_api_test.cpp"))
