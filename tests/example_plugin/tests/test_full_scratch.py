from ddpcheck_example.environment.full_scratch import LEAST_BYTES, Facts, judge, summarize


def ranks(*free_bytes: int) -> dict[int, Facts]:
    return {rank: Facts(f"node{rank}", "/scratch", free) for rank, free in enumerate(free_bytes)}


def test_enough_room_is_no_finding() -> None:
    assert judge(ranks(LEAST_BYTES, 2 * LEAST_BYTES)) == []


def test_the_host_with_too_little_is_named() -> None:
    (finding,) = judge(ranks(2 * LEAST_BYTES, 7))
    assert finding.ranks == (1,)
    assert "/scratch on node1: 7 bytes are free" in finding.message
    assert "on node1" in finding.fix


def test_summary() -> None:
    assert summarize(ranks(9, 7)) == "7 bytes free at least"
