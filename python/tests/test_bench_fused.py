"""bench/fused, on the CPU, where every op is a step of its own."""

import subprocess
import sys

from bench_sweep import BENCH, program


def test_compares_values_and_times_of_every_chain():
    done = subprocess.run(
        [sys.executable, str(BENCH / "fused"), "--engine", "cpu", "--small", "--count", "1",
         "--dtype", "bf16", "--layout", "NCX", "--seconds", "0", "--program", program()],
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if " NCX bf16" in line]
    chains = ["up,add", "up,relu", "up,add,relu", "add,up", "relu,up", "conv,add",
              "conv,relu", "conv,add,relu", "relu,conv", "dense,add", "dense,relu",
              "dense,add,relu"]  # fmt: skip
    assert [row[1] for row in rows] == chains
    for row in rows:
        assert row[2] == "same"
        assert float(row[3]) > 0 and float(row[5]) > 0 and float(row[6]) > 0
        assert row[3] == row[4]  # no form but steps
    assert done.stdout.endswith("In one kernel, or in slices:\nnone\n")
