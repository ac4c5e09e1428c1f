import pytest

from ddpcheck.checks.collectives.wrong_in_mesh import Facts, judge, summarize
from ddpcheck.finding import Severity
from ddpcheck.measures.along_mesh import Along
from ddpcheck.measures.mesh import groups_along, parse_mesh
from ddpcheck.measures.wrong_elements import Compared, Wrong

AXES = parse_mesh("dp=2,tp=2")
RIGHT = Compared("gloo", 12, 1000)
WRONG = Compared(
    backend="gloo",
    cases=12,
    elements=1000,
    wrong_cases={"all_reduce": 1},
    wrong=(Wrong("all_reduce", "float32", "SUM", 7, "contiguous", "async", 6, 5.0, 4.0, 1),),
)


def ranks(alone: dict[str, int], at_once: dict[str, int]) -> dict[int, Facts]:
    """Return four ranks; the arguments say which rank is wrong along an axis."""
    found: dict[int, Facts] = {}
    for rank in range(4):
        along = []
        for axis in AXES:
            (group,) = (each for each in groups_along(AXES, axis.name) if rank in each)
            along.append(
                Along(
                    axis=axis.name,
                    ranks=group,
                    alone=WRONG if alone.get(axis.name) == rank else RIGHT,
                    at_once=WRONG if at_once.get(axis.name) == rank else RIGHT,
                    size_bytes=2**20,
                    took_s=0.001 * (rank + 1),
                )
            )
        found[rank] = Facts(tuple(along))
    return found


def test_right_groups_are_silent() -> None:
    assert judge(ranks({}, {})) == []


@pytest.mark.parametrize(("axis", "rank"), [("dp", 0), ("tp", 3)])
def test_an_axis_that_is_wrong_alone(axis: str, rank: int) -> None:
    (finding,) = judge(ranks({axis: rank}, {axis: rank}))
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (rank,))
    assert finding.title == f"all_reduce gives wrong values on 1 of 4 ranks along {axis}"
    assert "element 6 is 4, expected 5" in finding.message


def test_an_axis_that_is_wrong_only_while_others_are_at_work() -> None:
    (finding,) = judge(ranks({}, {"tp": 2}))
    assert finding.ranks == (2,)
    assert finding.title.endswith("along tp while the other axes are at work")


def test_two_axes_are_two_findings() -> None:
    assert [each.ranks for each in judge(ranks({"dp": 1}, {"tp": 2}))] == [(1,), (2,)]


def test_summary_has_the_slowest_group_of_each_axis() -> None:
    # 1 MiB in 4 ms, and an all-reduce of two ranks has a factor of 1.
    assert summarize(ranks({}, {})) == "dp 2: 0.26 GB/s, tp 2: 0.26 GB/s"
