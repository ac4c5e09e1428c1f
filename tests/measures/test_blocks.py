from ddpcheck.measures.blocks import BLOCK_STEPS, Block, in_blocks, late_ranks


def test_blocks_are_means_and_the_rest_is_dropped() -> None:
    steps = [Block(float(at % 2), 0.5, 2.0) for at in range(2 * BLOCK_STEPS + 1)]
    assert in_blocks(steps) == (Block(0.5, 0.5, 2.0, BLOCK_STEPS),) * 2


def test_too_few_steps_make_no_block() -> None:
    assert in_blocks([Block(1.0, 0.0, 2.0)] * (BLOCK_STEPS - 1)) == ()


def test_bursts_of_workers_are_even_within_blocks() -> None:
    # Two workers hand two batches over at a time: every second step waits.
    slow = in_blocks([Block(0.1 * (at % 2), 0.0, 0.1) for at in range(16)])
    quick = in_blocks([Block(0.0, 0.0, 0.1)] * 16)
    (late,) = late_ranks({0: quick, 1: slow}, lambda each: each.loader_s)
    assert (late.rank, round(late.late_s, 3), late.blocks) == (1, 0.05, 1.0)


def test_only_blocks_that_all_ranks_have_are_compared() -> None:
    slow, quick = Block(0.05, 0.0, 0.06), Block(0.0, 0.0, 0.06)
    blocks = {0: [quick] * 2, 1: [slow, slow, quick, quick, quick]}
    assert [each.rank for each in late_ranks(blocks, lambda each: each.loader_s)] == [1]


def test_nobody_is_late_alone() -> None:
    assert late_ranks({0: [Block(0.5, 0.0, 0.6)] * 4}, lambda each: each.loader_s) == []
    assert late_ranks({}, lambda each: each.loader_s) == []
