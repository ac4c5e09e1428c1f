"""How long a process waited for a core, as the kernel tells it thread by thread."""

import threading
from pathlib import Path

import pytest

from ddpcheck.machine.core_waits import CoreWaits


def tell(threads: Path, **told: str) -> None:
    for name, text in told.items():
        thread = threads / name.strip("t")
        thread.mkdir(exist_ok=True)
        (thread / "comm").write_text("python\n")
        (thread / "schedstat").write_text(text)


@pytest.mark.parametrize(("passed_s", "share"), [(0.5, 0.3), (4.0, 0.075)])
def test_threads_count_together_and_only_what_came_since_then(
    tmp_path: Path, passed_s: float, share: float
) -> None:
    tell(tmp_path, t1="5000000000 7000000000 9\n", t2="0 0 0\n")
    times = iter((10.0, 10.0 + passed_s))
    waits = CoreWaits(tmp_path, lambda: next(times))
    one = "100000000 50000000 1\n"
    tell(tmp_path, t1="5500000000 7200000000 12\n", t2=one, t3=one)
    assert waits.share == share


def test_threads_beside_what_is_timed_do_not_count(tmp_path: Path) -> None:
    seen: list[float] = []

    def look() -> None:
        aside = f"t{threading.get_native_id()}"
        told = {"t1": "0 0 0\n", "t2": "0 0 0\n", aside: "0 0 0\n"}
        tell(tmp_path, **told)
        (tmp_path / "2" / "comm").write_text("pt_tcpstore_uv\n")
        waits = CoreWaits(tmp_path, iter((0.0, 1.0)).__next__)
        tell(tmp_path, t1="900000000 100000000 1\n", t2="1 900000000 1\n")
        (tmp_path / "2" / "comm").write_text("pt_tcpstore_uv\n")
        tell(tmp_path, **{aside: "1 900000000 1\n"})
        seen.append(waits.share)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [0.1]


def test_a_thread_that_ended_or_a_kernel_that_tells_nothing_harms_nothing(tmp_path: Path) -> None:
    tell(tmp_path, t1="900 900 1\n", t3="\n")
    (tmp_path / "2").mkdir()
    waits = CoreWaits(tmp_path)
    (tmp_path / "1" / "schedstat").unlink()
    assert waits.share == 0.0
    assert CoreWaits(tmp_path / "none").share == 0.0


def test_this_process_can_be_asked() -> None:
    waits = CoreWaits()
    sum(range(10**6))
    assert 0.0 <= waits.share < 1.0
