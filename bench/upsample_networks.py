"""The networks of bench/upsample_conv: nearest upsampling by two in front of 3x3
convolutions, as nn.Sequential has them."""

import torch
import torch.nn.functional as F
from torch import nn


def block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(min(8, cout), cout), nn.SiLU()
    )


def up(cin, cout):
    return nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(cin, cout, 3, padding=1))


class Pyramid(nn.Module):
    """Of a coarse map: each level upsampled, convolved and read by a head."""

    def __init__(self, width):
        super().__init__()
        self.ups = nn.ModuleList(up(width, width) for _ in range(3))
        self.heads = nn.ModuleList(block(width, width) for _ in range(3))

    def forward(self, x):
        total = 0
        for step, head in zip(self.ups, self.heads):
            x = step(x)
            total = total + head(x).square().mean()
        return total


class UNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.down = nn.ModuleList([block(3, width), block(width, 2 * width)])
        self.middle = block(2 * width, 4 * width)
        self.ups = nn.ModuleList([up(4 * width, 2 * width), up(2 * width, width)])
        self.merge = nn.ModuleList([block(4 * width, 2 * width), block(2 * width, width)])

    def forward(self, x):
        kept = []
        for step in self.down:
            kept.append(step(x))
            x = F.max_pool2d(kept[-1], 2)
        x = self.middle(x)
        for step, merge in zip(self.ups, self.merge):
            x = merge(torch.cat([step(x), kept.pop()], 1))
        return x


def networks(small):
    """Each with its input: a decoder as SD's VAE has it, a pyramid, a U-Net."""
    widths = (16, 16, 8) if small else (512, 512, 256)
    layers = [block(4, widths[0])]
    for cin, cout in zip(widths, widths[1:] + widths[-1:]):
        layers += [block(cin, cin), up(cin, cin), block(cin, cout)]
    decoder = nn.Sequential(*layers, nn.Conv2d(widths[-1], 3, 3, padding=1))
    yield "decoder", decoder, (1, 4, *([4, 4] if small else [64, 64]))
    width = 8 if small else 256
    yield "pyramid", Pyramid(width), (2 if small else 8, width, *[4 if small else 28] * 2)
    yield "unet", UNet(8 if small else 64), (2, 3, *[16 if small else 512] * 2)
