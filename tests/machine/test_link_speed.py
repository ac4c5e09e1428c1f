from pathlib import Path

import pytest

from ddpcheck.machine.link_speed import generation_gbps, link_gbps

ADDRESS = "0000:17:00.0"


def machine(root: Path, port: dict[str, str], device: dict[str, str]) -> Path:
    """Make a device below a port, as the kernel shows them."""
    place = root / "sys/devices/pci0000:16/0000:16:01.0" / ADDRESS
    place.mkdir(parents=True)
    for folder, files in ((place.parent, port), (place, device)):
        for name, text in files.items():
            (folder / name).write_text(f"{text}\n")
    listed = root / "sys/bus/pci/devices"
    listed.mkdir(parents=True)
    (listed / ADDRESS).symlink_to(place)
    return root


def link(speed: str, width: str) -> dict[str, str]:
    return {"max_link_speed": speed, "max_link_width": width}


@pytest.mark.parametrize(
    ("port", "device", "gbps"),
    [
        ({}, link("32.0 GT/s PCIe", "16"), 63.0),
        (link("32.0 GT/s PCIe", "16"), link("16.0 GT/s PCIe", "16"), 31.5),
        (link("8.0 GT/s PCIe", "16"), link("16.0 GT/s PCIe", "16"), 15.76),
        (link("16.0 GT/s PCIe", "8"), link("16.0 GT/s PCIe", "16"), 15.75),
        ({}, link("8 GT/s", "4"), 3.94),
        ({}, link("2.5 GT/s PCIe", "1"), 0.25),
        ({}, link("Unknown", "0"), None),
        ({}, link("16.0 GT/s PCIe", "255"), None),
        ({}, link("16.0 GT/s PCIe", "0"), None),
        ({}, link("128.0 GT/s PCIe", "16"), None),
        ({}, {}, None),
    ],
)
def test_link(
    tmp_path: Path, port: dict[str, str], device: dict[str, str], gbps: float | None
) -> None:
    found = link_gbps(ADDRESS, machine(tmp_path, port, device))
    assert found == (None if gbps is None else pytest.approx(gbps, rel=1e-3))


def test_an_unknown_device(tmp_path: Path) -> None:
    assert link_gbps(ADDRESS, tmp_path) is None


@pytest.mark.parametrize(
    ("generation", "width", "gbps"),
    [(1, 16, 4.0), (1, None, 4.0), (3, 8, 7.88), (5, 16, 63.0), (6, 16, 121.0), (9, 16, 121.0)],
)
def test_a_generation_allows_a_speed(generation: int, width: int | None, gbps: float) -> None:
    assert generation_gbps(generation, width) == pytest.approx(gbps, rel=1e-3)
