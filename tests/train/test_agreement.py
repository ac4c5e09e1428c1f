from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from torch.distributed.distributed_c10d import Store
from torch.distributed.rendezvous import rendezvous

from ddpcheck.errors import DdpcheckError, ExitCode, GateError, UsageError
from ddpcheck.launch.identity import Identity
from ddpcheck.train.agreement import Decide, Hello, agree, require_alike
from ddpcheck.train.planning import Misfit, Plan
from ddpcheck.train.recipe import Recipe
from ddpcheck.train.together import EveryRankError

RECIPE = Recipe(
    strategy="tp", backend="gloo", device="cpu", bucket_cap_mb=12.5, mesh={"dp": 2, "tp": 2}
)
PLAN = Plan(
    asked=RECIPE,
    recipes=(RECIPE,),
    misfits=(Misfit(strategy="pp", mesh={"pp": 4}, reason="too few layers"),),
)


def who(rank: int) -> Identity:
    return Identity(
        rank=rank,
        local_rank=rank,
        world_size=2,
        host=f"node{rank}",
        master_addr="localhost",
        master_port=1,
        launcher="torchrun",
        store_is_hosted=True,
        attempt="0",
    )


def store_in(folder: Path, rank: int, timeout: timedelta) -> Store:
    store: Store = next(rendezvous(f"file://{folder}/store?rank={rank}&world_size=2"))[0]
    store.set_timeout(timeout)
    return store


def hello(rank: int, text: str = "9:1", error: str = "") -> Hello:
    code = ExitCode.USAGE if error else ExitCode.OK
    return Hello(host=f"node{rank}", gpu=False, text=text, error=error, exit_code=code)


def outcomes(folder: Path, decide: Decide, ranks: int = 2) -> list[Plan | DdpcheckError]:
    """Return what each of the first ``ranks`` of two ranks gets from agreeing."""
    timeout = timedelta(seconds=20 if ranks == 2 else 0.2)

    def take_part(rank: int) -> Plan | DdpcheckError:
        try:
            return agree(store_in(folder, rank, timeout), who(rank), hello(rank), decide)
        except DdpcheckError as error:
            return error

    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(take_part, range(ranks)))


def test_rank_zero_decides_for_all(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def decide(hellos: Mapping[int, Hello]) -> Plan:
        seen.append([each.host for each in hellos.values()])
        return PLAN

    assert outcomes(tmp_path, decide) == [PLAN, PLAN]
    assert seen == [["node0", "node1"]]


def test_a_refusal_reaches_every_rank(tmp_path: Path) -> None:
    def decide(_: Mapping[int, Hello]) -> Plan:
        raise GateError("the verdict is FAIL")

    for outcome in outcomes(tmp_path, decide):
        assert isinstance(outcome, EveryRankError)
        assert str(outcome) == "the verdict is FAIL"
        assert outcome.exit_code is ExitCode.FINDINGS


def test_a_rank_that_does_not_come_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ddpcheck.train.agreement.FAREWELL", timedelta(seconds=0.1))
    (outcome,) = outcomes(tmp_path, lambda _: PLAN, ranks=1)
    assert isinstance(outcome, EveryRankError)
    assert str(outcome).startswith("rank 1 did not come")
    assert outcome.exit_code is ExitCode.INCOMPLETE


def test_ranks_that_are_ready_and_alike_may_go_on() -> None:
    require_alike({0: hello(0), 1: hello(1)})


def test_a_rank_that_is_not_ready_is_named() -> None:
    with pytest.raises(EveryRankError, match="rank 1 on node1: no text") as caught:
        require_alike({0: hello(0), 1: hello(1, error="no text")})
    assert caught.value.exit_code is ExitCode.USAGE


def test_ranks_with_another_text_are_named() -> None:
    with pytest.raises(UsageError, match="ranks 1, 2 have another training text"):
        require_alike({0: hello(0), 1: hello(1, "9:2"), 2: hello(2, "9:2"), 3: hello(3)})
