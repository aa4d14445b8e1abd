"""Calls from many threads at once, and after a fork."""

import concurrent.futures
import os
import subprocess
import sys

import numpy as np

import gradnn


def test_many_threads_give_the_same_bits():
    random = np.random.default_rng(0)
    grads = [random.standard_normal((2, 3, 8 + i, 9)).astype("f4") for i in range(8)]
    source = random.standard_normal((2, 4, 12, 12)).astype("f4")
    weight = random.standard_normal((6, 4, 3, 3)).astype("f4")
    grad = random.standard_normal((2, 6, 10, 10)).astype("f4")

    def work(index):
        # Each index is a shape of its own: compiled by whoever comes first.
        up = gradnn.interpolate_backward(grads[index % 8], (2, 3, 4, 5), threads=1)
        conv = gradnn.conv_backward(grad, source, weight, threads=1 + index % 2)
        return index, up, conv

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(160)))
    first = {}
    for index, up, conv in results:
        wanted = first.setdefault(index % 8, (up, conv))
        np.testing.assert_array_equal(up, wanted[0])
        for tensor, reference in zip(conv, wanted[1]):
            np.testing.assert_array_equal(tensor, reference)


def test_workspace_of_different_sizes():
    """A thread keeps its workspace; a larger op after a smaller one gets more."""
    random = np.random.default_rng(0)
    for channels in (4, 64, 16, 128):
        source = random.standard_normal((2, channels, 9, 9))
        weight = random.standard_normal((channels, channels, 3, 3))
        grad = random.standard_normal((2, channels, 7, 7))
        wide = gradnn.conv_backward(grad, source, weight)
        narrow = gradnn.conv_backward(
            *(each.astype("f4") for each in (grad, source, weight))
        )
        for found, wanted in zip(narrow, wide):
            error = np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
            assert error < 2e-6


CHILD = """
import os, sys
import numpy as np
import gradnn
if %d:
    gradnn.interpolate_backward(np.ones((1, 1, 8), "f4"), (1, 1, 4), threads=1)
child = os.fork()
if child == 0:
    found = gradnn.interpolate_backward(np.ones((1, 1, 8), "f4"), (1, 1, 4), threads=1)
    os._exit(0 if (found == 2).all() else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_fork():
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    for before in (0, 1):
        done = subprocess.run(
            [sys.executable, "-c", CHILD % before], env=environment, timeout=60
        )
        assert done.returncode == 0
