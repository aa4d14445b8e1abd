"""gradnn.torch.fuse: what it replaces, and what it leaves."""

import copy

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import gradnn.torch  # noqa: E402
from torch_status import ran  # noqa: E402

OP = "upsample_conv_backward"


def gradients(y, given):
    weight = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    return torch.autograd.grad(y, given, weight)


def model():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.Upsample(scale_factor=2),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.Sequential(nn.Upsample(scale_factor=(1, 3)), nn.Conv2d(8, 8, 5)),
        nn.Upsample(scale_factor=2, mode="bilinear"),  # another mode
        nn.Conv2d(8, 8, 3, padding=1),
        nn.Upsample(scale_factor=1.5),  # no whole factor
        nn.Conv2d(8, 8, 3, padding=1),
        nn.Upsample(scale_factor=2),
        nn.Conv2d(8, 8, 3, padding=1, padding_mode="reflect"),
        nn.Upsample(scale_factor=2),
        nn.Conv2d(8, 2, 3, stride=2),
    )


def test_fuse():
    gradnn.torch.enable()
    plain = model()
    fused = copy.deepcopy(plain)
    assert gradnn.torch.fuse(fused) == ["2", "3.1"]
    assert gradnn.torch.fuse(fused) == []
    assert list(fused.state_dict()) == list(plain.state_dict())
    fused.load_state_dict(plain.state_dict())
    x = torch.randn(1, 3, 6, 6)
    results = []
    for each in (plain, fused, copy.deepcopy(fused)):
        results.append(each(x))
        results[-1].square().sum().backward()
    torch.testing.assert_close(results[1], results[0])
    torch.testing.assert_close(results[2], results[0])
    for a, b in zip(fused.parameters(), plain.parameters()):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)
    assert ran(OP) == 4


def test_fuse_takes_neighbours_as_they_are():
    pad = nn.ReflectionPad2d(1)
    watched = nn.Conv2d(4, 4, 3)
    watched.register_full_backward_pre_hook(lambda *_: None)
    own = nn.Conv2d(4, 4, 3)
    own.forward = lambda x: x
    for between in ([pad, nn.Upsample(scale_factor=2), pad, nn.Conv2d(4, 4, 3)],
                    [nn.Upsample(scale_factor=2), watched],
                    [nn.Upsample(scale_factor=2), own]):  # fmt: skip
        assert gradnn.torch.fuse(nn.Sequential(*between)) == []


class Upsample2D(nn.Module):
    """As diffusers has it: by a given size too."""

    def __init__(self, channels=4, mode="nearest", **conv):
        super().__init__()
        self.channels = channels
        self.mode = mode
        self.conv = nn.Conv2d(channels, channels, 3, **{"padding": 1, **conv})

    def forward(self, hidden_states, output_size=None, *args, **kwargs):
        assert hidden_states.shape[1] == self.channels
        return self.conv(self.resize(hidden_states, output_size))

    def resize(self, x, output_size=None):
        if output_size is None:
            return F.interpolate(x, scale_factor=2.0, mode=self.mode)
        return F.interpolate(x, size=output_size, mode=self.mode)


class WithNorm(Upsample2D):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(1, 4, affine=False)

    def forward(self, x):
        return super().forward(self.norm(x))


class WithScale(Upsample2D):
    def forward(self, x, scale):
        return super().forward(x)


class Elsewhere(Upsample2D):
    """What `change` makes of its parts."""

    def __init__(self, change, **options):
        super().__init__(**options)
        self.change = change

    def forward(self, x):
        return self.change(self, x)


def holder(module):
    return nn.ModuleDict({"up": nn.ModuleList([module])})


def test_fuse_takes_modules_that_prove_to_upsample_and_convolve():
    gradnn.torch.enable()
    plain = Upsample2D()
    plain.eval()
    model = holder(copy.deepcopy(plain))
    keys = list(model.state_dict())
    before = torch.get_rng_state()
    assert gradnn.torch.fuse(model) == ["up.0.conv"]
    assert torch.equal(torch.get_rng_state(), before)
    assert gradnn.torch.fuse(model) == []
    assert list(model.state_dict()) == keys
    fused = model["up"][0]
    assert type(fused) is not Upsample2D and not fused.training
    assert fused.channels == 4 and not fused.conv._forward_hooks
    x = torch.randn(2, 4, 5, 3, requires_grad=True)
    gradnn.torch.reset_status()
    for each in (fused, copy.deepcopy(fused)):
        for more in ((), (None,)):
            torch.testing.assert_close(each(x, *more), plain(x))
        torch.testing.assert_close(each(x, (7, 9)), plain(x, (7, 9)))
        torch.testing.assert_close(each(hidden_states=x), plain(x))
        wanted = gradients(plain(x), [x, *plain.parameters()])
        for a, b in zip(gradients(each(x), [x, *each.parameters()]), wanted):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    assert ran(OP) == 2
    # A copy's parameters are its own, and what becomes of them counts in every call.
    fused.load_state_dict({"conv.weight": torch.zeros(4, 4, 3, 3),
                           "conv.bias": torch.ones(4)}, assign=True)  # fmt: skip
    for more in ((), ((7, 9),)):
        assert torch.equal(fused(x, *more).unique(), torch.ones(1))
    torch.testing.assert_close(each(x), plain(x))
    fused.conv = nn.Identity()  # as what adapts weights replaces modules
    assert torch.equal(fused(x), plain.resize(x))
    fused.to(torch.float64)
    assert all(p.dtype is torch.float64 for p in fused.parameters())


def test_fuse_replaces_a_module_wherever_it_occurs():
    model = nn.Module()
    model.a = model.b = Upsample2D()
    assert gradnn.torch.fuse(model) == ["a.conv", "b.conv"]
    assert model.a is model.b


def dropped(self, x):
    return F.dropout(self.conv(self.resize(x)), training=self.training)


def in_place(self, x):
    return self.conv(self.resize(x)).add_(1)


def by_sizes(self, x):
    return self.conv(x.repeat_interleave(2, 2).repeat_interleave(3, 3))


@pytest.mark.parametrize(
    "module",
    [
        lambda: Upsample2D(mode="bilinear"),
        lambda: Upsample2D(mode="nearest-exact").requires_grad_(False),
        lambda: Upsample2D(stride=2),
        lambda: Upsample2D(padding_mode="reflect"),
        WithNorm,
        WithScale,
        lambda: Elsewhere(dropped),
        lambda: Elsewhere(in_place),
        lambda: Elsewhere(by_sizes),
        lambda: Elsewhere(lambda self, x: self.conv(self.resize(x.detach()))),
        lambda: Elsewhere(lambda self, x: self.conv(self.resize(x)).detach()),
        lambda: Elsewhere(lambda self, x: self.conv(self.resize(x.clamp(-9, 9)))),
        lambda: Elsewhere(lambda self, x: self.conv(self.conv(self.resize(x)))),
        lambda: Elsewhere(lambda self, x: F.conv2d(self.resize(x), self.conv.weight)),
        lambda: Elsewhere(lambda self, x: 1 / 0),
    ],
    ids=["bilinear", "exact", "stride", "reflect", "norm", "scale", "dropout",
         "in place", "3 times", "detached input", "detached", "clamped", "twice",
         "functional", "raises"],
)  # fmt: skip
def test_fuse_leaves_what_does_not_prove_itself(module):
    model = holder(module())
    kept = model["up"][0]
    flags = [each.training for each in model.modules()]
    found = gradnn.torch.fuse(model)
    # That mode has the values of "nearest" where a size is doubled.
    assert found == (["up.0.conv"] if kept.mode == "nearest-exact" else [])
    assert (model["up"][0] is kept) == (not found)
    assert [each.training for each in model.modules()] == flags
    assert not kept.conv._forward_hooks
