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


def fuse(model: nn.Module) -> list[str]:
    """Replaces pairs of nn.Upsample (nearest, by a whole factor) and a convolution
    behind it in every nn.Sequential by UpsampleConv modules. Parameters, their names
    and the state_dict stay. Returns the names of the convolutions that now upsample
    too."""
    replaced = []
    for name, module in list(model.named_modules()):
        if type(module) is nn.Sequential:
            replaced += _fuse_sequential(module, name + "." if name else "")
    return replaced
