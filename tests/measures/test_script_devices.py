from collections.abc import Callable

import pytest

from ddpcheck.measures.script import Place
from ddpcheck.measures.script_devices import (
    barriers_before_device,
    hard_coded_devices,
    loads_without_map_location,
    masks_set_late,
    sets_mask,
)

SET = 'os.environ["CUDA_VISIBLE_DEVICES"] = "0"\n'
TORCH = "import os, torch\nimport torch.distributed as dist\n"


def lines(read: Callable[[str], list[Place]], source: str) -> list[int]:
    return [place.line for place in read(source)]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("import os\n" + SET + "import torch\ntorch.cuda.init()", id="first of all"),
        pytest.param("import os, numpy\n" + SET, id="no torch"),
        pytest.param("import os\ndef f():\n    import torch\n" + SET + "f()", id="imported later"),
        pytest.param('import os, torch\nprint(os.environ["CUDA_VISIBLE_DEVICES"])', id="read only"),
        pytest.param('import os, torch\nos.environ["OTHER"] = "0"', id="another variable"),
        pytest.param("", id="nothing"),
    ],
)
def test_a_mask_in_time(source: str) -> None:
    assert masks_set_late(source) == []


@pytest.mark.parametrize(
    "setting",
    [
        SET,
        'os.putenv("CUDA_VISIBLE_DEVICES", "0")',
        'os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")',
        'os.environ.update({"CUDA_VISIBLE_DEVICES": "0"})',
        'os.environ.update(CUDA_VISIBLE_DEVICES="0")',
        'os.environ.pop("CUDA_VISIBLE_DEVICES")',
        'del os.environ["CUDA_VISIBLE_DEVICES"]',
        'from os import environ\nenviron["CUDA_VISIBLE_DEVICES"] = "1"',
    ],
)
def test_every_way_to_set_the_mask_is_seen(setting: str) -> None:
    (place,) = masks_set_late("import os\nimport torch\n" + setting)
    assert place.note == "line 2: import torch"
    assert sets_mask("import os\n" + setting)


@pytest.mark.parametrize(
    "use",
    [
        "torch.cuda.is_available()",
        "torch.cuda.set_device(0)",
        "scaler = torch.amp.GradScaler()",
        "model.cuda()",
        'model.to("cuda")',
        'x = torch.zeros(1, device="cuda:1")',
        'device = "cuda" if torch.cuda.is_available() else "cpu"',
        "def f():\n    torch.cuda.init()\nf()",
    ],
)
def test_a_mask_after_cuda(use: str) -> None:
    (place,) = masks_set_late(f"import os, torch\n{use}\n{SET}")
    assert place.note.startswith("CUDA in use since line")


@pytest.mark.parametrize(
    "use",
    [
        "torch.cuda.device_count()",
        "torch.cuda.manual_seed_all(0)",
        "torch.cuda.empty_cache()",
        'device = torch.device("cuda")',
        "x.to(device)",
        "def f():\n    torch.cuda.init()",
        "def f():\n    torch.cuda.init()\nh = lambda: f()",
    ],
)
def test_a_mask_before_cuda_is_only_after_the_import(use: str) -> None:
    (place,) = masks_set_late(f"import os, torch\n{use}\n{SET}")
    assert place.note.startswith("line 1")


def test_branches_that_exclude_each_other_are_no_order() -> None:
    source = "import os, torch\nif a:\n    torch.cuda.init()\nelse:\n    " + SET
    (place,) = masks_set_late(source)
    assert place.note.startswith("line 1")


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("torch.load(path)", [3]),
        ("model.load_state_dict(torch.load(path, weights_only=True))", [3]),
        ("from torch import load\nload(path)", [4]),
        ("if os.path.exists(path):\n    torch.load(path)", [4]),
        ('torch.load(path, map_location="cpu")', []),
        ("torch.load(path, device)", []),
        ("torch.load(path, **kwargs)", []),
        ("torch.load(*args)", []),
        ("np.load(path)", []),
        ("if rank == 0:\n    torch.load(path)", []),
        ("if args.gpu is None:\n    torch.load(path)", []),
        ("torch.load(a)\ntorch.load(b)", [3, 4]),
    ],
)
def test_loads(source: str, found: list[int]) -> None:
    assert lines(loads_without_map_location, TORCH + source) == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('dist.init_process_group("nccl")\ndist.barrier()', [4]),
        ("dist.init_process_group()\ndist.barrier()\ntorch.cuda.set_device(0)", [4]),
        (
            "def setup():\n    dist.init_process_group()\ndef main():\n    setup()\n    dist.barrier()\nmain()",
            [7],
        ),
        ('dist.init_process_group("nccl")\ntorch.cuda.set_device(r)\ndist.barrier()', []),
        ('torch.cuda.set_device(r)\ndist.init_process_group("nccl")\ndist.barrier()', []),
        ('dist.init_process_group("nccl", device_id=d)\ndist.barrier()', []),
        ('dist.init_process_group("nccl", **k)\ndist.barrier()', []),
        ('dist.init_process_group("gloo")\ndist.barrier()', []),
        ('dist.init_process_group(backend="gloo")\ndist.barrier()', []),
        ('dist.init_process_group("nccl")\ndist.barrier(device_ids=[r])', []),
        ("dist.barrier()", []),
        ('dist.init_process_group("nccl")', []),
        ("if a:\n    dist.init_process_group('nccl')\nelse:\n    dist.barrier()", []),
    ],
)
def test_barriers(source: str, found: list[int]) -> None:
    assert lines(barriers_before_device, TORCH + source) == found


@pytest.mark.parametrize(
    "source",
    [
        'model.to("cuda:0")',
        "model.cuda(0)",
        "torch.cuda.set_device(0)",
        'torch.cuda.set_device("cuda:1")',
        'torch.device("cuda:0")',
        'torch.device("cuda", 0)',
        'x = torch.zeros(1, device="cuda:0")',
        'torch.load(path, map_location="cuda:0")',
        "torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])",
        'device = "cuda:0"',
        'self.device = "cuda:0"',
        'device = "cuda:0" if torch.cuda.is_available() else "cpu"',
        'device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")',
        'if __name__ == "__main__":\n    model.to("cuda:0")',
    ],
)
def test_a_fixed_gpu(source: str) -> None:
    assert len(hard_coded_devices(TORCH + source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        'model.to("cuda")',
        "model.cuda()",
        "model.cuda(local_rank)",
        'model.to(f"cuda:{local_rank}")',
        "torch.cuda.set_device(local_rank)",
        'torch.device("cuda", local_rank)',
        'device = "cuda:0"\nif distributed:\n    device = f"cuda:{local_rank}"',
        'device = "cuda:0" if world_size == 1 else f"cuda:{rank}"',
        'if rank == 0:\n    model.to("cuda:0")',
        'if not args.distributed:\n    device = "cuda:0"',
        'parser.add_argument("--device", default="cuda:0")',
        'if str(device) == "cuda:0":\n    print("cuda:0")',
        'torch.load(path, map_location={"cuda:0": f"cuda:{rank}"})',
        "torch.nn.DataParallel(model, device_ids=[0])",
        'x.to("cpu")',
        '"""cuda:0"""',
    ],
)
def test_no_fixed_gpu(source: str) -> None:
    assert hard_coded_devices(TORCH + source) == []
