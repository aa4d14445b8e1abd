"""upsample_conv as functions and modules, and models whose pairs become these."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from . import _ops, _upsample_conv
from ._plans import DTYPES


def _whole(name: str, value, axes: int, least: int) -> list[int]:
    """Whole numbers, one an axis; floats may have such values."""
    given = list(value) if isinstance(value, (tuple, list)) else [value] * axes
    if len(given) != axes or any(
        isinstance(each, bool)
        or not isinstance(each, (int, float))
        or each != int(each)
        or each < least
        for each in given
    ):
        raise ValueError(
            f"upsample_conv{axes}d: {name} is {value!r}; a whole number of at least "
            f"{least}, or {axes} of them, is allowed"
        )
    return [int(each) for each in given]


def _pads(padding, kernel: Sequence[int]) -> tuple[list[int], list[int]]:
    if padding == "same":
        begin = [(taps - 1) // 2 for taps in kernel]
        return begin, [taps - 1 - pad for taps, pad in zip(kernel, begin)]
    if padding == "valid":
        padding = 0
    pads = _whole("padding", padding, len(kernel), 0)
    return pads, pads


def _check(input, weight, bias, groups, axes: int) -> None:
    name = f"upsample_conv{axes}d"
    if input.ndim != axes + 2:
        raise ValueError(
            f"{name}: input has {input.ndim} dimensions; {axes + 2} are allowed"
        )
    if weight.ndim != axes + 2:
        raise ValueError(
            f"{name}: weight has {weight.ndim} dimensions; {axes + 2} are allowed"
        )
    if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
        raise ValueError(f"{name}: groups is {groups!r}; 1 or more is allowed")
    if weight.shape[1] * groups != input.shape[1] or weight.shape[0] % groups:
        raise ValueError(
            f"{name}: weight has the shape {list(weight.shape)} and groups is "
            f"{groups}; of an input of {input.shape[1]} channels "
            f"[{groups} * n, {input.shape[1]} / {groups}, ...] is allowed"
        )
    if bias is not None and tuple(bias.shape) != (weight.shape[0],):
        raise ValueError(
            f"{name}: bias has the shape {list(bias.shape)}; [{weight.shape[0]}] is "
            "allowed"
        )


def _call(input, weight, bias, scale_factor, padding, groups, axes):
    _check(input, weight, bias, groups, axes)
    scale = _whole("scale_factor", scale_factor, axes, 1)
    begin, end = _pads(padding, weight.shape[2:])
    device = input.device.type
    if device not in ("cpu", "cuda"):  # PyTorch's alone
        return _upsample_conv.convolve(input, weight, bias, scale, begin, end, groups)
    if torch.is_autocast_enabled(device) and input.dtype is not torch.float64:
        dtype = torch.get_autocast_dtype(device)
        input, weight = input.to(dtype), weight.to(dtype)
        bias = None if bias is None else bias.to(dtype)
    arguments = (input, weight, bias, scale, begin, end, groups)
    if (
        input.dtype not in DTYPES
        or not _ops.is_safe()
        or _ops.is_recorded()
    ):  # PyTorch's alone
        with torch.autocast(device, enabled=False):
            return _upsample_conv.convolve(*arguments)
    return torch.ops.gradnn.upsample_conv(*arguments)


def upsample_conv1d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale_factor: int | Sequence[int] = 2,
    padding: int | Sequence[int] | str = "same",
    groups: int = 1,
) -> torch.Tensor:
    """conv1d(interpolate(input, scale_factor, mode="nearest"), weight, bias, 1,
    padding, 1, groups), as upsample_conv2d."""
    return _call(input, weight, bias, scale_factor, padding, groups, 1)


def upsample_conv2d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale_factor: int | Sequence[int] = 2,
    padding: int | Sequence[int] | str = "same",
    groups: int = 1,
) -> torch.Tensor:
    """conv2d(interpolate(input, scale_factor, mode="nearest"), weight, bias, 1,
    padding, 1, groups) of whole scale factors, which keeps the small input alone for
    the gradients. While gradnn.torch is enabled these are gradnn's, computed without
    the large tensors where that is faster."""
    return _call(input, weight, bias, scale_factor, padding, groups, 2)


def upsample_conv3d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale_factor: int | Sequence[int] = 2,
    padding: int | Sequence[int] | str = "same",
    groups: int = 1,
) -> torch.Tensor:
    """conv3d(interpolate(input, scale_factor, mode="nearest"), weight, bias, 1,
    padding, 1, groups), as upsample_conv2d."""
    return _call(input, weight, bias, scale_factor, padding, groups, 3)


class _UpsampleConv:
    """What the modules share; each is its PyTorch convolution beside."""

    def __init__(
        self, in_channels, out_channels, kernel_size, scale_factor=2, padding="same",
        groups=1, bias=True, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, padding=padding, groups=groups,
            bias=bias, device=device, dtype=dtype,
        )  # fmt: skip
        self.scale_factor = scale_factor

    @classmethod
    def from_conv(cls, conv, scale_factor=2):
        """With the parameters of a convolution, which stay the same tensors."""
        why = _why_not(conv)
        if why:
            raise ValueError(f"{cls.__name__}.from_conv: conv {why}")
        made = cls(
            conv.in_channels, conv.out_channels, conv.kernel_size, scale_factor,
            conv.padding, conv.groups, conv.bias is not None, device="meta",
        )  # fmt: skip
        made.weight, made.bias = conv.weight, conv.bias
        made.train(conv.training)
        return made

    def forward(self, input):
        return _call(
            input, self.weight, self.bias, self.scale_factor, self.padding,
            self.groups, self.weight.ndim - 2,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, scale_factor={self.scale_factor}"


class UpsampleConv1d(_UpsampleConv, nn.Conv1d):
    """Upsample(scale_factor, mode="nearest") and Conv1d by upsample_conv1d, with the
    state_dict of the Conv1d."""


class UpsampleConv2d(_UpsampleConv, nn.Conv2d):
    """Upsample(scale_factor, mode="nearest") and Conv2d by upsample_conv2d, with the
    state_dict of the Conv2d."""


class UpsampleConv3d(_UpsampleConv, nn.Conv3d):
    """Upsample(scale_factor, mode="nearest") and Conv3d by upsample_conv3d, with the
    state_dict of the Conv3d."""


_MODULES = {nn.Conv1d: UpsampleConv1d, nn.Conv2d: UpsampleConv2d, nn.Conv3d: UpsampleConv3d}


def _why_not(conv) -> str:
    """Why a convolution cannot be one behind an upsampling; empty where it can."""
    if type(conv) not in _MODULES:
        return f"is a {type(conv).__name__}; a Conv1d, Conv2d or Conv3d is allowed"
    for name, allowed in (("stride", 1), ("dilation", 1)):
        if any(each != allowed for each in getattr(conv, name)):
            return f"has {name} {getattr(conv, name)}; {allowed} is allowed"
    if conv.padding_mode != "zeros":
        return f"has padding_mode {conv.padding_mode!r}; 'zeros' is allowed"
    if _is_watched(conv):
        return "has hooks or a forward of its own; none is allowed"
    return ""


def _is_watched(module) -> bool:
    """Whether a call does more than the class's forward."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
             "_backward_pre_hooks")  # fmt: skip
    return "forward" in vars(module) or any(getattr(module, each) for each in hooks)


def _scale_of(upsample, axes: int) -> list[int] | None:
    """The whole scale factors of a nearest nn.Upsample; None where it is no such."""
    if (
        type(upsample) not in (nn.Upsample, nn.UpsamplingNearest2d)
        or upsample.mode != "nearest"
        or upsample.scale_factor is None
        or _is_watched(upsample)
    ):
        return None
    try:
        return _whole("scale_factor", upsample.scale_factor, axes, 1)
    except ValueError:
        return None


def _fuse_sequential(model: nn.Sequential, prefix: str) -> list[str]:
    """The keys of the state_dict stay: where the upsampling was is an Identity."""
    replaced = []
    # All places: a module that occurs again is one of each.
    children = list(model._modules.items())
    for (first, upsample), (second, conv) in zip(children, children[1:]):
        if _why_not(conv):
            continue
        scale = _scale_of(upsample, conv.weight.ndim - 2)
        if scale is None:
            continue
        setattr(model, first, nn.Identity())
        setattr(model, second, _MODULES[type(conv)].from_conv(conv, scale))
        replaced.append(prefix + second)
    return replaced


class _UpsampleThenConv(nn.Module):
    """In the place of a module that upsamples by 2 and then calls its child `conv`. It
    is called for whatever it was not probed with: arguments beside the input, a `conv`
    that became another one."""

    def __init__(self, original):
        super().__init__()
        self.conv = original.conv
        self._original = (original,)  # no child: the names of parameters stay
        self.train(original.training)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if "_original" not in self.__dict__:
                raise
            return getattr(self._original[0], name)

    def forward(self, *inputs, **options):
        more = (*inputs[1:], *options.values())
        conv = self.conv
        if (
            len(inputs) == 0
            or any(each is not None for each in more)
            or inputs[0].ndim != 4
            or _why_not(conv)
        ):
            (original,) = self._original
            original.conv = conv
            return original.train(self.training)(*inputs, **options)
        return upsample_conv2d(
            inputs[0], conv.weight, conv.bias, 2, conv.padding, conv.groups
        )


# Images and sides of random inputs, and their standard deviation.
_PROBES = (((1, 5, 7), 1.0), ((2, 4, 3), 100.0), ((1, 8, 1), 1e-2))


def _differs(module, conv, side: tuple[int, int, int], scale: float) -> bool:
    """Whether a call with random values gives something else than `conv` of their
    nearest neighbours, in values or in gradients."""
    seen = []

    def keep(_, inputs, options, output):
        seen.append((*(each.clone() for each in inputs), *options, output.clone()))

    images, *space = side
    x = torch.randn(images, conv.in_channels, *space).mul_(scale).to(conv.weight)
    chosen = [x.requires_grad_(), *(p for p in conv.parameters() if p.requires_grad)]
    hook = conv.register_forward_hook(keep, with_kwargs=True)
    try:
        y = module(x)
    finally:
        hook.remove()
    large = x.repeat_interleave(2, -1).repeat_interleave(2, -2)
    if (
        len(seen) != 1
        or len(seen[0]) != 2
        or not torch.equal(seen[0][0], large)
        or not isinstance(y, torch.Tensor)
        or not torch.equal(seen[0][1], y)
        or not y.requires_grad
    ):
        return True
    grad = torch.randn(y.shape).to(y)
    found = torch.autograd.grad(y, chosen, grad, allow_unused=True)
    wanted = torch.autograd.grad(conv(large), chosen, grad)
    return any(
        a is None or (a - b).norm() > 1e-2 * b.norm() for a, b in zip(found, wanted)
    )


def _upsamples_then_convolves(module) -> bool:
    """Whether a module is proven to be nearest upsampling by 2 and its child `conv`:
    by calls with random values, in training and not, of what has nothing else that
    could change them."""
    conv = module._modules.get("conv")
    if (
        type(conv) is not nn.Conv2d
        or isinstance(module, (_UpsampleThenConv, nn.Sequential))
        or _why_not(conv)
        or _is_watched(module)
        or any(
            type(each) not in (nn.Identity, nn.Upsample) or _is_watched(each)
            for each in module.modules()
            if each not in (module, conv)
        )
        or {id(each) for each in module.parameters()}
        != {id(each) for each in conv.parameters()}
        or any(True for _ in module.buffers())
        or conv.weight.is_meta
    ):
        return False
    devices = [conv.weight.device] if conv.weight.is_cuda else []
    modes = [(each, each.training) for each in module.modules()]
    try:
        with torch.random.fork_rng(devices), torch.inference_mode(False), (
            torch.enable_grad()
        ), torch.autocast(conv.weight.device.type, enabled=False):
            return not any(
                _differs(module.train(training), conv, side, scale)
                for training in (False, True)
                for side, scale in _PROBES
            )
    except Exception:  # of code that is not ours: no proof
        return False
    finally:
        for each, training in modes:
            each.training = training


def fuse(model: nn.Module) -> list[str]:
    """Replaces pairs of nn.Upsample (nearest, by a whole factor) and a convolution
    behind it in every nn.Sequential by UpsampleConv modules; and modules within the
    model, such as diffusers' Upsample2D, that are nothing but nearest upsampling by 2
    and a call of their child `conv`, an nn.Conv2d, which they are asked by calls with
    random inputs. Parameters, their names and the state_dict stay. Returns the names of
    the convolutions that now upsample too."""
    replaced = []
    for name, module in list(model.named_modules()):
        if type(module) is nn.Sequential:
            replaced += _fuse_sequential(module, name + "." if name else "")
    made: dict[nn.Module, nn.Module | None] = {}
    for name, parent in list(model.named_modules()):
        # All places: a module that occurs again is one of each.
        for child, module in list(parent._modules.items()):
            if module is None:
                continue
            if module not in made:
                proven = _upsamples_then_convolves(module)
                made[module] = _UpsampleThenConv(module) if proven else None
            if made[module] is not None:
                parent._modules[child] = made[module]
                replaced.append(f"{name}.{child}.conv".lstrip("."))
    return replaced
