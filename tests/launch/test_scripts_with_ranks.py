"""Which scripts start their own ranks, by their source."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpcheck.launch.own_ranks import starts_own_ranks

INIT = "dist.init_process_group('gloo', rank=rank, world_size=2)\n"
SPAWN = "import torch.multiprocessing as mp\nmp.spawn(main, nprocs=2)\n"
THEIRS = {
    "spawn": SPAWN + INIT,
    "by its name": "from torch.multiprocessing import spawn\nspawn(main, nprocs=2)\n" + INIT,
    "start_processes": "import torch\ntorch.multiprocessing.start_processes(main)\n" + INIT,
    "by hand": "from torch.multiprocessing import Process\nProcess(target=main)\n" + INIT,
    "of a context": "context = mp.get_context('spawn')\ncontext.Process(target=main)\n" + INIT,
    "sets RANK": SPAWN + "os.environ['RANK'] = str(rank)\n" + INIT,
    "notebook": "from accelerate import notebook_launcher\nnotebook_launcher(main, ())\n",
    "debug": "import accelerate\naccelerate.debug_launcher(main)\nos.environ['LOCAL_RANK']\n",
}
NOT_THEIRS = {
    "a launcher's": INIT,
    "knows launchers": SPAWN + "if 'LOCAL_RANK' in os.environ:\n    main()\n" + INIT,
    "reads RANK": SPAWN + "rank = int(os.environ['RANK'])\n" + INIT,
    "no group": SPAWN,
    "no Python": "def (",
}


def place_in(script: Path, source: str) -> str:
    script.write_text(source)
    return starts_own_ranks([str(script)], is_module=False)


@pytest.mark.parametrize("source", THEIRS.values(), ids=THEIRS)
def test_a_script_that_starts_its_own_ranks(tmp_path: Path, source: str) -> None:
    assert place_in(tmp_path / "train.py", source).startswith("train.py:")


@pytest.mark.parametrize("source", NOT_THEIRS.values(), ids=NOT_THEIRS)
def test_a_script_whose_ranks_others_start(tmp_path: Path, source: str) -> None:
    assert place_in(tmp_path / "train.py", source) == ""


def test_what_it_imports_from_its_folder_is_read(tmp_path: Path) -> None:
    package = tmp_path / "engine"
    package.mkdir()
    (package / "__init__.py").write_text("from .launch import start\n")
    (package / "launch.py").write_text(SPAWN + INIT)
    assert place_in(tmp_path / "train.py", "from engine import start\nstart()\n") == "launch.py:2"


def test_a_module_is_found_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__main__.py").write_text(SPAWN + INIT)
    assert starts_own_ranks(["mine"], is_module=True) == "__main__.py:2"
    assert starts_own_ranks(["elsewhere.train"], is_module=True) == ""
