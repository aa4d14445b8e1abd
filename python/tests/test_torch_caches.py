"""PyTorch's caches of compiled code, which processes with and without gradnn
share."""

import threading

import pytest

torch = pytest.importorskip("torch")

import torch.compiler.config as compiler_config  # noqa: E402

import gradnn.torch  # noqa: E402
from torch_steps import run_python  # noqa: E402

PLAIN = """
import torch, torch._inductor.config
from torch._dynamo.utils import counters
torch._inductor.config.cpp.vec_isa_ok = True  # as in test_torch_compile.py
torch.manual_seed(0)
net = torch.nn.Sequential(
    torch.nn.Conv2d(3, 4, 3), torch.nn.Upsample(scale_factor=2, mode="bilinear"),
    torch.nn.ReLU())
x = torch.randn(1, 3, 8, 9, requires_grad=True)
torch.compile(net)(x).square().sum().backward()
print(x.grad.norm().item(), counters["aot_autograd"]["autograd_cache_hit"])
"""
WITH_GRADNN = f"""
import gradnn.torch
gradnn.torch.enable()
{PLAIN}
ran = {{each["op"] for each in gradnn.torch.status() if each["ran"] == "gradnn"}}
assert "upsample_bilinear2d_backward" in ran, gradnn.torch.status()
"""


def test_code_of_one_is_not_served_to_the_other(tmp_path):
    norms, hits = [], []
    for program in (WITH_GRADNN, PLAIN, WITH_GRADNN, PLAIN):
        result = run_python(program, TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
        assert result.returncode == 0, result.stderr
        norm, hit = result.stdout.split()[-2:]
        norms.append(float(norm))
        hits.append(int(hit))
    assert norms == pytest.approx([norms[0]] * 4, rel=1e-5)
    # The last two are served what those like them left.
    assert hits == [0, 0, 1, 1]


def test_what_is_compiled_again_in_a_process(tmp_path):
    """And found in the cache in memory or on disk."""
    result = run_python(
        f"""
import gradnn.torch
PLAIN = {PLAIN!r}
for on in (True, False, True):
    (gradnn.torch.enable if on else gradnn.torch.disable)()
    gradnn.torch.reset_status()
    torch = __import__("torch")
    torch._dynamo.reset()
    exec(PLAIN)
    ran = {{each["op"] for each in gradnn.torch.status() if each["ran"] == "gradnn"}}
    assert ("upsample_bilinear2d_backward" in ran) == on, (on, ran)
""",
        TORCHINDUCTOR_CACHE_DIR=str(tmp_path),
    )
    assert result.returncode == 0, result.stderr


def in_another_thread(function):
    result = []
    thread = threading.Thread(target=lambda: result.append(function()))
    thread.start()
    thread.join()
    return result[0]


def test_the_key_of_every_thread_and_of_users_who_set_it():
    def tag():
        return compiler_config.cache_key_tag

    before = tag()
    assert "gradnn" not in before
    with gradnn.torch.enabled():
        assert gradnn.__version__ in tag()
        assert in_another_thread(tag) == tag() != before
        with compiler_config.patch(cache_key_tag="mine"):
            assert tag().startswith("mine") and "gradnn" in tag()
        read = tag()
    assert tag() == before
    with compiler_config.patch(cache_key_tag=read):  # put back by who read it
        assert tag() == before
        with gradnn.torch.enabled():
            assert tag() == read
