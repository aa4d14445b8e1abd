"""The networks, by hand from torch.nn.

Nothing in them but convolution and upsampling has a gradient without a
deterministic kernel on GPUs, so that PyTorch's deterministic mode and the bits
of two steps speak of these alone: volumes are halved by strided convolutions.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


def conv_bn(cin, cout, kernel, stride=1, dilation=1, groups=1, act=nn.ReLU):
    layers = [
        nn.Conv2d(
            cin,
            cout,
            kernel,
            stride,
            dilation * (kernel // 2),
            dilation,
            groups,
            bias=False,
        ),
        nn.BatchNorm2d(cout),
    ]
    return nn.Sequential(*layers, *([act()] if act else []))


class Bottleneck(nn.Module):
    def __init__(self, cin, width, stride, dilation):
        super().__init__()
        cout = 4 * width
        self.body = nn.Sequential(
            conv_bn(cin, width, 1),
            conv_bn(width, width, 3, stride, dilation),
            conv_bn(width, cout, 1, act=None),
        )
        self.skip = nn.Identity()
        if stride != 1 or cin != cout:
            self.skip = conv_bn(cin, cout, 1, stride, act=None)

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


class ResNet(nn.Module):
    """ResNet-50 without its head; gives the result of each stage."""

    def __init__(self, width=64, depths=(3, 4, 6, 3), dilated=False):
        super().__init__()
        self.stem = nn.Sequential(
            conv_bn(3, width, 7, 2), nn.MaxPool2d(3, stride=2, padding=1)
        )
        self.stages = nn.ModuleList()
        self.channels = []
        cin = width
        for index, depth in enumerate(depths):
            stride, dilation = (1 if index == 0 else 2), 1
            if dilated and index == 3:
                stride, dilation = 1, 2
            inner = width << index
            blocks = [Bottleneck(cin, inner, stride, dilation)]
            cin = 4 * inner
            blocks += [Bottleneck(cin, inner, 1, dilation) for _ in range(depth - 1)]
            self.stages.append(nn.Sequential(*blocks))
            self.channels.append(cin)

    def forward(self, x):
        x = self.stem(x)
        found = []
        for stage in self.stages:
            x = stage(x)
            found.append(x)
        return found


class DeepLab(nn.Module):
    """DeepLabV3 at output stride 16: the logits are upsampled 16 times."""

    def __init__(self, width=64, depths=(3, 4, 6, 3), inner=256, classes=21):
        super().__init__()
        self.backbone = ResNet(width, depths, dilated=True)
        cin = self.backbone.channels[-1]
        self.branches = nn.ModuleList([conv_bn(cin, inner, 1)])
        for rate in (6, 12, 18):
            self.branches.append(conv_bn(cin, inner, 3, dilation=rate))
        self.pooled = conv_bn(cin, inner, 1)
        self.project = conv_bn(5 * inner, inner, 1)
        self.head = nn.Sequential(
            conv_bn(inner, inner, 3), nn.Conv2d(inner, classes, 1)
        )

    def forward(self, x):
        size = x.shape[2:]
        x = self.backbone(x)[-1]
        found = [branch(x) for branch in self.branches]
        pooled = self.pooled(x.mean((2, 3), keepdim=True))
        found.append(F.interpolate(pooled, size=x.shape[2:], mode="bilinear"))
        x = self.head(self.project(torch.cat(found, 1)))
        return F.interpolate(x, size=size, mode="bilinear")


class FPN(nn.Module):
    """Feature pyramid on ResNet-50 with a head for segmentation: nearest on the
    way down the pyramid, bilinear in the head."""

    def __init__(
        self, width=64, depths=(3, 4, 6, 3), pyramid=256, inner=128, classes=21
    ):
        super().__init__()
        self.backbone = ResNet(width, depths)
        channels = self.backbone.channels
        self.lateral = nn.ModuleList(nn.Conv2d(c, pyramid, 1) for c in channels)
        self.smooth = nn.ModuleList(
            nn.Conv2d(pyramid, pyramid, 3, padding=1) for _ in channels
        )
        self.heads = nn.ModuleList()
        for level in range(len(channels)):
            layers, cin = [], pyramid
            for _ in range(max(level, 1)):
                layers += [
                    nn.Conv2d(cin, inner, 3, padding=1, bias=False),
                    nn.GroupNorm(max(inner // 4, 1), inner),
                    nn.ReLU(),
                ]
                if level:
                    layers.append(nn.Upsample(scale_factor=2, mode="bilinear"))
                cin = inner
            self.heads.append(nn.Sequential(*layers))
        self.classify = nn.Conv2d(inner, classes, 1)

    def forward(self, x):
        size = x.shape[2:]
        levels = [conv(c) for conv, c in zip(self.lateral, self.backbone(x))]
        for upper in range(len(levels) - 1, 0, -1):
            lower = levels[upper - 1]
            levels[upper - 1] = lower + F.interpolate(
                levels[upper], size=lower.shape[2:], mode="nearest"
            )
        heads = zip(levels, self.smooth, self.heads)
        x = sum(head(smooth(level)) for level, smooth, head in heads)
        return F.interpolate(self.classify(x), size=size, mode="bilinear")


class UNet(nn.Module):
    def __init__(self, mode, widths=(64, 128, 256, 512, 512), classes=21):
        super().__init__()
        self.down = nn.ModuleList()
        cin = 3
        for width in widths:
            self.down.append(self.double(cin, width))
            cin = width
        self.up = nn.ModuleList()
        for width in reversed(widths[:-1]):
            self.up.append(self.double(cin + width, width))
            cin = width
        self.pool = nn.MaxPool2d(2)
        self.enlarge = nn.Upsample(scale_factor=2, mode=mode)
        self.classify = nn.Conv2d(cin, classes, 1)

    @staticmethod
    def double(cin, cout):
        return nn.Sequential(conv_bn(cin, cout, 3), conv_bn(cout, cout, 3))

    def forward(self, x):
        found = []
        for stage in self.down:
            x = stage(self.pool(x) if found else x)
            found.append(x)
        found.pop()
        for stage in self.up:
            x = stage(torch.cat([found.pop(), self.enlarge(x)], 1))
        return self.classify(x)


class UNet3d(nn.Module):
    def __init__(self, widths=(32, 64, 128, 256), classes=4):
        super().__init__()
        self.down = nn.ModuleList()
        cin = 1
        for index, width in enumerate(widths):
            self.down.append(self.double(cin, width, 2 if index else 1))
            cin = width
        self.up = nn.ModuleList()
        for width in reversed(widths[:-1]):
            self.up.append(self.double(cin + width, width))
            cin = width
        self.enlarge = nn.Upsample(scale_factor=2, mode="trilinear")
        self.classify = nn.Conv3d(cin, classes, 1)

    @staticmethod
    def double(cin, cout, stride=1):
        layers = []
        for source, step in ((cin, stride), (cout, 1)):
            layers += [
                nn.Conv3d(source, cout, 3, step, 1, bias=False),
                nn.InstanceNorm3d(cout, affine=True),
                nn.LeakyReLU(0.01),
            ]
        return nn.Sequential(*layers)

    def forward(self, x):
        found = []
        for stage in self.down:
            x = stage(x)
            found.append(x)
        found.pop()
        for stage in self.up:
            x = stage(torch.cat([found.pop(), self.enlarge(x)], 1))
        return self.classify(x)


class ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channels of [N, C, H, W]."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNeXtBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.scale = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x):
        y = self.depthwise(x).permute(0, 2, 3, 1)
        y = self.scale * self.mlp(self.norm(y))
        return x + y.permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self, widths=(96, 192, 384, 768), depths=(3, 3, 9, 3), classes=1000):
        super().__init__()
        layers = [nn.Conv2d(3, widths[0], 4, 4), ChannelNorm(widths[0], eps=1e-6)]
        cin = widths[0]
        for width, depth in zip(widths, depths):
            if width != cin:
                layers += [ChannelNorm(cin, eps=1e-6), nn.Conv2d(cin, width, 2, 2)]
            layers += [ConvNeXtBlock(width) for _ in range(depth)]
            cin = width
        self.body = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.LayerNorm(cin, eps=1e-6), nn.Linear(cin, classes))

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class MBConv(nn.Module):
    def __init__(self, cin, cout, expand, kernel, stride):
        super().__init__()
        inner = cin * expand
        self.expand = conv_bn(cin, inner, 1, act=nn.SiLU) if expand > 1 else None
        self.depthwise = conv_bn(inner, inner, kernel, stride, 1, inner, nn.SiLU)
        squeezed = max(cin // 4, 1)
        self.squeeze = nn.Sequential(
            nn.Conv2d(inner, squeezed, 1),
            nn.SiLU(),
            nn.Conv2d(squeezed, inner, 1),
            nn.Sigmoid(),
        )
        self.project = conv_bn(inner, cout, 1, act=None)
        self.residual = stride == 1 and cin == cout

    def forward(self, x):
        y = x if self.expand is None else self.expand(x)
        y = self.depthwise(y)
        y = y * self.squeeze(y.mean((2, 3), keepdim=True))
        y = self.project(y)
        return x + y if self.residual else y


# Expansion, channels, blocks, stride, kernel: EfficientNet-B0's.
_B0 = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)


class EfficientNet(nn.Module):
    """EfficientNet-B0 without dropping of paths."""

    def __init__(self, stem=32, stages=_B0, head=1280, classes=1000):
        super().__init__()
        layers = [conv_bn(3, stem, 3, 2, act=nn.SiLU)]
        cin = stem
        for expand, width, blocks, stride, kernel in stages:
            for block in range(blocks):
                step = 1 if block else stride
                layers.append(MBConv(cin, width, expand, kernel, step))
                cin = width
        layers.append(conv_bn(cin, head, 1, act=nn.SiLU))
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(head, classes)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class ResidualBlock1d(nn.Module):
    def __init__(self, width, kernel, dilations=(1, 3, 5)):
        super().__init__()
        self.pairs = nn.ModuleList(
            nn.Sequential(
                nn.LeakyReLU(0.1),
                nn.Conv1d(
                    width, width, kernel, padding=d * (kernel // 2), dilation=d
                ),
                nn.LeakyReLU(0.1),
                nn.Conv1d(width, width, kernel, padding=kernel // 2),
            )
            for d in dilations
        )

    def forward(self, x):
        for pair in self.pairs:
            x = x + pair(x)
        return x


class HiFiGAN(nn.Module):
    """The generator V1, without weight normalisation."""

    def __init__(self, width=512, rates=(8, 8, 2, 2), kernels=(3, 7, 11)):
        super().__init__()
        self.first = nn.Conv1d(80, width, 7, padding=3)
        self.enlarge = nn.ModuleList()
        self.blocks = nn.ModuleList()
        for rate in rates:
            self.enlarge.append(
                nn.ConvTranspose1d(
                    width, width // 2, 2 * rate, rate, padding=rate // 2
                )
            )
            width //= 2
            self.blocks.append(
                nn.ModuleList(ResidualBlock1d(width, kernel) for kernel in kernels)
            )
        self.last = nn.Conv1d(width, 1, 7, padding=3)

    def forward(self, x):
        x = self.first(x)
        for enlarge, blocks in zip(self.enlarge, self.blocks):
            x = enlarge(F.leaky_relu(x, 0.1))
            x = sum(block(x) for block in blocks) / len(blocks)
        return torch.tanh(self.last(F.leaky_relu(x)))
