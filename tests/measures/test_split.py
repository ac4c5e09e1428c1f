import msgspec
import pytest

from ddpcheck.measures.split import StepSplit

SPLIT = StepSplit(
    data_s=0.01,
    forward_s=0.02,
    backward_s=0.03,
    exposed_comm_s=0.015,
    optimizer_s=0.005,
    step_s=0.1,
    comm_s=0.06,
    steps=5,
)


def split(**changed: float) -> StepSplit:
    return msgspec.structs.replace(SPLIT, **changed)


def test_parts_are_all_of_the_step_and_each_once() -> None:
    assert SPLIT.parts_s == pytest.approx(0.08)
    assert split(comm_s=9.0, step_s=9.0).parts_s == SPLIT.parts_s
    for part in ("data_s", "forward_s", "backward_s", "exposed_comm_s", "optimizer_s"):
        assert split(**{part: getattr(SPLIT, part) + 1.0}).parts_s == pytest.approx(1.08), part


def test_shares_come_in_the_order_of_the_step() -> None:
    assert list(SPLIT.shares()) == ["data", "forward", "backward", "exposed comm", "optimizer"]
    assert SPLIT.shares() == pytest.approx(
        {"data": 0.1, "forward": 0.2, "backward": 0.3, "exposed comm": 0.15, "optimizer": 0.05}
    )


def test_shares_add_up_to_one_when_the_parts_add_up_to_the_step() -> None:
    assert sum(split(step_s=SPLIT.parts_s).shares().values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("exposed_s", "step_s", "share"),
    [(0.0, 0.1, 0.0), (0.015, 0.1, 0.15), (0.1, 0.1, 1.0), (0.0, 0.0, 0.0)],
)
def test_exposed_share(exposed_s: float, step_s: float, share: float) -> None:
    assert split(exposed_comm_s=exposed_s, step_s=step_s).exposed_share == pytest.approx(share)


@pytest.mark.parametrize(
    ("exposed_s", "comm_s", "share"),
    [
        pytest.param(0.0, 0.06, 1.0, id="all is hidden"),
        pytest.param(0.015, 0.06, 0.75, id="a quarter shows"),
        pytest.param(0.06, 0.06, 0.0, id="nothing is hidden"),
        pytest.param(0.09, 0.06, 0.0, id="it costs more than its own time"),
        pytest.param(0.0, 0.0, 0.0, id="there is none to hide"),
        pytest.param(-0.01, 0.06, 1.0, id="a clock that ran backwards"),
    ],
)
def test_overlapped_share(exposed_s: float, comm_s: float, share: float) -> None:
    assert split(exposed_comm_s=exposed_s, comm_s=comm_s).overlapped_share == pytest.approx(share)


def test_it_survives_the_report() -> None:
    plain = msgspec.to_builtins(SPLIT)
    assert msgspec.convert(plain, StepSplit) == SPLIT
