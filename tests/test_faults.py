"""Each deliberate breakage in ``faults`` is found on real ranks, and only it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from real_ranks import Ended, by_hand, free_port, run, run_by_hand, target

from ddpcheck.errors import ExitCode
from ddpcheck.finding import Finding
from ddpcheck.report import RankOutcome, Verdict

REHEARSAL = ("--select", "launch,buffers,devices,gradients", "--fail-on", "warning")
RAISED = "gradients/step-raised"
DIFFER = "gradients/replicas-differ"
UNUSED = "gradients/unused-parameters"
GRADIENT = "gradients/wrong-gradient"
NO_SYNC = "gradients/no-sync-broken"
BATCHNORM = "buffers/batchnorm-not-synchronized"
DEVICE = "devices/wrong-device"
ALLREDUCE = "collectives/wrong-values"
RANKS = "launch/inconsistent-ranks"
LOST = "ranks/lost"
STALLED = "ranks/stalled"
# What a rank is in while it trains: no check has the name.
TRAINING = "rehearsal/training"


@dataclass(frozen=True)
class Fault:
    """A target with its fault: what must be found, on whom, with which words.

    ``beside`` names checks that may well find its consequences.
    """

    place: str
    id: str
    ranks: tuple[int, ...]
    words: Sequence[str]
    severity: str = "error"
    beside: Sequence[str] = ()


FAULTS = [
    Fault("weights_touched_after_wrap:main", DIFFER, (0, 1), ["head.weight"]),
    Fault("checkpoint_on_rank_zero_only:language_model", DIFFER, (0, 1), ["0.weight"]),
    Fault("unfrozen_after_wrap:detection", DIFFER, (0, 1), ["backbone.0.weight"]),
    Fault("loss_through_module:trainer", DIFFER, (0, 1), ["embed.weight"]),
    Fault(
        "layer_replaced_after_wrap:transfer",
        DIFFER,
        (0, 1),
        ["body.weight"],
        beside=[RAISED, UNUSED],
    ),
    Fault("models_of_two_shapes:experiment", RAISED, (1,), ["params[0]", "[48, 6]"]),
    Fault("batchnorm_two_samples:torchs", BATCHNORM, (0, 1), ["2 layers", "first 1"], "warning"),
    Fault(
        "batchnorm_two_samples:subclass",
        BATCHNORM,
        (0, 1),
        ["2 samples", "FrozenableBatchNorm"],
        "warning",
    ),
    Fault(
        "batchnorm_other_data_on_each_rank:regression",
        BATCHNORM,
        (0, 1),
        ["norm0", "deviations"],
        "warning",
    ),
    Fault("sync_batchnorm_on_cpu:tabular", BATCHNORM, (0, 1), ["1"], beside=[RAISED]),
    Fault("batch_on_meta:make_training", DEVICE, (1,), ["batch", "meta"], beside=[RAISED]),
    Fault(
        "parameter_left_on_meta:build_tower",
        DEVICE,
        (0, 1),
        ["second.weight", "meta"],
        beside=[RAISED],
    ),
    Fault("unused_layer:sentiment", UNUSED, (0, 1), ["pooler.weight"], beside=[RAISED]),
    Fault("layer_skipped_on_one_rank:speech", UNUSED, (1,), ["layers.0.weight"], beside=[RAISED]),
    Fault("hook_doubles_gradients:mlp", GRADIENT, (0, 1), ["0.weight"]),
    Fault("tensor_hook_scales_gradients:autoencoder", GRADIENT, (0, 1), ["0.weight"]),
    Fault("token_mean_of_unequal_ranks:finetune", GRADIENT, (0, 1), ["0.weight"], "warning"),
    Fault("no_sync_does_nothing:accumulate", NO_SYNC, (0, 1), ["no_sync"], "warning"),
    Fault("raises_on_one_rank:classification", RAISED, (1,), ["label 17", "rank 0 failed after"]),
    Fault("broken_record_on_one_rank:from_files", RAISED, (1,), ["JSONDecodeError"]),
]


def rehearse(tmp_path: Path, place: str, *options: str) -> Ended:
    return run(tmp_path / "reports", "--target", target(f"faults/{place}"), *REHEARSAL, *options)


def the_finding(ended: Ended, check_id: str) -> Finding:
    told = [each for each in ended.report.findings if each.severity != "info"]
    (finding,) = (each for each in told if each.id == check_id)
    return finding


def blamed(ended: Ended) -> set[int]:
    """Return the ranks that errors name: never one that only says what another did to it."""
    told = [each for each in ended.report.findings if each.severity == "error"]
    return {rank for each in told for rank in each.ranks}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.place)
def test_fault_is_found_and_only_it(fault: Fault, tmp_path: Path) -> None:
    ended = rehearse(tmp_path, fault.place)
    assert set(ended.found()) - set(fault.beside) == {fault.id}
    finding = the_finding(ended, fault.id)
    assert (finding.severity, finding.ranks) == (fault.severity, fault.ranks)
    told = f"{finding.message} {finding.evidence} {finding.fix}"
    assert [word for word in fault.words if word not in told] == []
    has_error = "error" in ended.found().values()
    assert ended.report.verdict == (Verdict.FAIL if has_error else Verdict.WARN)
    assert ended.exit_code == ExitCode.FINDINGS
    assert ended.took_s < 20


def test_loss_that_is_nan_on_one_rank_does_not_pass(tmp_path: Path) -> None:
    ended = rehearse(tmp_path, "nan_on_one_rank:regression")
    assert ended.found() != {}
    assert 1 in {rank for each in ended.report.findings for rank in each.ranks}
    assert ended.exit_code == ExitCode.FINDINGS


@pytest.mark.parametrize(
    ("place", "call", "function"),
    [
        ("raises_on_one_rank:classification", "raise ValueError", "check_labels"),
        pytest.param(
            "broken_record_on_one_rank:from_files",
            "json.loads",
            "__getitem__",
        ),
    ],
)
def test_line_that_raised_is_the_users(
    place: str, call: str, function: str, tmp_path: Path
) -> None:
    ended = rehearse(tmp_path, place)
    location = the_finding(ended, RAISED).location
    assert location is not None
    source = Path(location.file)
    assert source.name == f"{place.partition(':')[0]}.py"
    assert call in source.read_text().splitlines()[location.line - 1]
    assert location.function == function


def test_line_is_found_in_a_folder_that_is_called_like_a_library(tmp_path: Path) -> None:
    folder = tmp_path / "ddpcheck" / "torch"
    folder.mkdir(parents=True)
    fault = Path(__file__).parent / "faults" / "loss_of_another_shape.py"
    copy = folder / fault.name
    copy.write_bytes(fault.read_bytes())
    ended = run(tmp_path / "reports", "--target", f"{copy}:build", "--select", RAISED)
    location = the_finding(ended, RAISED).location
    assert location is not None
    assert (location.file, location.function) == (str(copy), "forward")


@pytest.mark.parametrize(
    ("place", "dtype"),
    [
        ("allreduce_wrong_tail_in_bf16:factory", "bfloat16"),
        ("allreduce_forgets_odd_tail:build", "float32"),
    ],
)
def test_wrong_element_of_an_allreduce_is_named(place: str, dtype: str, tmp_path: Path) -> None:
    ended = run(
        tmp_path / "reports",
        *("--target", target(f"faults/{place}")),
        *("--select", f"{ALLREDUCE},{RAISED}"),
    )
    assert ended.found() == {ALLREDUCE: "error"}
    finding = the_finding(ended, ALLREDUCE)
    assert finding.ranks == (1,)
    seen = dict(finding.evidence)
    assert seen["dtype"] == dtype
    assert seen["index"] == int(str(seen["size"])) - 1
    assert seen["expected"] != seen["got"]
    for word in ("rank 1", dtype, f"element {seen['index']} is", "expected"):
        assert word in finding.message
    assert ended.exit_code == ExitCode.FINDINGS


@pytest.mark.parametrize(
    ("place", "reason"),
    [("exits", "left with exit code 3"), ("killed", "was ended by SIGKILL")],
)
def test_rank_that_dies_is_lost(place: str, reason: str, tmp_path: Path) -> None:
    ended = rehearse(tmp_path, f"dies_in_second_step:{place}", "--deadline", "10")
    assert ended.exit_code == ExitCode.INCOMPLETE
    assert ended.report.verdict == Verdict.INCOMPLETE
    victim, culprit = ended.report.ranks
    assert (culprit.outcome, victim.outcome) == (RankOutcome.LOST, RankOutcome.OK)
    assert culprit.reason == f"{reason} in {TRAINING}"
    assert victim.reason.startswith("waited for rank 1 in rehearsal/")
    assert the_finding(ended, LOST).ranks == (1,)
    assert reason in the_finding(ended, LOST).message
    assert blamed(ended) == {1}
    assert ended.took_s < 15


def test_rank_that_sleeps_is_stalled_and_shows_where(tmp_path: Path) -> None:
    ended = rehearse(tmp_path, "sleeps_in_second_step:offline", "--deadline", "3")
    assert ended.exit_code == ExitCode.INCOMPLETE
    victim, culprit = ended.report.ranks
    assert (culprit.outcome, victim.outcome) == (RankOutcome.STALLED, RankOutcome.OK)
    assert culprit.reason == f"overran its deadline in {TRAINING}"
    assert victim.reason.startswith("waited for rank 1 in rehearsal/")
    assert culprit.last_seen is not None
    assert culprit.last_seen.check == TRAINING
    assert "wait_for_features" in culprit.last_seen.stack
    assert "sleeps_in_second_step.py" in culprit.last_seen.stack
    assert the_finding(ended, STALLED).ranks == (1,)
    assert blamed(ended) == {1}


def test_rank_that_sleeps_before_its_first_check_is_stalled_too(tmp_path: Path) -> None:
    ended = rehearse(tmp_path, "sleeps_while_imported:offline", "--deadline", "3")
    assert ended.exit_code == ExitCode.INCOMPLETE
    victim, culprit = ended.report.ranks
    assert (culprit.outcome, victim.outcome) == (RankOutcome.STALLED, RankOutcome.OK)
    assert culprit.last_seen is not None
    assert "wait_for_mount" in culprit.last_seen.stack
    assert blamed(ended) == {1}


ONCE = "start each RANK of 0..WORLD_SIZE-1 once, on every node; a second job needs its own port"
CORRECT = "start the ranks with torchrun, or correct the launch script; a port is 1..65535"
HEALTHY = ("--target", target("clean/ways_to_train:subclass"), "--select", "launch,gradients")


def start(tmp_path: Path, ids: Sequence[tuple[int, int]], *options: str) -> Ended:
    """Start a process by hand for each pair of RANK and WORLD_SIZE."""
    port = free_port()
    environments = [by_hand(rank, world_size, port) for rank, world_size in ids]
    return run_by_hand(tmp_path / "reports", environments, *HEALTHY, *options)


def test_processes_started_by_hand_are_ranks(tmp_path: Path) -> None:
    ended = start(tmp_path, [(0, 2), (1, 2)], "--fail-on", "warning")
    assert ended.exit_codes == (ExitCode.OK, ExitCode.OK)
    assert ended.found() == {}
    assert ended.stdout.count("verdict: PASS") == 1


@pytest.mark.parametrize(
    ("ids", "ranks", "words", "fix"),
    [
        ([(0, 2), (0, 2)], (0,), ["RANK claimed more than once"], ONCE),
        ([(1, 2), (1, 2)], (1,), ["RANK claimed more than once"], ONCE),
        ([(0, 3), (1, 3)], (2,), ["WORLD_SIZE is 3", "missing: rank 2"], ONCE),
        ([(0, 3), (2, 3)], (1,), ["WORLD_SIZE is 3", "missing: rank 1"], ONCE),
        ([(0, 2), (2, 2)], (2,), ["RANK is not below WORLD_SIZE (2)"], ONCE),
        ([(0, 3), (1, 2)], (0, 1), ["WORLD_SIZE 3 on rank 0", "WORLD_SIZE 2 on rank 1"], CORRECT),
    ],
    ids=[
        "two are rank 0",
        "two are rank 1",
        "one is missing",
        "a gap",
        "beyond",
        "two world sizes",
    ],
)
def test_ranks_that_do_not_fit_together_are_named(
    ids: Sequence[tuple[int, int]],
    ranks: tuple[int, ...],
    words: Sequence[str],
    fix: str,
    tmp_path: Path,
) -> None:
    ended = start(tmp_path, ids, "--deadline", "3")
    assert ended.found() == {RANKS: "error"}
    finding = the_finding(ended, RANKS)
    assert finding.ranks == ranks
    assert [word for word in words if word not in finding.message] == []
    assert finding.fix == fix
    assert ended.exit_codes == (ExitCode.INCOMPLETE, ExitCode.INCOMPLETE)
    assert ended.report.verdict == Verdict.INCOMPLETE
    assert ended.stdout.count("verdict:") == 1
