import pytest
from contexts import context_with

from ddpcheck.checks.launch.conflicting_launchers import Facts, judge, probe, summarize
from ddpcheck.finding import Severity
from ddpcheck.launch.claims import Claim


def said(*each: tuple[str, str, str, str]) -> list[Claim]:
    return [Claim(launcher, rank, size, local) for launcher, rank, size, local in each]


def ranks(*claims: list[Claim]) -> dict[int, Facts]:
    return {rank: Facts("node0", each) for rank, each in enumerate(claims)}


def test_another_number_of_ranks_is_a_warning_that_names_both() -> None:
    facts = ranks(
        said(("environment", "0", "2", "0"), ("slurm", "0", "4", "0")),
        said(("environment", "1", "2", "1"), ("slurm", "1", "4", "1")),
    )
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0, 1))
    assert "2 by torch's variables, 4 by slurm" in finding.message
    assert "RANK, WORLD_SIZE and LOCAL_RANK" in finding.fix


@pytest.mark.parametrize(("rank", "local"), [("3", "0"), ("0", "1")])
def test_another_order_may_be_meant(rank: str, local: str) -> None:
    facts = ranks(said(("environment", "0", "4", "0"), ("slurm", rank, "4", local)))
    (finding,) = judge(facts)
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    "claims",
    [
        pytest.param([], id="nobody says anything"),
        pytest.param(said(("torchrun", "0", "2", "0")), id="one"),
        pytest.param(
            said(("environment", "0", "2", "0"), ("slurm", "0", "2", "0")), id="two that agree"
        ),
        pytest.param(
            said(("environment", "00", "2", ""), ("openmpi", "0", "02", "0")), id="as numbers"
        ),
        pytest.param(
            said(("environment", "x", "2", "0"), ("slurm", "0", "2", "0")),
            id="what is no number is for another check",
        ),
    ],
)
def test_silent(claims: list[Claim]) -> None:
    assert judge(ranks(claims)) == []


def test_many_ranks_make_one_finding_of_one_line() -> None:
    each = (said(("environment", "0", "2", "0"), ("slurm", str(r), "4", "0")) for r in range(1000))
    found = judge(ranks(*each))[0]
    assert "and 992 more" in found.message


def nested(nodes: int, local: int) -> dict[int, Facts]:
    """Return the ranks that a script started in one task of srun a node."""
    world = str(nodes * local)
    return ranks(
        *(
            said(
                ("environment", str(r), world, str(r % local)),
                ("slurm", f"{r // local}", str(nodes), "0"),
            )
            for r in range(nodes * local)
        )
    )


@pytest.mark.parametrize(("nodes", "local"), [(2, 8), (64, 2), (3, 1)])
def test_ranks_that_a_task_of_srun_started_have_its_number_and_their_own(
    nodes: int, local: int
) -> None:
    facts = nested(nodes, local)
    assert judge(facts) == []
    assert len(facts[0].claims) == 2


def test_one_task_may_start_more_ranks_than_another() -> None:
    facts = nested(2, 2)
    assert judge({rank: facts[rank] for rank in (0, 1, 2)}) == []


def test_the_environment_is_read() -> None:
    environ = {"RANK": "0", "WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}
    environ |= {"OMPI_COMM_WORLD_SIZE": "4"}
    facts = {0: probe(context_with(environ=environ))}
    assert [each.launcher for each in facts[0].claims] == ["environment", "openmpi"]
    assert len(judge(facts)) == 1


@pytest.mark.parametrize(
    ("launcher", "words"),
    [("slurm", "started by slurm"), ("environment", "started with torch's own variables")],
)
def test_who_started_the_ranks_is_told(launcher: str, words: str) -> None:
    assert summarize(ranks(said((launcher, "0", "2", "0")))) == words
