from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddpcheck.measures.inquest import CULPRITS, Kind, inquest, is_deadlock
from ddpcheck.measures.testimony import Call, State, Testimony

Ranks = dict[int, Testimony]

CHECK = "collectives/wrong-values"
TRAINING = "rehearsal/training"
MEETING = "rehearsal/meeting-after-the-training"
JOINING = "collectives/joining-the-group"
SITE = "app/train.py:41"
REDUCE = "all_reduce SUM float32[1000]"
GATHER = "all_gather float32[1000]"
SHORT = "all_reduce SUM float32[990]"
BYTES = "all_reduce SUM int8[1000]"
# So many calls a black box and torch's recorder keep.
KEPT = 64

OWN = "ValueError: Expected input batch_size (3) to match target batch_size (4)."
MEMORY = "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
PEER = "RuntimeError: [pair.cc:553] Connection closed by peer [10.0.0.7]:7605"
RESET = "RuntimeError: [pair.cc:299] writev [10.0.0.7]:7605: Connection reset by peer"
LATE = "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 60000ms for recv operation"
OTHER_SIZE = "RuntimeError: [pair.cc:455] op.preamble.length <= op.nbytes. 4200 vs 4000"
REMOTE = "DistBackendError: NCCL error: remote process exited or there was a network error"
UNREACHED = (
    "DistNetworkError: The client socket has timed out after 60000ms "
    "while trying to connect to (10.0.0.1, 29500)."
)
WATCHDOG = (
    "DistBackendError: [Rank 0] Watchdog caught collective operation timeout: WorkNCCL"
    "(SeqNum=1580, OpType=ALLREDUCE) ran for 600004 milliseconds before timing out."
)
DOWNLOAD = (
    "ConnectionError: ('Connection aborted.', "
    "ConnectionResetError(104, 'Connection reset by peer'))"
)


def as_ever(number: int) -> str:
    """Return the collective of that number of a training whose buckets differ in size."""
    return f"all_reduce SUM float32[{1000 + number % 5}]"


def made(count: int, what: str = REDUCE, *, pending: bool = False) -> tuple[Call, ...]:
    """Return the last of ``count`` calls; ``pending``: it is inside the last one."""
    kept = range(max(1, count - KEPT + 1), count + 1)
    return tuple(Call(each, what, SITE, done=each < count or not pending) for each in kept)


def steps(count: int, *, skipped: int = 0, pending: bool = False) -> tuple[Call, ...]:
    """Return the last of ``count`` calls of such a training, one of which may be left out."""
    kept = range(max(1, count - KEPT + 1), count + 1)
    return tuple(
        Call(
            each,
            as_ever(each + (0 < skipped <= each)),
            SITE,
            done=each < count or not pending,
        )
        for each in kept
    )


def but_last(what: str, count: int = 5, *, done: bool = False) -> tuple[Call, ...]:
    return (*made(count - 1), Call(count, what, SITE, done=done))


def waiting(
    calls: tuple[Call, ...] = made(5, pending=True),
    *,
    overran: bool = False,
    by: str = "",
    check: str = CHECK,
    where: str = "all_reduce",
    recorded: tuple[Call, ...] = (),
    sequence: int = 0,
) -> Testimony:
    return Testimony(
        state=State.BUSY,
        check=check,
        overran=overran,
        stack=f"  File train.py, line 41\n    dist.{where}(tensor)",
        waits_in=where,
        interrupted_by=by,
        calls=calls,
        recorded=recorded,
        sequence=sequence,
    )


def elsewhere(
    calls: tuple[Call, ...] = made(4),
    *,
    overran: bool = True,
    by: str = "",
    check: str = CHECK,
    recorded: tuple[Call, ...] = (),
    sequence: int = 0,
) -> Testimony:
    """Return the word of a rank that is busy outside of any collective."""
    told = waiting(calls, overran=overran, by=by, check=check, where="")
    return msgspec.structs.replace(
        told, stack="  File data.py, line 7", recorded=recorded, sequence=sequence
    )


def ended(calls: tuple[Call, ...] = made(5)) -> Testimony:
    return Testimony(check=CHECK, calls=calls)


def raised(
    error: str = OWN,
    order: int = 1,
    calls: tuple[Call, ...] = made(5, pending=True),
    *,
    check: str = CHECK,
) -> Testimony:
    return Testimony(
        state=State.RAISED, check=check, error=error, stack=error, order=order, calls=calls
    )


def gone(
    by: str = "SIGKILL",
    order: int = 1,
    calls: tuple[Call, ...] = made(4),
    *,
    check: str = CHECK,
) -> Testimony:
    pending = next((call.what for call in calls if not call.done), "")
    return Testimony(
        state=State.GONE, check=check, ended_by=by, order=order, calls=calls, waits_in=pending
    )


def aborted(order: int) -> Testimony:
    """Return what is known of a rank that NCCL's watchdog, or gloo, has ended in a collective."""
    return gone("SIGABRT", order, made(5, pending=True))


def mute(state: State, why: str = "", calls: tuple[Call, ...] = made(4)) -> Testimony:
    return Testimony(state=state, check=CHECK, ended_by=why, calls=calls)


def silent_inside() -> Testimony:
    held = mute(State.SILENT, "its GIL was held", made(5, pending=True))
    return msgspec.structs.replace(held, waits_in="all_reduce")


def world(size: int, each: Testimony) -> Ranks:
    return dict.fromkeys(range(size), each)


def named(told: Mapping[int, Testimony]) -> dict[int, Kind]:
    """Return those that are called culprits."""
    return {rank: r.kind for rank, r in inquest(told).items() if r.kind in CULPRITS}


def all_named(ranks: Sequence[int], kind: Kind) -> dict[int, Kind]:
    return dict.fromkeys(ranks, kind)


def assert_the_others_are_innocent(told: Ranks, culprits: Sequence[int]) -> None:
    """Those who came through did, and all others waited for these culprits."""
    names = f"rank {', '.join(str(rank) for rank in sorted(culprits))}"
    for rank, ruling in inquest(told).items():
        if rank not in culprits and told[rank].state is State.ENDED:
            assert ruling.kind is Kind.THROUGH
        elif rank not in culprits:
            assert ruling.kind is Kind.WAITED
            assert names in ruling.reason


GUILTY_OF_THEIR_OWN_DOING = [
    # Killed.
    pytest.param(
        world(64, waiting()) | {37: gone()},
        {37: Kind.LOST},
        id="one of 64 killed, all others in all_reduce",
    ),
    pytest.param(
        world(64, waiting(overran=True)) | {0: gone(calls=())},
        {0: Kind.LOST},
        id="rank 0 killed before its first collective",
    ),
    pytest.param(
        world(64, waiting()) | {36: raised(PEER, 1), 37: gone(order=3), 38: raised(RESET, 2)},
        {37: Kind.LOST},
        id="its neighbours' errors were counted before its end",
    ),
    pytest.param(
        {0: raised(PEER, 2), 1: gone(), 2: raised(PEER, 3), 3: raised(RESET, 4)},
        {1: Kind.LOST},
        id="killed, and all others lost the connection after it",
    ),
    pytest.param(
        world(4, waiting()) | {1: gone(), 2: aborted(2), 3: aborted(3)},
        {1: Kind.LOST},
        id="killed, and NCCL aborted two others",
    ),
    pytest.param(
        {0: aborted(1), 1: aborted(2), 2: gone(order=3)},
        {2: Kind.LOST},
        id="killed, though the aborts were counted first",
    ),
    pytest.param(
        world(8, waiting(by="SIGTERM")) | {5: gone()},
        {5: Kind.LOST},
        id="killed, and torchrun asked all others to end",
    ),
    pytest.param(
        {0: gone("SIGTERM", 2), 1: gone(), 2: gone("SIGTERM", 3), 3: gone("SIGTERM", 4)},
        {1: Kind.LOST},
        id="killed, and torchrun's SIGTERM ended all others",
    ),
    pytest.param(
        {0: gone("SIGTERM", 0), 1: gone(order=0), 2: gone("SIGTERM", 0)},
        {1: Kind.LOST},
        id="the same, as the files have it, where nobody counted",
    ),
    pytest.param(
        world(8, waiting()) | {2: gone(order=1), 6: gone(order=2)},
        {2: Kind.LOST, 6: Kind.LOST},
        id="two of one memory limit's victims",
    ),
    pytest.param(
        world(3, waiting()) | {1: gone(), 2: elsewhere()},
        {1: Kind.LOST},
        id="killed, while another was slow",
    ),
    pytest.param(
        world(3, ended(())) | {1: gone(calls=(), check="devices/shared-gpu")},
        {1: Kind.LOST},
        id="killed before there was a group, all others came through",
    ),
    pytest.param(
        world(4, waiting(made(300, pending=True))) | {3: gone(calls=made(100))},
        {3: Kind.LOST},
        id="killed long before the calls that the others still remember",
    ),
    pytest.param(
        world(3, waiting()) | {1: gone(calls=(*made(3), Call(5, REDUCE, SITE, done=False)))},
        {1: Kind.LOST},
        id="killed while it wrote a slot of its black box",
    ),
    pytest.param(
        world(3, gone("", 0)), all_named(range(3), Kind.LOST), id="all at once, without a word"
    ),
    *(
        pytest.param(
            world(3, waiting()) | {2: gone(by)},
            {2: Kind.LOST},
            id=f"ended by {by or 'nobody knows'}",
        )
        for by in ("SIGSEGV", "SIGBUS", "SIGILL", "exit code 0", "exit code 3", "signal 34", "")
    ),
    # Aborted by itself: nobody went before.
    pytest.param(
        world(8, waiting()) | {4: aborted(1)}, {4: Kind.LOST}, id="aborted by its own assertion"
    ),
    pytest.param(
        {0: raised(PEER, 1), 1: aborted(3), 2: raised(PEER, 2)},
        {1: Kind.LOST},
        id="aborted by itself, and its peers' errors were counted first",
    ),
    pytest.param(
        {0: aborted(3), 1: aborted(1), 2: aborted(2)}, {1: Kind.LOST}, id="the first to abort"
    ),
    pytest.param(
        {0: gone("SIGTERM", 2), 1: aborted(1), 2: waiting(by="SIGTERM")},
        {1: Kind.LOST},
        id="aborted, and torchrun asked the others to end",
    ),
    pytest.param(
        {0: gone("SIGTERM", 0), 1: aborted(0), 2: gone("SIGTERM", 0)},
        {1: Kind.LOST},
        id="aborted, and torchrun ended the others, where nobody counted",
    ),
    # The store's process ended: there was no verdict, and ranks left with ddpcheck's own code.
    pytest.param(
        {0: gone("exit code 4", 0), 1: gone(order=0), 2: gone("exit code 4", 0)},
        {1: Kind.LOST},
        id="killed, and the others left because no verdict came",
    ),
    pytest.param(
        {rank: gone("", 0, made(5, pending=True)) for rank in (0, 2)} | {1: gone(order=0)},
        {1: Kind.LOST},
        id="killed, and the launcher ended those that still were in all_reduce",
    ),
    # Garbled.
    pytest.param(
        world(3, ended()) | {1: mute(State.GARBLED, calls=made(5))},
        {1: Kind.LOST},
        id="its words are garbled",
    ),
    pytest.param(
        {0: waiting(), 1: mute(State.GARBLED), 2: raised(PEER)},
        {1: Kind.LOST},
        id="garbled, and the others wait or lost the connection",
    ),
    # Stopped or silent.
    pytest.param(world(64, waiting()) | {9: mute(State.STOPPED)}, {9: Kind.STALLED}, id="stopped"),
    pytest.param(
        {0: raised(LATE, 1), 1: mute(State.STOPPED), 2: aborted(2), 3: waiting(overran=True)},
        {1: Kind.STALLED},
        id="stopped, and the others' own timeouts ran out",
    ),
    pytest.param(
        world(4, waiting(overran=True)) | {0: mute(State.SILENT, "its GIL was held")},
        {0: Kind.STALLED},
        id="rank 0 holds its GIL",
    ),
    # Both go on again while they are asked: what they are inside then tells nothing.
    pytest.param(
        {0: msgspec.structs.replace(waiting(overran=True), stood_s=3.6), 1: elsewhere()},
        {0: Kind.STALLED},
        id="rank 0 was stopped and goes on",
    ),
    # Seen: it had come to its next check when its successor asked.
    pytest.param(
        {0: msgspec.structs.replace(elsewhere(overran=False), stood_s=3.6), 1: waiting()},
        {0: Kind.STALLED},
        id="rank 0 was stopped, and is in its next check",
    ),
    pytest.param(
        {0: msgspec.structs.replace(raised(PEER), stood_s=3.6), 1: waiting()},
        {0: Kind.STALLED},
        id="rank 0 was stopped, and found that the others had given up",
    ),
    pytest.param(
        {rank: msgspec.structs.replace(elsewhere(), stood_s=3.6) for rank in range(2)},
        all_named(range(2), Kind.STALLED),
        id="their machine was at a stop, and both overran",
    ),
    # Seen on two busy cores: ranks that waited got no processor, and could not say so.
    pytest.param(
        {0: waiting(), 1: silent_inside(), 2: elsewhere()},
        {2: Kind.STALLED},
        id="one overran, and one that waits for it gets no processor",
    ),
    pytest.param(
        {0: mute(State.STOPPED), 1: waiting(), 2: silent_inside()},
        {0: Kind.STALLED},
        id="one is stopped, and one that waits for it gets no processor",
    ),
    pytest.param(
        {0: silent_inside(), 1: silent_inside(), 2: gone("SIGKILL", 1)},
        {2: Kind.LOST},
        id="one died, and those that wait get no processor",
    ),
    pytest.param(
        {0: waiting(overran=True), 1: silent_inside(), 2: waiting(overran=True)},
        {1: Kind.STALLED},
        id="one is silent in the collective that all others wait in",
    ),
    pytest.param(
        world(32, waiting(overran=True))
        | dict.fromkeys(range(8, 16), mute(State.SILENT, "no sign of life from it", ())),
        all_named(range(8, 16), Kind.STALLED),
        id="a whole host has gone",
    ),
    # Raised.
    pytest.param(
        world(64, waiting(overran=True)) | {13: raised(calls=made(4))},
        {13: Kind.RAISED},
        id="raised, and 63 wait for it",
    ),
    pytest.param(
        {0: raised(PEER, 1), 1: raised(MEMORY, 3), 2: raised(RESET, 2)},
        {1: Kind.RAISED},
        id="raised, and its victims were counted first",
    ),
    pytest.param(
        {0: aborted(1), 1: raised(OWN, 2), 2: aborted(3)},
        {1: Kind.RAISED},
        id="raised, and NCCL aborted the others",
    ),
    pytest.param(
        world(3, waiting(by="SIGTERM")) | {2: raised("SystemExit: 0")},
        {2: Kind.RAISED},
        id="left by sys.exit, and torchrun asked the others to end",
    ),
    pytest.param(
        {
            0: raised("DistNetworkError: Gloo connectFullMesh failed", 1, (), check=JOINING),
            1: raised("OSError: no interface eth7", 2, (), check=JOINING),
            2: raised("DistStoreError: Socket Timeout", 3, (), check=JOINING),
        },
        {1: Kind.RAISED},
        id="could not join the group",
    ),
    pytest.param(
        world(8, waiting()) | {1: raised(MEMORY, 1), 6: raised(MEMORY, 2)},
        {1: Kind.RAISED, 6: Kind.RAISED},
        id="two raised the same by themselves",
    ),
    pytest.param(
        {rank: raised(OWN, rank + 1) for rank in range(4)},
        all_named(range(4), Kind.RAISED),
        id="all raised the same by themselves",
    ),
    pytest.param(
        {
            0: raised(PEER, 2),
            1: raised(DOWNLOAD, 1, made(4), check=TRAINING),
            2: raised(PEER, 3),
        },
        {1: Kind.RAISED},
        id="its download broke off, in words that victims use",
    ),
    pytest.param(
        world(8, waiting(overran=True)) | {3: raised(REMOTE)},
        {3: Kind.RAISED},
        id="its own network card: the others wait on, as NCCL does",
    ),
    # One that raised early, in a check that needs no other rank, and went on.
    pytest.param(
        {
            0: msgspec.structs.replace(
                raised(
                    "PermissionError: /proc/1/maps", 1, (), check="environment/version-mismatch"
                ),
                went_on=True,
            ),
            1: ended(()),
            2: gone(order=2, calls=(), check="devices/shared-gpu"),
        },
        {0: Kind.RAISED, 2: Kind.LOST},
        id="killed, long after another raised in a check that stops nobody",
    ),
    pytest.param(
        {
            0: msgspec.structs.replace(
                raised(
                    "PermissionError: /proc/1/maps", 1, (), check="environment/version-mismatch"
                ),
                went_on=True,
            ),
            1: ended(()),
            2: elsewhere((), check="devices/shared-gpu"),
        },
        {0: Kind.RAISED, 2: Kind.STALLED},
        id="hangs, long after another raised in a check that stops nobody",
    ),
]


@pytest.mark.parametrize(("told", "culprits"), GUILTY_OF_THEIR_OWN_DOING)
def test_who_went_by_its_own_doing(told: Ranks, culprits: dict[int, Kind]) -> None:
    assert named(told) == culprits
    assert_the_others_are_innocent(told, tuple(culprits))


STUCK = [
    pytest.param(
        world(64, waiting(overran=True, where="backward", check=TRAINING))
        | {21: elsewhere(check=TRAINING)},
        {21},
        id="loads data, and 63 wait in backward",
    ),
    pytest.param(
        world(4, waiting()) | {0: elsewhere()}, {0}, id="its deadline was the first to come"
    ),
    pytest.param(world(4, ended()) | {3: elsewhere()}, {3}, id="all others came through"),
    pytest.param(
        {0: raised(LATE, 1), 1: elsewhere(), 2: raised(LATE, 2), 3: raised(PEER, 3)},
        {1},
        id="the others' own timeouts ran out",
    ),
    pytest.param(
        {0: aborted(1), 1: aborted(2), 2: elsewhere(), 3: aborted(3)},
        {2},
        id="NCCL's watchdog aborted all others",
    ),
    pytest.param(
        {0: aborted(1), 1: aborted(2), 2: elsewhere(overran=False), 3: aborted(3)},
        {2},
        id="NCCL's watchdog aborted all others before the deadline",
    ),
    pytest.param(
        world(8, waiting(overran=True)) | {2: elsewhere(), 5: elsewhere()}, {2, 5}, id="two hang"
    ),
    pytest.param({0: waiting(overran=True), 1: elsewhere()}, {1}, id="one of two"),
    pytest.param(
        world(4, waiting(overran=True)) | {1: elsewhere(overran=False)},
        {1},
        id="it came late to the check: its own deadline is still ahead",
    ),
    pytest.param(
        world(4, waiting((), overran=True, where="backward", check=TRAINING))
        | {1: elsewhere((), overran=False, check=TRAINING)},
        {1},
        id="the same, where nothing but the stacks is known",
    ),
    pytest.param(
        world(4, elsewhere(made(5), check=MEETING)) | {2: elsewhere(made(5), check=TRAINING)},
        {2},
        id="the others waited at the end of the training, past their own deadlines too",
    ),
    pytest.param(
        world(4, elsewhere((), check=TRAINING, sequence=105))
        | {2: elsewhere((), check=TRAINING, sequence=104)},
        {2},
        id="all others wait for the GPU, in loss.item(), and there is no recorder",
    ),
    pytest.param(
        world(4, elsewhere(made(5), check=TRAINING)) | {2: elsewhere(made(4), check=TRAINING)},
        {2},
        id="the same, by the black boxes",
    ),
]

LEFT_OUT = [
    pytest.param(
        world(3, waiting(made(10, pending=True), overran=True)) | {2: ended(made(9))},
        {2},
        id="skipped one of many that are alike, and came through",
    ),
    pytest.param(
        world(3, waiting(made(10, pending=True), overran=True))
        | {2: elsewhere(made(9), overran=False, check="performance/bf16-unusable")},
        {2},
        id="skipped one, and ran ahead into another check",
    ),
    pytest.param(
        {0: waiting(made(10, pending=True), overran=True), 1: ended(made(9))}, {1}, id="one of two"
    ),
    pytest.param(
        world(64, waiting(made(10, pending=True), overran=True))
        | {7: ended(made(9)), 40: ended(made(9))},
        {7, 40},
        id="two of 64",
    ),
    pytest.param(
        world(4, waiting(made(1, pending=True), overran=True)) | {3: elsewhere((), overran=False)},
        {3},
        id="never entered any",
    ),
    pytest.param(
        world(4, waiting(made(300, pending=True), overran=True)) | {3: ended(made(100))},
        {3},
        id="so far behind that no call is remembered by all",
    ),
    pytest.param(
        world(4, waiting(steps(300, pending=True), overran=True))
        | {3: elsewhere(steps(100), overran=False)},
        {3},
        id="the same, of calls that differ in size",
    ),
    pytest.param(
        world(
            4,
            waiting(
                made(2),
                overran=True,
                where="backward",
                recorded=made(105, pending=True),
                check=TRAINING,
            ),
        )
        | {1: elsewhere(made(2), overran=False, recorded=made(104), check=TRAINING)},
        {1},
        id="the recorder alone has DDP's own",
    ),
    pytest.param(
        world(4, waiting(made(2), overran=True, where="backward", sequence=105))
        | {1: elsewhere(made(2), overran=False, sequence=104)},
        {1},
        id="the group's own count alone has DDP's own",
    ),
    pytest.param(
        {
            0: waiting(
                made(2),
                overran=True,
                where="backward",
                recorded=made(105, pending=True),
                sequence=105,
            ),
            1: waiting(made(2), overran=True, where="backward", sequence=105),
            2: elsewhere(made(2), overran=False, sequence=104),
            3: waiting(
                made(2),
                overran=True,
                where="backward",
                recorded=made(105, pending=True),
                sequence=105,
            ),
        },
        {2},
        id="only some ranks have a recorder",
    ),
    pytest.param(
        {0: aborted(1), 1: aborted(2), 2: ended(made(4)), 3: aborted(3)},
        {2},
        id="NCCL's watchdog aborted all who waited",
    ),
    pytest.param(
        {0: ended(made(7)), 1: ended(made(7)), 2: ended(made(6)), 3: ended(made(7))},
        {2},
        id="left out the last broadcast, in which nobody waits for it",
    ),
    pytest.param(
        world(8, ended(made(9))) | {5: waiting(made(10, pending=True), overran=True)},
        {5},
        id="one batch more than all others: alone in a collective",
    ),
    pytest.param(
        world(8, waiting((), overran=True, where="backward", check=TRAINING))
        | {
            3: waiting(
                (), overran=True, where="DistributedDataParallel.sync_buffers", check=TRAINING
            )
        },
        {3},
        id="waits in another collective, where nothing but the stacks is known",
    ),
]


@pytest.mark.parametrize(("told", "culprits"), [*STUCK, *LEFT_OUT])
def test_who_kept_the_others_waiting(told: Ranks, culprits: set[int]) -> None:
    assert set(named(told)) == culprits
    assert_the_others_are_innocent(told, tuple(culprits))


DIFFERENT = [
    pytest.param(
        world(3, waiting()) | {1: waiting(but_last(GATHER), where="all_gather")},
        {1},
        id="another op, and all wait",
    ),
    pytest.param(
        {0: waiting(overran=True), 1: elsewhere(but_last(GATHER, done=True)), 2: waiting()},
        {1},
        id="another op, and it went on",
    ),
    pytest.param(
        world(64, waiting()) | {0: waiting(but_last(GATHER), where="all_gather")},
        {0},
        id="rank 0 of 64",
    ),
    pytest.param(
        {0: raised(OTHER_SIZE, 1), 1: waiting(but_last(SHORT)), 2: aborted(2)},
        {1},
        id="another shape, and those who did nothing wrong raised and aborted",
    ),
    pytest.param(
        {0: gone("SIGSEGV", 1, made(5, pending=True)), 1: waiting(), 2: waiting(but_last(SHORT))},
        {2},
        id="another shape, and another rank's memory was overwritten",
    ),
    pytest.param(
        {0: waiting(), 1: waiting(), 2: waiting(but_last(BYTES))}, {2}, id="another dtype"
    ),
    pytest.param(
        {0: ended(), 1: ended(but_last(BYTES, done=True)), 2: ended()},
        {1},
        id="another dtype, and all came through with wrong values",
    ),
    pytest.param(
        {0: waiting(), 1: waiting(but_last(SHORT))}, {0, 1}, id="another shape, of two ranks"
    ),
    pytest.param(
        {0: raised(OTHER_SIZE), 1: ended(but_last(BYTES, done=True))},
        {0, 1},
        id="another dtype, of two ranks",
    ),
    pytest.param(
        {
            0: waiting(overran=True),
            1: waiting((*made(4), Call(5, GATHER, "app/train.py:60", done=False)), overran=True),
        },
        {0, 1},
        id="of two, one has left the loop: who says that the other should go on",
    ),
    pytest.param(
        world(4, waiting()) | dict.fromkeys((1, 3), waiting(but_last(SHORT))),
        {0, 1, 2, 3},
        id="two against two",
    ),
    pytest.param(
        world(5, waiting()) | {1: waiting(but_last(SHORT)), 3: waiting(but_last(BYTES))},
        {1, 3},
        id="two, each in its own way",
    ),
    pytest.param(
        world(3, waiting(steps(20, pending=True), overran=True))
        | {1: waiting(steps(19, skipped=7, pending=True))},
        {1},
        id="skipped one, which shifts all later ones",
    ),
    pytest.param(
        world(3, waiting(made(10, pending=True), overran=True))
        | {2: waiting((*made(9), Call(10, "barrier", SITE, done=False)), where="barrier")},
        {2},
        id="skipped one, and ran ahead into the next check's collectives",
    ),
    pytest.param(
        world(8, waiting(steps(200, pending=True), overran=True))
        | {5: waiting(steps(199, skipped=20, pending=True))},
        {5},
        id="skipped one that nobody remembers any more",
    ),
    pytest.param(
        world(8, waiting(steps(83, pending=True)))
        | {
            0: waiting(steps(73, pending=True), overran=True),
            5: waiting(steps(73, skipped=7, pending=True), overran=True),
        },
        {5},
        id="the same, and beside it only one slow rank remembers the first calls",
    ),
    pytest.param(
        world(4, waiting(made(2), where="backward", recorded=made(9, pending=True)))
        | {3: waiting(made(2), where="backward", recorded=but_last(SHORT, 9))},
        {3},
        id="another bucket of DDP, in the recorder alone",
    ),
    pytest.param(
        {
            0: waiting(made(2), where="backward", recorded=made(9, pending=True)),
            1: waiting(made(2), where="backward", recorded=made(9, pending=True)),
            2: waiting(made(2), where="backward"),
            3: waiting(made(2), where="backward", recorded=but_last(SHORT, 9)),
        },
        {3},
        id="the same, where one rank has no recorder",
    ),
]


@pytest.mark.parametrize(("told", "culprits"), DIFFERENT)
def test_who_came_to_another_collective(told: Ranks, culprits: set[int]) -> None:
    assert named(told) == all_named(sorted(culprits), Kind.OTHER_CALL)
    assert_the_others_are_innocent(told, tuple(culprits))


def recorder(*whats: str) -> tuple[Call, ...]:
    return tuple(Call(number, what) for number, what in enumerate(whats, 1))


# Seen with torch 2.13: the recorder has what a rank puts in, which differs in these by design.
SCATTERED, ON_THE_OTHERS = recorder("scatter float32[3, 4]"), recorder("scatter []")


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(
            {
                0: waiting((), recorded=SCATTERED),
                1: waiting((), recorded=ON_THE_OTHERS),
                2: gone(calls=()),
            },
            id="scatter: its root alone has what is scattered",
        ),
        pytest.param(
            {
                rank: waiting((), recorded=recorder(f"all_to_all float32[{1200 - rank}, 512]"))
                for rank in (0, 1, 3)
            }
            | {2: gone(calls=())},
            id="all_to_all: as many tokens as the router sent each way",
        ),
        pytest.param(
            {rank: waiting(recorder("gather")) for rank in (0, 1)} | {2: gone(calls=())},
            id="gather, as the black box has it",
        ),
    ],
)
def test_collectives_that_need_not_be_alike_excuse_no_culprit(told: Ranks) -> None:
    assert named(told) == {2: Kind.LOST}


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(world(64, waiting(by="SIGTERM")), id="the scheduler's SIGTERM"),
        pytest.param(
            {
                0: waiting(made(7, pending=True), by="SIGTERM"),
                1: elsewhere(made(6), overran=False, by="SIGTERM"),
                2: waiting(made(7, pending=True), by="SIGTERM"),
                3: ended(made(6)),
            },
            id="the scheduler's SIGTERM, between one rank's call and the next one's",
        ),
        pytest.param(
            world(4, waiting(by="SIGTERM")) | {2: gone("SIGTERM", 1)},
            id="the scheduler's SIGTERM ended one at once",
        ),
        pytest.param(
            {rank: gone("SIGTERM", rank + 1) for rank in range(4)},
            id="the scheduler's SIGTERM ended all",
        ),
        pytest.param(
            world(4, waiting(by="SIGTERM")) | {1: gone("SIGTERM", 1), 3: aborted(2)},
            id="the scheduler's SIGTERM ended one, and NCCL aborted its peer",
        ),
        pytest.param(
            world(4, waiting(by="SIGTERM")) | {1: gone("SIGTERM", 1), 3: raised(PEER, 2)},
            id="the scheduler's SIGTERM ended one, and its peer lost the connection",
        ),
        pytest.param(world(4, waiting(by="SIGINT")), id="Ctrl-C"),
        pytest.param({rank: gone("SIGINT", rank + 1) for rank in range(4)}, id="Ctrl-C ended all"),
        pytest.param(
            world(4, waiting(by="SIGINT")) | {0: gone("SIGINT", 1)}, id="Ctrl-C ended one at once"
        ),
        pytest.param(
            {rank: gone("SIGHUP", rank + 1) for rank in range(4)}, id="the terminal was closed"
        ),
    ],
)
def test_nobody_is_guilty_of_what_the_user_or_the_scheduler_did(told: Ranks) -> None:
    assert named(told) == {}


def test_who_was_interrupted_is_told_by_what() -> None:
    told = world(2, waiting(by="SIGINT"))
    rulings = inquest(told)
    assert [each.kind for each in rulings.values()] == [Kind.INTERRUPTED] * 2
    assert rulings[0].reason == f"interrupted by SIGINT in {CHECK}"


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        pytest.param(
            world(64, waiting(overran=True)), Kind.STALLED, id="all wait in the same collective"
        ),
        pytest.param(
            {
                rank: waiting(
                    made(99),
                    overran=True,
                    where="wait",
                    recorded=(
                        *made(99),
                        *(Call(100 + n, REDUCE, done=False) for n in range(ahead)),
                    ),
                )
                for rank, ahead in enumerate((3, 1, 2, 3))
            },
            Kind.STALLED,
            id="all are in collective 100, and some have queued more behind it",
        ),
        pytest.param(world(4, elsewhere(made(5))), Kind.STALLED, id="all overran, each by itself"),
        pytest.param(
            {rank: raised(PEER, rank + 1) for rank in range(4)},
            Kind.RAISED,
            id="all lost the connection",
        ),
        pytest.param(
            {0: aborted(0), 1: aborted(0), 2: aborted(0)},
            Kind.LOST,
            id="all aborted, and nobody knows who was the first",
        ),
        pytest.param(world(4, ended()), Kind.THROUGH, id="all came through, by the same calls"),
    ],
)
def test_whose_testimonies_are_alike_fare_alike(told: Ranks, kind: Kind) -> None:
    assert [ruling.kind for ruling in inquest(told).values()] == [kind] * len(told)


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        pytest.param(ended(()), Kind.THROUGH, id="came through"),
        pytest.param(ended(), Kind.THROUGH, id="came through, with calls"),
        pytest.param(gone("SIGKILL"), Kind.LOST, id="killed"),
        pytest.param(aborted(1), Kind.LOST, id="aborted"),
        pytest.param(gone("", 0), Kind.LOST, id="gone without a word"),
        pytest.param(raised(OWN), Kind.RAISED, id="raised"),
        pytest.param(
            raised("BrokenPipeError: [Errno 32] Broken pipe"), Kind.RAISED, id="no peer to blame"
        ),
        pytest.param(elsewhere(), Kind.STALLED, id="overran"),
        pytest.param(waiting(overran=True), Kind.STALLED, id="overran in a collective"),
        pytest.param(mute(State.STOPPED), Kind.STALLED, id="stopped"),
        pytest.param(mute(State.SILENT, "its GIL was held"), Kind.STALLED, id="silent"),
        pytest.param(mute(State.GARBLED), Kind.LOST, id="garbled"),
        pytest.param(waiting(by="SIGINT"), Kind.INTERRUPTED, id="Ctrl-C"),
        pytest.param(gone("SIGINT", 1), Kind.INTERRUPTED, id="Ctrl-C ended it"),
        pytest.param(elsewhere(overran=False, by="SIGTERM"), Kind.INTERRUPTED, id="SIGTERM"),
        pytest.param(gone("SIGTERM", 1), Kind.INTERRUPTED, id="SIGTERM ended it"),
    ],
)
def test_a_world_of_one(told: Testimony, kind: Kind) -> None:
    (ruling,) = inquest({0: told}).values()
    assert ruling.kind is kind


def test_nobody_came() -> None:
    assert inquest({}) == {}


@pytest.mark.parametrize(
    "words",
    [
        PEER,
        RESET,
        LATE,
        OTHER_SIZE,
        REMOTE,
        "RuntimeError: [pair.cc:632] Application timeout caused pair closure",
        "DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed.",
        "DistStoreError: wait timeout after 300000ms, keys: /all-met",
        "DistBackendError: NCCL communicator was aborted on rank 3.",
        # Printed by torch 2.13 when only the other rank is late.
        "DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 clients joined.",
        UNREACHED,
        "RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 2000 ms",
        # With TORCH_NCCL_BLOCKING_WAIT, raised from ProcessGroupNCCL.cpp in the waiting thread.
        WATCHDOG,
    ],
)
def test_the_words_of_one_who_waited_in_vain(words: str) -> None:
    told = {0: raised(words), 1: elsewhere(), 2: waiting(overran=True)}
    assert named(told) == {1: Kind.STALLED}


@pytest.mark.parametrize(
    ("told", "rank", "reason"),
    [
        pytest.param({0: gone(), 1: waiting()}, 0, f"was ended by SIGKILL in {CHECK}", id="signal"),
        pytest.param({0: gone("exit code 3")}, 0, f"left with exit code 3 in {CHECK}", id="exit"),
        pytest.param({0: gone("")}, 0, f"ended without a word in {CHECK}", id="gone"),
        pytest.param({0: gone(check="")}, 0, "was ended by SIGKILL", id="before any check"),
        pytest.param({0: raised()}, 0, f"raised in {CHECK}: {OWN}", id="raised"),
        pytest.param(
            {0: waiting(), 1: gone(), 2: gone(order=2)},
            0,
            f"waited for rank 1, 2 in {CHECK}",
            id="waited for two",
        ),
        pytest.param(
            {0: aborted(2), 1: gone()}, 0, f"ended after rank 1 in {CHECK}", id="ended after"
        ),
        pytest.param(
            {0: waiting(), 1: waiting(), 2: waiting(but_last(SHORT))},
            2,
            f"called {SHORT} at {SITE} as its collective number 5, where rank 0-1 called {REDUCE}",
            id="another shape",
        ),
        pytest.param(
            {0: waiting(), 1: waiting(but_last(SHORT))},
            1,
            f"called {SHORT} at {SITE} as its collective number 5, where rank 0 called {REDUCE}",
            id="the second of two who differ",
        ),
        pytest.param(
            {0: waiting(), 1: waiting(but_last(SHORT))},
            0,
            f"called {REDUCE} at {SITE} as its collective number 5, where rank 1 called {SHORT}",
            id="the first of two who differ",
        ),
        pytest.param(
            {0: waiting(made(10, pending=True), overran=True), 1: ended(made(9))},
            1,
            "did not enter all_reduce, which others are in",
            id="left out",
        ),
    ],
)
def test_the_reason_tells_what_happened(told: Ranks, rank: int, reason: str) -> None:
    assert inquest(told)[rank].reason == reason


def calls_of(first: int, whats: Sequence[str], done: bool) -> tuple[Call, ...]:
    last = len(whats) - 1
    return tuple(
        Call(first + at, what, SITE, done=at < last or done) for at, what in enumerate(whats)
    )


some_calls = st.builds(
    calls_of,
    st.integers(1, 4),
    st.lists(st.sampled_from([REDUCE, GATHER, SHORT]), max_size=5),
    st.booleans(),
)
orders = st.integers(0, 9)
testimonies = st.builds(
    Testimony,
    state=st.sampled_from(State),
    check=st.sampled_from(["", CHECK, TRAINING, MEETING, JOINING]),
    overran=st.booleans(),
    error=st.sampled_from([OWN, MEMORY, PEER, LATE]),
    ended_by=st.sampled_from(["", "SIGKILL", "SIGTERM", "SIGINT", "SIGABRT", "exit code 1"]),
    order=orders,
    waits_in=st.sampled_from(["", "all_reduce", "backward"]),
    interrupted_by=st.sampled_from(["", "SIGTERM", "SIGINT"]),
    calls=some_calls,
    recorded=some_calls,
    sequence=st.integers(0, 3),
)
worlds = st.dictionaries(st.integers(0, 63), testimonies, min_size=1, max_size=6)


def counted(told: Ranks, turns: Sequence[int]) -> Ranks:
    """Return the testimonies with the ends and exceptions in that order, each with its number."""
    return {
        rank: msgspec.structs.replace(
            each, order=turn + 1 if each.state in (State.GONE, State.RAISED) else 0
        )
        for (rank, each), turn in zip(told.items(), turns, strict=False)
    }


counted_worlds = st.builds(counted, worlds, st.permutations(range(6)))


@given(worlds)
def test_every_rank_gets_a_ruling(told: Ranks) -> None:
    rulings = inquest(told)
    assert set(rulings) == set(told)
    for rank, ruling in rulings.items():
        assert bool(ruling.reason) is (ruling.kind is not Kind.THROUGH)
        assert ruling.kind is not Kind.THROUGH or told[rank].state is State.ENDED


@given(st.dictionaries(st.integers(0, 63), st.sampled_from(["", CHECK, TRAINING])))
def test_if_all_ended_without_calls_all_are_through(checks: dict[int, str]) -> None:
    told = {rank: Testimony(check=check) for rank, check in checks.items()}
    assert {ruling.kind for ruling in inquest(told).values()} <= {Kind.THROUGH}


@given(counted_worlds, st.data())
def test_other_names_for_the_ranks_change_nothing(told: Ranks, data: st.DataObject) -> None:
    other = dict(zip(told, data.draw(st.permutations(list(told))), strict=True))
    renamed = {other[rank]: each for rank, each in told.items()}
    kinds = {rank: ruling.kind for rank, ruling in inquest(renamed).items()}
    assert kinds == {other[rank]: ruling.kind for rank, ruling in inquest(told).items()}


@given(counted_worlds)
def test_the_order_of_hearing_changes_nothing(told: Ranks) -> None:
    backwards = dict(reversed(told.items()))
    kinds = {rank: ruling.kind for rank, ruling in inquest(backwards).items()}
    assert kinds == {rank: ruling.kind for rank, ruling in inquest(told).items()}


# All made the first so many calls of the same training, and none made another one.
so_far = st.integers(0, 200).map(steps)
inside = st.integers(1, 200).map(lambda count: steps(count, pending=True))
by_their_own_doing = st.one_of(
    st.builds(gone, st.sampled_from(["SIGKILL", "SIGSEGV", "exit code 0"]), orders, so_far),
    st.builds(raised, st.sampled_from([OWN, MEMORY]), orders, so_far),
    st.builds(
        mute,
        st.sampled_from([State.STOPPED, State.SILENT, State.GARBLED]),
        st.just("no sign of life from it"),
        so_far,
    ),
)
waiting_ranks = st.builds(
    waiting, inside, overran=st.booleans(), by=st.sampled_from(["", "SIGTERM"])
)
bystanders = st.one_of(
    waiting_ranks,
    st.builds(raised, st.sampled_from([PEER, RESET, LATE, REMOTE]), orders, inside),
    st.builds(gone, st.sampled_from(["SIGABRT", "SIGTERM"]), orders, inside),
    st.builds(elsewhere, so_far, overran=st.booleans()),
    st.builds(ended, so_far),
)


@given(
    st.dictionaries(st.integers(0, 31), by_their_own_doing, min_size=1, max_size=3),
    st.dictionaries(st.integers(32, 63), bystanders, max_size=5),
    waiting_ranks,
)
def test_one_more_rank_that_waits_changes_no_culprit(
    guilty: Ranks, others: Ranks, one_more: Testimony
) -> None:
    told = guilty | others
    assert set(named(told)) == set(guilty)
    rulings = inquest(told | {64: one_more})
    assert rulings[64].kind is Kind.WAITED
    assert named(told | {64: one_more}) == named(told)


@pytest.mark.parametrize(
    ("digests", "named_ranks"),
    [(["a", "a", "b"], {2}), (["a", "b"], {0, 1}), (["a", "a"], set()), (["a", ""], set())],
    ids=["one of three", "one of two", "none", "one that is not known"],
)
def test_calls_that_differed_too_long_ago_to_be_remembered(
    digests: list[str], named_ranks: set[int]
) -> None:
    same = (Call(300, "all_reduce SUM float32[1]"),)
    told = {r: Testimony(calls=same, digest=digest) for r, digest in enumerate(digests)}
    rulings = inquest(told)
    assert {r for r, each in rulings.items() if each.kind is Kind.OTHER_CALL} == named_ranks


@pytest.mark.parametrize(
    ("told", "dead"),
    [
        pytest.param(world(4, waiting(overran=True)), False, id="all in one collective"),
        pytest.param(
            world(2, msgspec.structs.replace(waiting(overran=True), waits_in="send")),
            True,
            id="both send, and nobody receives",
        ),
        pytest.param(
            {
                rank: msgspec.structs.replace(waiting(overran=True), waits_in=word)
                for rank, word in enumerate(("send", "recv"))
            },
            False,
            id="one sends and the other receives",
        ),
        pytest.param(
            {
                0: waiting(overran=True),
                1: msgspec.structs.replace(waiting(overran=True), calls=made(4)),
            },
            True,
            id="one has not come to the call that the other is in",
        ),
    ],
)
def test_only_ranks_that_can_never_go_on_are_in_a_deadlock(told: Ranks, dead: bool) -> None:
    assert is_deadlock(told) is dead
