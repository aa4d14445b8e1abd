"""Enabled code in many threads, in children of fork, in processes that exchange
gradients."""

import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch")

import gradnn.torch  # noqa: E402
from torch_steps import run_python, same_bits, step  # noqa: E402


def test_many_threads():
    gradnn.torch.enable()
    want = step()
    failures = []

    def work():
        for _ in range(20):
            if not same_bits(want, step()):
                failures.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_enabling_while_others_run():
    stop = threading.Event()
    failures = []

    def work():
        while not stop.is_set():
            try:
                step()
            except Exception as failure:  # noqa: BLE001
                failures.append(failure)

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(30):
        gradnn.torch.enable()
        gradnn.torch.disable()
    stop.set()
    thread.join()
    assert not failures


def test_number_of_threads_is_pytorchs():
    before = torch.get_num_threads()
    gradnn.torch.enable()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            step()
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(before)


LIMITED = """
import torch, gradnn.torch
import torch.nn.functional as F
torch.set_num_threads(2)
gradnn.torch.enable()
x = torch.randn(1, 2, 9, 9, requires_grad=True)
y = F.interpolate(F.conv2d(x, torch.randn(3, 2, 3, 3)), scale_factor=2)
y.sum().backward()
print(*(each["ran"] for each in gradnn.torch.status()))
"""


@pytest.mark.parametrize("kernels", ["", "python"])
def test_fewer_threads_than_pytorchs_by_omp_thread_limit(kernels):
    result = run_python(LIMITED, OMP_THREAD_LIMIT="1", GRADNN_TORCH_KERNELS=kernels)
    assert result.stdout.split() == ["gradnn"] * 2, result.stdout + result.stderr


FORK = """
import os
# PyTorch's autograd has a thread for each GPU, and refuses to run after a fork.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import torch, gradnn.torch
import torch.nn.functional as F
torch.set_num_threads(1)
gradnn.torch.enable()
def grad():
    x = torch.ones(1, 2, 4, 4, requires_grad=True)
    F.interpolate(x, scale_factor=2, mode="bilinear").sum().backward()
    return x.grad.sum().item()
assert grad() == 128
child = os.fork()
if child == 0:
    os._exit(0 if grad() == 128 else 1)
assert os.waitpid(child, 0)[1] == 0
"""


def test_fork():
    result = run_python(FORK)
    assert result.returncode == 0, result.stderr


DDP = """
import os, sys, warnings, torch, torch.distributed as dist
import torch.multiprocessing as mp
import gradnn.torch
warnings.simplefilter("error")

def work(rank, file):
    torch.set_num_threads(1)
    gradnn.torch.enable()
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(4, 8, 3, padding=1), torch.nn.Conv2d(8, 8, 1),
        torch.nn.Upsample(scale_factor=2, mode="bilinear"))
    net = net.to(memory_format=torch.channels_last)
    net = torch.nn.parallel.DistributedDataParallel(net)
    x = torch.randn(2, 4, 8, 8).to(memory_format=torch.channels_last) * (rank + 1)
    for _ in range(3):
        net(x).sum().backward()
    ran = {entry["ran"] for entry in gradnn.torch.status()}
    assert ran == {"gradnn"}, gradnn.torch.status()
    # Gloo's own teardown aborts now and then, without gradnn too.
    dist.barrier()
    os._exit(0)

if __name__ == "__main__":
    mp.spawn(work, (sys.argv[1],), nprocs=2)
"""


def test_distributed_data_parallel(tmp_path):
    script = tmp_path / "ddp.py"
    script.write_text(DDP)
    result = subprocess.run(
        [sys.executable, script, tmp_path / "rendezvous"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 0, result.stderr
    assert "strides do not match" not in result.stderr, result.stderr
