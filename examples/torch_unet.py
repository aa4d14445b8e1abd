"""Trains a small U-Net in PyTorch, whose convolution and upsampling gradients come
from gradnn. Runs on the CPU, or on a GPU where PyTorch has one.

    pip install .  &&  pip install torch
    python3 examples/torch_unet.py
"""

import torch
from torch import nn
from torch.nn import functional

import gradnn.torch


class Block(nn.Sequential):
    def __init__(self, inputs: int, outputs: int):
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1),
            nn.ReLU(),
        )


class UNet(nn.Module):
    def __init__(self, width: int = 8):
        super().__init__()
        self.down = nn.ModuleList([Block(1, width), Block(width, 2 * width)])
        self.middle = Block(2 * width, 4 * width)
        self.up = nn.ModuleList([Block(6 * width, 2 * width), Block(3 * width, width)])
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = functional.max_pool2d(x, 2)
        x = self.middle(x)
        for block, skip in zip(self.up, reversed(kept)):
            x = functional.interpolate(x, scale_factor=2.0, mode="bilinear")
            x = block(torch.cat([x, skip], 1))
        return self.head(x)


def discs(count: int, size: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy images of a disc each, and the discs."""
    place = torch.arange(size, dtype=torch.float32, device=device)
    middle = size / 4 + size / 2 * torch.rand(count, 2, 1, 1, device=device)
    distance = (place[:, None] - middle[:, 0]) ** 2 + (place - middle[:, 1]) ** 2
    disc = (distance < (size / 6) ** 2).float()[:, None]
    return disc + 0.5 * torch.randn(count, 1, size, size, device=device), disc


def main() -> int:
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = UNet().to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)

    gradnn.torch.enable()  # all that an existing training program needs
    losses = []
    for step in range(30):
        images, wanted = discs(8, 64, device)
        optimizer.zero_grad()
        loss = functional.binary_cross_entropy_with_logits(network(images), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 10 == 9:
            print(f"step {step + 1}: loss {losses[-1]:.3f}")

    by_gradnn = {}
    for entry in gradnn.torch.status():
        print(entry)
        if entry["ran"] == "gradnn":
            by_gradnn[entry["op"]] = by_gradnn.get(entry["op"], 0) + entry["calls"]
    learnt = losses[-1] < 0.5 * losses[0]
    return 0 if learnt and len(by_gradnn) >= 2 else 1


if __name__ == "__main__":
    raise SystemExit(main())
