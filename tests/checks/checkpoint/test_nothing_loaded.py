import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.checkpoint.nothing_loaded import Facts, Observer, judge, summarize
from ddpcheck.finding import Location, Severity

LINE = Location("/eval.py", 10, "load")
OWN = ("body.weight", "body.bias", "head.weight", "head.bias")


class Net:
    """A model, as far as its name goes."""


def seen(given: tuple[str, ...], own: tuple[str, ...] = OWN) -> dict[int, Facts]:
    """Return what two ranks tell of loading a state of these names, not strictly."""
    observer = Observer(context_with(watches=True))
    missing = tuple(name for name in own if name not in given)
    unexpected = tuple(name for name in given if name not in own)
    observer.on_loaded(Net(), given, missing, unexpected, LINE)
    return dict.fromkeys(range(2), observer.facts())


def prefixed(prefix: str, names: tuple[str, ...] = OWN) -> tuple[str, ...]:
    return tuple(f"{prefix}{name}" for name in names)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(seen(OWN), id="all fit"),
        pytest.param(seen(OWN[:2]), id="a backbone without its head"),
        pytest.param(seen((*OWN[:2], "classifier.weight")), id="the head of another task"),
        pytest.param(seen((), ()), id="a module without parameters"),
        pytest.param(seen(OWN) | {1: seen(())[1]}, id="rank 0 hands it out later"),
        pytest.param(seen(prefixed("module."), prefixed("module.")), id="wrapped on both sides"),
        pytest.param(
            seen((*prefixed("encoder."), *OWN), prefixed("encoder.")), id="another one beside it"
        ),
        pytest.param(
            seen((*OWN, *prefixed("teacher."), "teacher.extra"), OWN), id="a teacher beside it"
        ),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("given", "own", "prefix"),
    [
        (prefixed("module."), OWN, "module."),
        (OWN, prefixed("module."), "module."),
        (prefixed("_orig_mod."), OWN, "_orig_mod."),
        ((*OWN[:2], *prefixed("module.", OWN[2:])), OWN, "module."),
    ],
)
def test_a_prefix_that_hides_names_is_an_error(
    given: tuple[str, ...], own: tuple[str, ...], prefix: str
) -> None:
    (finding,) = judge(seen(given, own))
    assert (finding.severity, finding.ranks, finding.location) == (Severity.ERROR, (0, 1), LINE)
    assert f"4 would, but for the prefix {prefix!r}" in finding.message


@pytest.mark.parametrize(
    ("given", "own", "prefix"),
    [
        (prefixed("backbone."), OWN, "backbone."),
        ((*prefixed("backbone."), "box.weight", "box.bias"), OWN, "backbone."),
        (OWN, (*prefixed("encoder."), "classifier.weight"), "encoder."),
        ((*prefixed("model."), OWN[0]), OWN, "model."),
    ],
)
def test_the_body_of_another_model_is_a_warning(
    given: tuple[str, ...], own: tuple[str, ...], prefix: str
) -> None:
    (finding,) = judge(seen(given, own))
    assert (finding.severity, finding.location) == (Severity.WARNING, LINE)
    assert f"would, but for the prefix {prefix!r}" in finding.message
    assert "load into the part it is of" in finding.fix


def test_a_state_of_another_model_is_a_warning() -> None:
    (finding,) = judge(seen(("encoder.weight", "encoder.bias")))
    assert finding.severity is Severity.WARNING
    assert finding.title == "load_state_dict took nothing of a state of 2"
    assert "0 of the 2 names that it was given fit the Net" in finding.message


def test_a_filter_that_keeps_no_name_is_a_warning() -> None:
    (finding,) = judge(seen(()))
    assert (finding.severity, finding.ranks, finding.location) == (Severity.WARNING, (0, 1), LINE)
    assert finding.title == "load_state_dict took nothing of a state of 0"


def test_summary_and_skip() -> None:
    assert summarize(seen(OWN)) == "1 states loaded on a rank"
    with pytest.raises(Skip):
        Observer(context_with()).facts()
