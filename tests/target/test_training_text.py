from pathlib import Path

import pytest
import torch

from ddpcheck.errors import TargetError
from ddpcheck.target import text as text_module
from ddpcheck.target.text import MINIMUM_BYTES, TextBlocks, read_text


def test_without_a_file_the_text_is_the_standard_library() -> None:
    text = read_text("", limit_bytes=100_000)
    assert text.dtype is torch.uint8
    assert text.shape == (100_000,)
    assert torch.equal(text, read_text("", limit_bytes=100_000))


def test_a_file_is_read_as_it_is_up_to_the_limit(tmp_path: Path) -> None:
    content = bytes(range(256)) * 40
    file = tmp_path / "text"
    file.write_bytes(content)
    assert read_text(str(file)).tolist() == list(content)
    assert read_text(str(file), limit_bytes=5000).tolist() == list(content[:5000])


@pytest.mark.parametrize("name", ["missing", "."])
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(TargetError, match="cannot read the training text") as caught:
        read_text(str(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_a_short_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "short"
    file.write_bytes(b"x" * (MINIMUM_BYTES - 1))
    with pytest.raises(TargetError, match="holds 4095 bytes"):
        read_text(str(file))


def test_a_python_without_sources_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "standard_library", list[Path])
    with pytest.raises(TargetError, match=r"standard library in .* holds 0 bytes"):
        read_text("")


def test_blocks_share_no_byte_and_leave_out_the_rest() -> None:
    blocks = TextBlocks(torch.arange(11, dtype=torch.uint8), block=4)
    assert len(blocks) == 2
    assert blocks[0].dtype is torch.int64
    assert [block.tolist() for block in (blocks[0], blocks[1])] == [
        [0, 1, 2, 3, 4],
        [5, 6, 7, 8, 9],
    ]
