import msgspec
import pytest

from ddpcheck.checks.launch.inconsistent_ranks import Facts, judge
from ddpcheck.finding import Confidence, Severity

Ranks = dict[int, Facts]


def one(seat: int, host: str, variables: dict[str, object]) -> Facts:
    told = {name: str(value) for name, value in variables.items() if value is not None}
    return Facts(seat, host, 100 + seat, told)


def torchrun(world: int, hosts: int = 1, **changed: object) -> Ranks:
    """Return what torchrun tells ``world`` ranks, evenly on ``hosts``; all with ``changed``."""
    local = world // hosts
    return {
        rank: one(
            rank,
            f"node{rank // local}",
            {
                "RANK": rank,
                "WORLD_SIZE": world,
                "MASTER_ADDR": "node0",
                "MASTER_PORT": 29500,
                "LOCAL_RANK": rank % local,
                "LOCAL_WORLD_SIZE": local,
                "GROUP_RANK": rank // local,
            }
            | changed,
        )
        for rank in range(world)
    }


def by_hand(world: int, hosts: int = 1, **changed: object) -> Ranks:
    return torchrun(world, hosts, GROUP_RANK=None, **changed)


def but(ranks: Ranks, seat: int, **changed: object) -> Ranks:
    old = ranks[seat]
    return ranks | {seat: one(seat, old.host, old.variables | changed)}


def on_host(ranks: Ranks, host: str) -> Ranks:
    return {seat: msgspec.structs.replace(own, host=host) for seat, own in ranks.items()}


def seeing(ranks: Ranks, gpus: int) -> Ranks:
    return {seat: msgspec.structs.replace(own, gpus=gpus) for seat, own in ranks.items()}


def without(ranks: Ranks, *gone: int) -> Ranks:
    return {seat: own for seat, own in ranks.items() if seat not in gone}


def without_locals(world: int, hosts: int = 1) -> Ranks:
    return by_hand(world, hosts, LOCAL_RANK=None, LOCAL_WORLD_SIZE=None)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(torchrun(1), id="one rank"),
        pytest.param(torchrun(2), id="two ranks"),
        pytest.param(torchrun(16, hosts=2), id="16 ranks on 2 hosts"),
        pytest.param(by_hand(16, hosts=2), id="16 ranks by hand"),
        pytest.param(on_host(torchrun(4, hosts=2), "box"), id="two agents on one host"),
        pytest.param(on_host(by_hand(4, hosts=2), "box"), id="two containers of one host name"),
        pytest.param(on_host(by_hand(2, hosts=2), "box"), id="two namespaces, one rank each"),
        pytest.param(but(torchrun(2), 1, MASTER_ADDR="NODE0"), id="host names ignore case"),
        pytest.param(torchrun(2, MASTER_PORT=65535), id="the highest port"),
        pytest.param(torchrun(2, WORLD_SIZE="02"), id="a leading zero"),
        pytest.param(torchrun(1024, hosts=128), id="1024 ranks"),
    ],
)
def test_silent(facts: Ranks) -> None:
    assert judge(facts) == []


def test_agents_of_different_sizes_are_silent() -> None:
    small = torchrun(3)
    facts = but(small, 2, LOCAL_RANK=0, LOCAL_WORLD_SIZE=1, GROUP_RANK=1)
    facts = but(but(facts, 0, LOCAL_WORLD_SIZE=2), 1, LOCAL_WORLD_SIZE=2)
    assert judge(facts) == []


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(without_locals(1), id="one rank on a CPU"),
        pytest.param(without_locals(16, hosts=2), id="16 ranks on CPUs"),
        pytest.param(seeing(without_locals(2, hosts=2), 1), id="a PyTorchJob, one GPU a pod"),
        pytest.param(seeing(by_hand(8, LOCAL_WORLD_SIZE=None), 8), id="who chooses by LOCAL_RANK"),
    ],
)
def test_ranks_by_hand_without_local_variables_are_no_more_than_information(facts: Ranks) -> None:
    (finding,) = judge(facts)
    assert finding.severity is Severity.INFO
    assert finding.ranks == tuple(range(len(facts)))


def test_ranks_that_see_several_gpus_and_have_no_local_rank_are_a_warning() -> None:
    (finding,) = judge(seeing(without_locals(2), 2))
    assert finding.severity is Severity.WARNING


def test_two_names_of_an_address_at_which_all_have_met_are_information() -> None:
    (finding,) = judge(but(torchrun(4), 2, MASTER_ADDR="10.0.0.1"))
    assert (finding.severity, finding.ranks) == (Severity.INFO, (2,))
    assert "10.0.0.1" in finding.message


@pytest.mark.parametrize(
    ("facts", "ranks", "words"),
    [
        pytest.param(but(torchrun(2), 1, RANK=None), (1,), ["RANK", "not set"], id="no RANK"),
        pytest.param(
            but(torchrun(2), 1, WORLD_SIZE=None, MASTER_ADDR=None, MASTER_PORT=None),
            (1,),
            ["WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "node0"],
            id="three variables unset are one finding",
        ),
        pytest.param(but(torchrun(2), 1, RANK="one"), (1,), ["RANK", "'one'"], id="RANK is a word"),
        pytest.param(but(torchrun(2), 1, RANK=-1), (1,), ["'-1'"], id="RANK is negative"),
        pytest.param(torchrun(2, WORLD_SIZE=0), (0, 1), ["'0'"], id="WORLD_SIZE is 0"),
        pytest.param(torchrun(2, WORLD_SIZE="2.0"), (0, 1), ["'2.0'"], id="WORLD_SIZE is a float"),
        pytest.param(torchrun(1, MASTER_PORT=66660), (0,), ["66660"], id="port above 65535"),
        pytest.param(torchrun(2, MASTER_PORT=0), (0, 1), ["'0'"], id="port 0"),
        pytest.param(
            but(torchrun(16, hosts=2), 9, WORLD_SIZE=17),
            (9,),
            ["17", "node1"],
            id="WORLD_SIZE typo",
        ),
        pytest.param(
            but(torchrun(4), 3, WORLD_SIZE=2),
            (3,),
            ["WORLD_SIZE 2"],
            id="WORLD_SIZE too small on one",
        ),
        pytest.param(
            but(torchrun(2), 1, WORLD_SIZE=3),
            (0, 1),
            ["WORLD_SIZE"],
            id="of two ranks, who is right?",
        ),
        pytest.param(
            but(but(torchrun(2), 0, MASTER_PORT=31064), 1, MASTER_PORT=31071),
            (0, 1),
            ["31064", "31071"],
            id="each chose a port of its own",
        ),
        pytest.param(
            but(torchrun(4), 2, MASTER_PORT=29501, MASTER_ADDR="node7", WORLD_SIZE=8),
            (2,),
            ["29501", "node7", "8"],
            id="a process of another job is one finding",
        ),
        pytest.param(torchrun(2, RANK=0), (0,), ["pid 100", "pid 101"], id="RANK 0 twice"),
        pytest.param(
            but(torchrun(4), 3, RANK=2, LOCAL_RANK=2), (2,), ["more than once"], id="RANK 2 twice"
        ),
        pytest.param(
            but(torchrun(2), 1, RANK=2), (2,), ["WORLD_SIZE (2)", "node0"], id="RANK is WORLD_SIZE"
        ),
        pytest.param(
            torchrun(2, WORLD_SIZE=3), (2,), ["WORLD_SIZE is 3", "2 processes"], id="2 of 3 came"
        ),
        pytest.param(without(torchrun(4), 1, 2), (1, 2), ["2 processes"], id="a gap"),
        pytest.param(
            without(torchrun(16, hosts=2), *range(8, 16)),
            tuple(range(8, 16)),
            ["8-15"],
            id="no node1",
        ),
        pytest.param(
            torchrun(1, WORLD_SIZE=900_000_000),
            tuple(range(1, 1025)),
            ["1-1024, ..."],
            id="a wrong million",
        ),
        pytest.param(by_hand(2, LOCAL_RANK=0), (0, 1), ["0 of 2, 0 of 2"], id="LOCAL_RANK twice"),
        pytest.param(
            but(but(by_hand(4, hosts=2), 2, LOCAL_RANK=2), 3, LOCAL_RANK=3),
            (2, 3),
            ["2 of 2, 3 of 2", "node1"],
            id="LOCAL_RANK counts over all hosts",
        ),
    ],
)
def test_error_is_one_finding_that_names_the_ranks(
    facts: Ranks, ranks: tuple[int, ...], words: list[str]
) -> None:
    (finding,) = judge(facts)
    assert finding.severity is Severity.ERROR
    assert finding.ranks == ranks
    assert [word for word in words if word not in finding.message] == []


@pytest.mark.parametrize(
    ("facts", "ranks"),
    [
        pytest.param(by_hand(2, LOCAL_WORLD_SIZE=4), (0, 1), id="LOCAL_WORLD_SIZE is too large"),
        pytest.param(
            but(by_hand(4), 3, LOCAL_WORLD_SIZE=8), (0, 1, 2, 3), id="LOCAL_WORLD_SIZE differs"
        ),
        pytest.param(but(torchrun(2), 1, LOCAL_RANK="a"), (1,), id="LOCAL_RANK is a word"),
    ],
)
def test_what_may_be_meant_is_a_warning(facts: Ranks, ranks: tuple[int, ...]) -> None:
    (finding,) = judge(facts)
    assert finding.severity is Severity.WARNING
    assert finding.confidence is Confidence.MEDIUM
    assert finding.ranks == ranks


def test_two_causes_are_two_findings() -> None:
    facts = but(but(torchrun(4), 1, MASTER_PORT=1234), 3, RANK=0)
    assert [finding.ranks for finding in judge(facts)] == [(1,), (0,)]
