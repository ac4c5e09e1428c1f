import pytest

from ddpcheck.checks.checkpoint.parts_apart import Facts, Part, judge
from ddpcheck.finding import Location

HERE = Location("/train.py", 70, "save")


def part(path: str, *, leads: bool = False, has_index: bool = True) -> Facts:
    return Facts((Part(path, leads, HERE, has_index),))


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: part("/c", leads=True), 1: part("/c")}, id="one folder"),
        pytest.param(
            {0: part("/c", leads=True, has_index=False), 1: part("/c", has_index=False)},
            id="removed since",
        ),
        pytest.param(
            {r: part(f"/c{r}", leads=True, has_index=r == 0) for r in range(2)},
            id="each by itself",
        ),
        pytest.param({0: Facts(()), 1: Facts(())}, id="none"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_a_folder_for_each_rank() -> None:
    (found,) = judge({0: part("/c/0", leads=True), 1: part("/c/1", has_index=False)})
    assert (found.ranks, found.location) == ((1,), HERE)
    assert "/c/1" in found.message
    assert "broadcast_object_list" in found.fix


def test_a_disk_for_each_host() -> None:
    lost = part("/c", has_index=False)
    (found,) = judge({0: part("/c", leads=True), 1: part("/c"), 2: lost, 3: lost})
    assert found.ranks == (2, 3)
    assert "share" in found.fix


def test_a_line_is_told_of_once() -> None:
    many = {r: Facts(part(f"/c/{r}", leads=r == 0, has_index=r == 0).parts * 3) for r in range(2)}
    assert len(judge(many)) == 1
