import pynvml
import pytest

from ddpcheck.launch.gpus import visible_gpus, visible_of

UUID = "GPU-55c016a6-9d7d-046b-9d59-e5f62f91ed26"
OTHER = "GPU-0f3c0a9e-6d5b-4a1c-8f0e-1b2c3d4e5f60"


@pytest.mark.parametrize(
    ("mask", "count"),
    [
        pytest.param(None, 4, id="no mask"),
        pytest.param("", 0, id="an empty mask hides all"),
        pytest.param(" ", 0, id="a blank"),
        pytest.param("0", 1, id="one"),
        pytest.param("3", 1, id="the last"),
        pytest.param("0,1,2,3", 4, id="all"),
        pytest.param("3,1", 2, id="another order"),
        pytest.param(" 0 , 1 ", 2, id="blanks around"),
        pytest.param("4", 0, id="one that is not there"),
        pytest.param("0,4,1", 1, id="nothing counts after an invalid one"),
        pytest.param("-1", 0, id="none"),
        pytest.param("0,-1,1", 1, id="a negative one ends the list"),
        pytest.param("0,,1", 1, id="an empty one ends the list"),
        pytest.param("none", 0, id="a word"),
        pytest.param("NoDevFiles", 0, id="what Slurm sets without GPUs"),
        pytest.param(UUID, 1, id="a UUID"),
        pytest.param(f"{UUID},{OTHER}", 2, id="two UUIDs"),
        pytest.param("MIG-5c88a6b4-0d2e-5f6a-9b1c-2d3e4f5a6b7c", 1, id="a slice"),
        # What torch says as well, in torch.cuda._parse_visible_devices.
        pytest.param("0,0", 0, id="the same twice"),
        pytest.param("0,1,0", 0, id="one again"),
        pytest.param(f"0,{UUID}", 1, id="index, then UUID"),
        pytest.param(f"{UUID},0", 1, id="UUID, then index"),
    ],
)
def test_a_mask_leaves_some_of_four(mask: str | None, count: int) -> None:
    assert visible_of(4, mask) == count


@pytest.mark.parametrize("mask", [None, "", "0", "0,1"])
def test_a_machine_without_gpus_shows_none(mask: str | None) -> None:
    assert visible_of(0, mask) == 0


def test_the_mask_of_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 8)
    assert visible_gpus({}) == 8
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "2,5"}) == 2
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": ""}) == 0


@pytest.mark.parametrize("where", ["nvmlInit", "nvmlDeviceGetCount"])
def test_without_a_driver_there_is_no_gpu(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)

    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 8)
    monkeypatch.setattr(pynvml, where, fail)
    assert visible_gpus({}) == 0
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "0"}) == 0
