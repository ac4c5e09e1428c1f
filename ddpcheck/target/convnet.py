"""A small convolutional net with batch norm, and pictures made from the training text."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

SIDE = 16
CLASSES = 2


class ConvNet(nn.Module):
    """Three convolutions with BatchNorm2d, a mean over the picture, a linear map."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(_convolve(1, 16), _convolve(16, 32), _convolve(32, 32))
        self.head = nn.Linear(32, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Map images [batch, 1, 16, 16] to logits [batch, 2]."""
        features: Tensor = self.features(images)
        return cast(Tensor, self.head(features.mean(dim=(2, 3))))


class TextPictures(Dataset[tuple[Tensor, Tensor]]):
    """A text, uint8 [n], as pictures float32 [1, 16, 16] in 0..1, with a label, int64 [].

    Every 256 bytes make one picture. The label is 1 where it is brighter than the
    median picture: two classes of equal size, which a net learns within some steps.
    """

    def __init__(self, text: Tensor) -> None:
        pixels = SIDE * SIDE
        cut = text[: len(text) // pixels * pixels]
        self._images = cut.view(-1, 1, SIDE, SIDE)
        brightness = self._images.flatten(1).float().mean(dim=1)
        self._labels = (brightness > brightness.median()).long()

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self._images[index].float() / 255, self._labels[index]


def image_loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Return the mean cross entropy in nats; batch: images [batch, 1, 16, 16], labels [batch]."""
    images, labels = batch
    return functional.cross_entropy(model(images), labels)


def _convolve(inputs: int, outputs: int) -> nn.Sequential:
    # The norm has a shift of its own, so a bias before it would get no gradient.
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel_size=3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )
