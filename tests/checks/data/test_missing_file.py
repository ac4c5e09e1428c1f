import pytest

from ddpcheck.checks.data.missing_file import Facts, judge, missing_path
from ddpcheck.finding import Finding, Location

HERE = Location("/train.py", 40, "load_index")
INDEX = "/cache/index.json"


def told(facts: dict[int, Facts]) -> list[Finding]:
    return judge(facts)


def test_what_is_on_another_host_is_named_with_it() -> None:
    (found,) = told(
        {
            0: Facts("node0", there={1: True, 2: True}),
            1: Facts("node1", INDEX, HERE, {1: False, 2: False}),
            2: Facts("node1", INDEX, HERE, {1: False, 2: False}),
        }
    )
    assert (found.ranks, found.location) == ((1, 2), HERE)
    assert f"{INDEX} of node1: it is there on node0" in found.message
    assert "LOCAL_RANK 0" in found.fix


def test_what_came_later_on_the_same_host_wants_a_barrier() -> None:
    (found,) = told(
        {
            0: Facts("node0", there={1: True}),
            1: Facts("node0", INDEX, HERE, {1: True}),
        }
    )
    assert found.ranks == (1,)
    assert "barrier" in found.fix


@pytest.mark.parametrize(
    "facts",
    [
        {0: Facts("node0"), 1: Facts("node1")},
        # A name that is wrong everywhere.
        {0: Facts("node0", there={1: False}), 1: Facts("node1", INDEX, HERE, {1: False})},
        {r: Facts("node0", INDEX, HERE, {0: False, 1: False}) for r in range(2)},
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert told(facts) == []


@pytest.mark.parametrize(
    ("error", "path"),
    [
        (FileNotFoundError(2, "No such file or directory", INDEX), INDEX),
        # What a DataLoader's worker raised comes as its text.
        (
            FileNotFoundError(
                f"Caught in worker 0.\n[Errno 2] No such file or directory: '{INDEX}'"
            ),
            INDEX,
        ),
        (RuntimeError("Parent directory runs/a does not exist."), "runs/a"),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), ""),
        (FileNotFoundError(2, "No such file or directory"), ""),
    ],
)
def test_the_path_is_read_from_what_was_raised(error: Exception, path: str) -> None:
    assert missing_path(error) == path
