import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from contexts import context_with
from torch._C._distributed_c10d import HashStore, TCPStore

from ddpcheck.check import Meeting, Skip
from ddpcheck.checks.environment import clock_offset
from ddpcheck.checks.environment.clock_offset import Facts, judge, probe


def facts_of(world: int, *, absent: int = 0) -> list[Facts | str]:
    def run(rank: int) -> Facts | str:
        context = context_with(
            rank=rank,
            world_size=world,
            host=f"node{rank}",
            store=stores[rank],
            timeout=timedelta(seconds=10 if not absent else 0.2),
        )
        try:
            return probe(context)
        except Skip as skip:
            return str(skip)

    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    stores = [TCPStore("127.0.0.1", server.port, wait_for_workers=False) for _ in range(world)]
    with ThreadPoolExecutor(world) as pool:
        return list(pool.map(run, range(world - absent)))


def test_ranks_meet_and_agree() -> None:
    began_s = time.time()
    told = facts_of(4)
    facts = {rank: own for rank, own in enumerate(told) if isinstance(own, Facts)}
    assert len(facts) == 4
    assert all(began_s <= own.earliest_s <= own.latest_s for own in facts.values())
    # One clock: there is a moment that all of them agree on.
    assert max(f.earliest_s for f in facts.values()) <= min(f.latest_s for f in facts.values())
    assert judge(facts) == []


def test_a_rank_that_stays_away_holds_nobody_up() -> None:
    assert facts_of(3, absent=1) == ["the ranks did not come together"] * 2


def test_without_a_store_or_a_meeting_it_is_skipped() -> None:
    with pytest.raises(Skip, match="no store"):
        probe(context_with())
    store = HashStore()
    with pytest.raises(Skip, match="cannot meet"):
        probe(context_with(store=store, meeting=Meeting("here:1", 1.0, error="no route")))
    assert probe(context_with(store=store)).host == "node0"
    assert store.check([f"{clock_offset.KEYS}/first/go"])
