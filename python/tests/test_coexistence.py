"""gradnn beside PyTorch in one process: its own oneDNN, the process's one OpenMP.
Each case is a process of its own."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

# Runs a convolution by gradnn, and says what ran and what is loaded.
USE = """
import os
import numpy as np
import gradnn
from gradnn import _core
from gradnn._core import TensorDescription as Description

def libraries(word):
    with open("/proc/self/maps") as maps:
        names = {line.split(None, 5)[5].strip() for line in maps if "/" in line}
    return sorted({os.path.realpath(name) for name in names
                   if word in os.path.basename(name)})

def threads():
    return len(os.listdir("/proc/self/task"))

random = np.random.default_rng(0)
source = random.standard_normal((2, 16, 14, 14)).astype("f4")
weight = random.standard_normal((16, 16, 3, 3)).astype("f4")
grad = random.standard_normal((2, 16, 14, 14)).astype("f4")
found = gradnn.conv_backward(grad, source, weight, padding=1)
assert np.isfinite(found[0]).all()

op = _core.Op("ConvBackward", dict(strides=[1, 1], pads_begin=[1, 1],
    pads_end=[1, 1], dilations=[1, 1], data_format="NCX", weights_format="OIX"))
data = Description("f32", (2, 16, 14, 14), (3136, 196, 14, 1))
filters = Description("f32", (16, 16, 3, 3), (144, 9, 3, 1))
steps = op.compile(_core.engine("cpu"), [data, data, filters], [data]).steps
assert gradnn.onednn_version() == "3.2.0", gradnn.onednn_version()
assert steps[0].backend.startswith("oneDNN 3.2.0"), steps
"""

TORCH = """
import torch
model = torch.nn.Conv2d(16, 16, 3)
model(torch.randn(2, 16, 14, 14)).sum().backward()
assert torch.backends.mkldnn.is_available()
"""

GLOBAL = """
import os, sys
sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)
"""

ONE_OPENMP = """
assert len(libraries("gomp")) == 1, libraries("gomp")
assert not libraries("libiomp"), libraries("libiomp")
"""


def run(*parts, **environment):
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(parts)],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), **environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout


def has_onednn():
    import gradnn

    return gradnn.onednn_version().startswith("3.2")


pytestmark = pytest.mark.skipif(not has_onednn(), reason="no oneDNN 3.2 in gradnn")


def test_torch_first():
    run(TORCH, USE, ONE_OPENMP)


def test_gradnn_first():
    run(USE, TORCH, USE, ONE_OPENMP)


def test_torch_with_global_symbols():
    run(GLOBAL, TORCH, USE, ONE_OPENMP)


def test_gradnn_first_with_global_symbols():
    run(GLOBAL, USE, TORCH, USE, ONE_OPENMP)


def test_one_pool_of_threads():
    """What PyTorch's pool has, gradnn's calls use: no thread is added."""
    run(
        TORCH,
        """
torch.set_num_threads(3)
a = torch.randn(400, 400)
for _ in range(3):
    a = torch.relu(a + 1)
torch.nn.functional.conv2d(torch.randn(8, 16, 64, 64), torch.randn(16, 16, 3, 3))
""",
        "import os; before = len(os.listdir('/proc/self/task'))",
        USE,
        """
big = random.standard_normal((8, 16, 128, 128)).astype("f4")
gradnn.interpolate_backward(big, (8, 16, 64, 64), threads=3)
gradnn.conv_backward(grad, source, weight, padding=1, threads=3)
assert threads() == before, (before, threads())
""",
        OMP_NUM_THREADS="3",
    )
