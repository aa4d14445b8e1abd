"""bench/fused, on the CPU, where every op is a step of its own."""

import subprocess
import sys

from bench_sweep import BENCH, program

# One op ahead of each kind of gradient, one behind, and two.
CHAINS = ["up,add,relu", "add,up", "relu,conv", "dense,add"]


def test_compares_values_and_times_of_chains():
    done = subprocess.run(
        [sys.executable, str(BENCH / "fused"), "--engine", "cpu", "--small", "--count", "1",
         "--dtype", "bf16", "--layout", "NCX", "--seconds", "0", "--program", program(),
         *(word for chain in CHAINS for word in ("--chain", chain))],
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if " NCX bf16" in line]
    assert [row[1] for row in rows] == CHAINS
    for row in rows:
        assert row[2] == "same"
        assert float(row[3]) > 0 and float(row[5]) > 0 and float(row[6]) > 0
        assert row[3] == row[4]  # no form but steps
    assert done.stdout.endswith("In one kernel, or in slices:\nnone\n")
