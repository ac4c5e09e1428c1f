import torch
from torch import Tensor

from ddpcheck.target.builtin import seeded
from ddpcheck.target.convnet import ConvNet, TextPictures, image_loss
from ddpcheck.target.text import read_text


def batch_of(pictures: TextPictures, size: int) -> tuple[Tensor, Tensor]:
    items = [pictures[i] for i in range(size)]
    return torch.stack([image for image, _ in items]), torch.stack([label for _, label in items])


def pictures() -> TextPictures:
    return TextPictures(read_text("", limit_bytes=100_000))


def test_pictures_are_bytes_between_zero_and_one() -> None:
    text = torch.arange(600).remainder(256).to(torch.uint8)
    made = TextPictures(text)
    image, label = made[0]
    assert len(made) == 2
    assert image.shape == (1, 16, 16)
    assert (image.dtype, label.dtype, label.shape) == (torch.float32, torch.int64, ())
    assert torch.equal(image.flatten(), torch.arange(256) / 255)


def test_half_of_the_pictures_are_bright() -> None:
    _, labels = batch_of(pictures(), len(pictures()))
    assert 0.4 < labels.double().mean().item() < 0.6


def test_it_learns_which_pictures_are_bright() -> None:
    model = seeded(ConvNet)
    batch = batch_of(pictures(), 128)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    first = image_loss(model, batch).item()
    for _ in range(40):
        image_loss(model, batch).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert first > 0.5
    assert image_loss(model, batch).item() < 0.3


def test_batch_norm_tracks_what_it_sees_and_every_parameter_learns() -> None:
    model = seeded(ConvNet).double()
    images, labels = batch_of(pictures(), 8)
    image_loss(model, (images.double(), labels)).backward()
    tracked = [int(each) for name, each in model.named_buffers() if name.endswith("tracked")]
    assert tracked == [1, 1, 1]
    assert all(each.grad is not None for each in model.parameters())
