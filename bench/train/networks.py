"""What is trained: each network with its sizes, its data and its loss.

Maps are compared with their target by squared error, which has a deterministic
gradient on GPUs where cross entropy of maps has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from .models import ConvNeXt, DeepLab, EfficientNet, FPN, HiFiGAN, UNet, UNet3d


class Network(NamedTuple):
    title: str
    build: Callable[[], nn.Module]
    build_small: Callable[[], nn.Module]  # thin and shallow
    shapes: dict[str, tuple[int, ...]]  # of the input, by size
    output: str  # "labels" or "map"

    @property
    def layouts(self) -> tuple[str, ...]:
        return ("NXC", "NCX") if len(self.shapes["full"]) > 3 else ("NCX",)

    def of_images(self, count: int) -> Network:
        """The same, of so many images a step at most."""

        def fewer(shape: tuple[int, ...]) -> tuple[int, ...]:
            return (min(count, shape[0]), *shape[1:])

        shapes = {size: fewer(shape) for size, shape in self.shapes.items()}
        return self._replace(shapes=shapes)

    def images(self, size: str) -> int:
        return self.shapes[size][0]

    def make(self, size: str) -> nn.Module:
        """The network with its weights, the same every time."""
        torch.manual_seed(20)
        return (self.build_small if size == "small" else self.build)().train()

    def data(self, size: str, model: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
        """Input and target of the step, the same every time."""
        generator = torch.Generator().manual_seed(21)
        x = torch.randn(self.shapes[size], generator=generator)
        with torch.no_grad():
            shape = _shape_of_output(model, x)
        if self.output == "labels":
            return x, torch.randint(shape[1], shape[:1], generator=generator)
        return x, torch.randn(shape, generator=generator)

    def loss(self, y: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if self.output == "labels":
            return F.cross_entropy(y, target)
        return F.mse_loss(y, target)


def _shape_of_output(model: nn.Module, x: torch.Tensor) -> tuple[int, ...]:
    """Without computing it."""
    meta = {name: value.to("meta") for name, value in model.state_dict().items()}
    return tuple(torch.func.functional_call(model, meta, (x.to("meta"),)).shape)


def _sizes(full, reduced, small) -> dict[str, tuple[int, ...]]:
    return {"full": full, "reduced": reduced, "small": small}


_THIN = dict(width=8, depths=(1, 1, 1, 1))
_UNET_SIZES = _sizes((8, 3, 384, 384), (1, 3, 256, 256), (2, 3, 48, 48))
_THIN_B0 = ((1, 8, 1, 1, 3), (3, 12, 2, 2, 3), (3, 16, 2, 2, 5))

NETWORKS = {
    "deeplab": Network(
        "DeepLab-R50",
        DeepLab,
        lambda: DeepLab(**_THIN, inner=16, classes=5),
        _sizes((8, 3, 513, 513), (2, 3, 257, 257), (4, 3, 65, 65)),
        "map",
    ),
    "unet_bilinear": Network(
        "U-Net bilinear",
        lambda: UNet("bilinear"),
        lambda: UNet("bilinear", (8, 16, 16)),
        _UNET_SIZES,
        "map",
    ),
    "unet_nearest": Network(
        "U-Net nearest",
        lambda: UNet("nearest"),
        lambda: UNet("nearest", (8, 16, 16)),
        _UNET_SIZES,
        "map",
    ),
    "fpn": Network(
        "FPN-R50 segmentation",
        FPN,
        lambda: FPN(**_THIN, pyramid=16, inner=8, classes=5),
        _sizes((8, 3, 512, 512), (2, 3, 256, 256), (2, 3, 64, 64)),
        "map",
    ),
    "unet3d": Network(
        "3-D U-Net trilinear",
        UNet3d,
        lambda: UNet3d((4, 8, 8)),
        _sizes((1, 1, 128, 128, 128), (1, 1, 48, 48, 48), (1, 1, 16, 16, 16)),
        "map",
    ),
    "convnext": Network(
        "ConvNeXt-T",
        ConvNeXt,
        lambda: ConvNeXt((8, 16), (1, 2), 10),
        _sizes((64, 3, 224, 224), (4, 3, 224, 224), (2, 3, 64, 64)),
        "labels",
    ),
    "efficientnet": Network(
        "EfficientNet-like",
        EfficientNet,
        lambda: EfficientNet(8, _THIN_B0, 24, 10),
        _sizes((64, 3, 224, 224), (4, 3, 224, 224), (4, 3, 64, 64)),
        "labels",
    ),
    "hifigan": Network(
        "HiFi-GAN generator",
        HiFiGAN,
        lambda: HiFiGAN(16, (4, 2), (3, 5)),
        _sizes((16, 80, 64), (2, 80, 32), (2, 80, 16)),
        "map",
    ),
}
