import pytest

from ddpcheck.measures.mesh import Axis, factorings, groups_along, parse_mesh

MESH = parse_mesh("dp=2,tp=2,pp=2")


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("", ()),
        ("tp=4", (Axis("tp", 4),)),
        ("dp=2,tp=4", (Axis("dp", 2), Axis("tp", 4))),
        (" dp = 2 , tp=1,", (Axis("dp", 2), Axis("tp", 1))),
    ],
)
def test_a_mesh_is_read(text: str, axes: tuple[Axis, ...]) -> None:
    assert parse_mesh(text) == axes


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("tp", "'tp' is no axis"),
        ("tp=", "'tp=' is no axis"),
        ("tp=0", "'tp=0' is no axis"),
        ("tp=-2", "is no axis"),
        ("tp=two", "is no axis"),
        ("=2", "is no axis"),
        ("t p=2", "is no axis"),
        ("tp=2,tp=2", "tp stands twice in it"),
    ],
)
def test_what_is_no_mesh_is_said(text: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        parse_mesh(text)


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("dp", [(0, 4), (1, 5), (2, 6), (3, 7)]),
        ("tp", [(0, 2), (1, 3), (4, 6), (5, 7)]),
        ("pp", [(0, 1), (2, 3), (4, 5), (6, 7)]),
    ],
)
def test_the_last_axis_varies_fastest(name: str, groups: list[tuple[int, ...]]) -> None:
    assert groups_along(MESH, name) == groups


def test_an_axis_of_one_has_groups_of_one() -> None:
    assert groups_along(parse_mesh("dp=2,tp=1"), "tp") == [(0,), (1,)]


def test_factorings() -> None:
    assert factorings(6, 2) == [(1, 6), (2, 3), (3, 2), (6, 1)]
    assert factorings(7, 1) == [(7,)]
    assert (2, 2, 2) in factorings(8, 3)
    assert all(a * b * c == 12 for a, b, c in factorings(12, 3))
