import pytest

from ddpcheck.measures.state_names import hiding_prefix

OWN = ("body.weight", "body.bias", "head.weight")


def under(prefix: str, names: tuple[str, ...] = OWN) -> tuple[str, ...]:
    return tuple(f"{prefix}{name}" for name in names)


@pytest.mark.parametrize(
    ("missing", "unexpected", "expected"),
    [
        (OWN, under("module."), ("module.", 3)),
        (under("module."), OWN, ("module.", 3)),
        (("body._orig_mod.weight",), ("body.weight",), ("_orig_mod.", 1)),
        (OWN, (*under("backbone."), "box.bias"), ("backbone.", 3)),
        ((*under("encoder."), "box.bias"), OWN, ("encoder.", 3)),
        ((), (), ("", 0)),
        (OWN, ("fc.weight", "fc.bias"), ("", 0)),
        # One name may agree by chance, and few of many say nothing of the rest.
        (("weight",), ("body.weight",), ("", 0)),
        (OWN[:2], (*under("a.", OWN[:2]), "b.c", "b.d", "b.e"), ("", 0)),
    ],
)
def test_the_prefix_that_hides_names(
    missing: tuple[str, ...], unexpected: tuple[str, ...], expected: tuple[str, int]
) -> None:
    assert hiding_prefix(missing, unexpected) == expected
