import ctypes.util
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ddpcheck.machine import libraries
from ddpcheck.machine.libraries import (
    NCCL,
    can_be_loaded,
    loaded,
    nccl_built_for,
    nccl_in_use,
    nccl_of_torch,
    nccl_version,
    nccl_version_of,
    packaged_nccl,
)

MAPS = """\
7f00-7f01 r--p 00000000 fe:00 285  /env/nvidia/nccl/lib/libnccl.so.2
7f01-7f02 r-xp 00001000 fe:00 285  /env/nvidia/nccl/lib/libnccl.so.2
7f02-7f03 r-xp 00000000 fe:00 286  /env/lib/libnccl-net.so
7f03-7f04 rw-p 00000000 00:00 0
7f04-7f05 rw-p 00000000 00:00 0    [heap]
"""
SECOND = (
    "7f06-7f07 r-xp 00000000 fe:00 300  /usr/lib/x86_64-linux-gnu/libnccl.so.2.15.5 (deleted)\n"
)
LINKED = "7f06-7f07 r-xp 00000000 fe:00 285  /usr/lib/libnccl.so.2\n"
SOURCE = "int ncclGetVersion(int* v) { *v = 21505; return 0; }\n"


def made(root: Path, maps: str) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/maps").write_text(maps)
    return root


@pytest.mark.parametrize(
    ("maps", "paths"),
    [
        ("", []),
        (MAPS, ["/env/nvidia/nccl/lib/libnccl.so.2"]),
        (MAPS + LINKED, ["/env/nvidia/nccl/lib/libnccl.so.2"]),
        (
            MAPS + SECOND,
            [
                "/env/nvidia/nccl/lib/libnccl.so.2",
                "/usr/lib/x86_64-linux-gnu/libnccl.so.2.15.5",
            ],
        ),
    ],
)
def test_each_mapped_file_is_told_once(maps: str, paths: list[str], tmp_path: Path) -> None:
    assert loaded(NCCL, made(tmp_path, maps)) == paths


def test_this_process_has_the_c_library() -> None:
    name = (ctypes.util.find_library("c") or "libc.so.6").partition(".")[0]
    assert len(loaded(name)) == 1


@pytest.mark.parametrize(
    ("number", "version"), [(22809, "2.28.9"), (21505, "2.15.5"), (23007, "2.30.7"), (0, "")]
)
def test_versions(number: int, version: str) -> None:
    assert nccl_version_of(number) == version


def test_no_library_has_no_version(tmp_path: Path) -> None:
    assert nccl_version(str(tmp_path / "libnccl.so.2")) == ""
    assert nccl_version(sysconfig.get_config_var("LDLIBRARY") or "libc.so.6") == ""
    assert nccl_in_use(made(tmp_path, "")) == ""


def test_a_library_that_is_really_loaded_tells_its_version(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    library = tmp_path / "libnccl.so.2"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)],
        input=SOURCE,
        text=True,
        check=True,
    )
    source = "from ddpcheck.machine.libraries import *\nprint(loaded(NCCL), nccl_in_use())\n"
    told = subprocess.run(
        [sys.executable, "-c", source],
        env={"LD_PRELOAD": str(library)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert told.stdout.strip() == f"{[str(library)]} 2.15.5"


def test_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "nvidia_nccl_cu12-2.27.5.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: nvidia-nccl-cu12\nVersion: 2.27.5\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert packaged_nccl() == {"nvidia-nccl-cu12": "2.27.5"}


def torch_with(nccl: tuple[int | str, ...]) -> dict[str, Any]:
    """Return a torch that was built for this NCCL, or without."""
    asked = SimpleNamespace(is_nccl_available=lambda: bool(nccl))
    return {
        "torch": SimpleNamespace(distributed=asked),
        "torch.cuda.nccl": SimpleNamespace(version=lambda: nccl),
    }


@pytest.mark.parametrize(
    ("built_for", "in_use", "told"),
    [
        ((2, 28, 9), "", "2.28.9"),
        ((2, 28, 9, "a suffix"), "", "2.28.9"),
        ((2, 28, 9), "2.30.7", "2.30.7"),
        ((), "", ""),
    ],
)
def test_the_loaded_nccl_counts_and_else_what_torch_was_built_for(
    built_for: tuple[int | str, ...], in_use: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "import_module", torch_with(built_for).__getitem__)
    monkeypatch.setattr(libraries, "nccl_in_use", lambda: in_use)
    assert nccl_of_torch() == told
    assert nccl_built_for() == ("2.28.9" if built_for else "")


def test_what_can_be_loaded() -> None:
    libc = loaded("libc")[0]
    assert can_be_loaded(["libno-such-library.so.1", libc])
    assert not can_be_loaded(["libno-such-library.so.1"])
    assert not can_be_loaded([])
