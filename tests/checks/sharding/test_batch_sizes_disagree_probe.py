"""What DeepSpeed refuses, as the script raises it."""

from contexts import context_with

from ddpcheck.checks.sharding.batch_sizes_disagree import Facts, Observer, judge, summarize
from ddpcheck.finding import Severity

# What DeepSpeed raises (runtime/config.py, _batch_assertion), as in its issue 6914.
SAID = (
    "Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * "
    "gradient_acc_step * world_size 256 != 4 * 8 * 1"
)


def seen(error: Exception, world_size: int = 8) -> dict[int, Facts]:
    observer = Observer(context_with(watches=True, world_size=world_size))
    observer.on_raise(0, error)
    return dict.fromkeys(range(world_size), observer.facts())


def test_another_error_is_none_of_it() -> None:
    facts = seen(AssertionError("train_batch_size must be positive"))
    assert judge(facts) == []
    assert summarize(facts) == "DeepSpeed refused no configuration"


def test_one_rank_seen_of_eight() -> None:
    (finding,) = judge(seen(AssertionError(SAID)))
    assert (finding.severity, finding.ranks) == (Severity.ERROR, tuple(range(8)))
    assert "256, and not 4 a GPU x 8 accumulated x 1 ranks; it saw 1 of the 8" in finding.message
    assert "init_distributed" in finding.fix


def test_a_size_for_another_number_of_ranks() -> None:
    (finding,) = judge(seen(AssertionError(SAID.replace("* 1", "* 2")), world_size=2))
    assert "it saw" not in finding.message
    assert "set train_batch_size to 64 for 2 ranks" in finding.fix
