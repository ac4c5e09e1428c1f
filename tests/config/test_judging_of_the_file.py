"""Severities, thresholds and suppressions in a settings file: read, typed, or refused."""

import tomllib

import pytest

from ddpcheck.config.file import SettingsFile
from ddpcheck.config.judging import configuration_of
from ddpcheck.configuration import Configuration, Suppression, Threshold
from ddpcheck.errors import UsageError
from ddpcheck.finding import Severity

LINK = "network/lossy-link"


def read(text: str) -> Configuration:
    return configuration_of(SettingsFile("ddpcheck.toml", content=tomllib.loads(text)), {})


def refusal(text: str) -> str:
    with pytest.raises(UsageError) as raised:
        read(text)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_no_word_on_judging_changes_nothing() -> None:
    assert read("profile = 'quick'") == Configuration(file="ddpcheck.toml")


def test_severities() -> None:
    asked = read(f'[severity]\n"{LINK}" = "error"\nnetwork = "info"\n"*/low-*" = "warning"')
    assert asked.severity_of(LINK) is Severity.ERROR  # an id outweighs what comes later
    assert asked.severity_of("network/mtu-mismatch") is Severity.INFO
    assert asked.severity_of("environment/low-memory") is Severity.WARNING
    assert asked.severity_of("data/epoch-not-set") is None


def test_of_patterns_the_last_one_counts() -> None:
    asked = read('[severity]\n"*" = "info"\n"network/*" = "warning"')
    assert asked.severity_of(LINK) is Severity.WARNING
    assert asked.severity_of("data/epoch-not-set") is Severity.INFO


def test_thresholds_are_typed_as_the_constant_is() -> None:
    asked = read(
        f"[thresholds]\n'{LINK}' = {{ LONG_S = 1, LONG_RATIO = 2.5 }}\n"
        "'collectives/slow-link' = { LEAST_RATIO.gloo = 0.1 }"
    )
    assert list(asked.thresholds) == [
        Threshold(LINK, "LONG_S", 1.0, 0.005),
        Threshold(LINK, "LONG_RATIO", 2.5, 10.0),
        Threshold(
            "collectives/slow-link",
            "LEAST_RATIO",
            {"nccl": 0.5, "gloo": 0.1},
            {"nccl": 0.5, "gloo": 0.2},
        ),
    ]
    assert asked.thresholds_of(LINK) == {"LONG_S": 1.0, "LONG_RATIO": 2.5}
    assert type(asked.thresholds[0].value) is float


def test_suppressions() -> None:
    text = f"""
        [[suppress]]
        check = "{LINK}"
        reason = "  the WAN,
 ticket 7 "
        ranks = "0-2, 8"
        hosts = ["node*"]
        match = "lost [0-9]+"
        location = "train.py:4"
        [[suppress]]
        check = "network/*"
        reason = "known"
        ranks = [3, 1]
    """
    asked = read(text.replace('"  the', '"""  the').replace(' 7 "', ' 7 """'))
    assert list(asked.suppress) == [
        Suppression(
            check=LINK,
            reason="the WAN, ticket 7",
            ranks=(0, 1, 2, 8),
            hosts=("node*",),
            match="lost [0-9]+",
            location="train.py:4",
        ),
        Suppression(check="network/*", reason="known", ranks=(3, 1)),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("severity = 7", "severity: Expected `table`, got `int`"),
        ("[severity]\n'network/losy-link' = 'info'", f"did you mean {LINK}"),
        (f"[severity]\n'{LINK}' = 'off'", "is 'off'; choose from error, warning, info, or use"),
        (f"[severity]\n'{LINK}' = ['info']", "is ['info']; choose from"),
        ("thresholds = []", "thresholds: Expected `table`, got `array`"),
        ("[thresholds]\nLONG_S = 7", "thresholds.LONG_S: Expected `table`, got `int`"),
        ("[thresholds.network]\nLONG_S = 7", "name one check by its id, not several"),
        ("[thresholds.'network/none']\nLONG_S = 7", "no check is called 'network/none'"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, told: str) -> None:
    assert told in refusal(text)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("LONG_T", "1", "has no such threshold; it has LONG_S, LONG_RATIO"),
        ("ID", "'x'", "has no such threshold"),
        ("LONG_S", "'1'", "Expected `float`, got `str`; it is 0.005 now"),
        ("LONG_S", "true", "Expected `float`, got `bool`"),
        ("LONG_S", "-0.1", "Expected `float` >= 0.0"),
        ("LONG_S", "nan", "Expected `float` >= 0.0"),
        ("LONG_S", "inf", "Expected a finite number"),
        ("LONG_S", "[1]", "Expected `float`, got `array`"),
    ],
)
def test_a_threshold_must_be_one_of_the_checks_and_of_its_type(
    name: str, value: str, told: str
) -> None:
    line = refusal(f"[thresholds.'{LINK}']\n{name} = {value}")
    assert line.startswith(f'ddpcheck.toml: thresholds."{LINK}".{name}: ')
    assert told in line


def test_a_count_is_a_whole_number_and_a_table_keeps_its_keys() -> None:
    count = "[thresholds.'devices/memory-errors']\nMANY_CORRECTED_COUNT = 1.5"
    assert "Expected `int`, got `float`" in refusal(count)
    table = "[thresholds.'collectives/slow-link']\nLEAST_RATIO = { mpi = 1 }"
    assert "there is no 'mpi' in it, only nccl, gloo" in refusal(table)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"reason": None}, "it lacks the required field `reason`"),
        ({"reason": "''"}, "the reason is blank"),
        ({"reason": '" \\n"'}, "the reason is blank"),
        ({"check": None}, "it lacks the required field `check`"),
        ({"check": "'network/none'"}, "no check is called 'network/none'"),
        ({"check": "'ranks/lost'"}, "cannot be suppressed"),
        ({"check": "'ranks'"}, "cannot be suppressed"),
        ({"until": "2026-12-31"}, "it has the unknown field `until`"),
        ({"ranks": "[-1]"}, "ranks[0]: Expected `int` >= 0"),
        ({"ranks": "'7-3'"}, "7-3 is no span of ranks"),
        ({"ranks": "'0-9999999999'"}, "is no span of ranks"),
        ({"ranks": "'all'"}, "ranks 'all' cannot be read"),
        ({"hosts": "'node0'"}, "hosts: Expected `array`, got `str`"),
        ({"hosts": "['']"}, "a host has no name"),
        ({"match": "'('"}, "match is no regular expression"),
        ({"location": "':7'"}, "location ':7' names no file"),
    ],
)
def test_a_suppression_that_says_too_little_or_too_much(
    changes: dict[str, str | None], told: str
) -> None:
    parts: dict[str, str | None] = {"check": f"'{LINK}'", "reason": "'known'", **changes}
    lines = [f"{name} = {value}" for name, value in parts.items() if value is not None]
    line = refusal("\n".join(["[[suppress]]", *lines]))
    assert line.startswith("ddpcheck.toml: suppress (number 1): ")
    assert told in line


def test_suppressions_are_a_list_of_tables() -> None:
    assert "suppress: Expected `array`, got `table`" in refusal("[suppress]\ncheck = 'x'")
    assert "suppress (number 2)" in refusal(
        f"[[suppress]]\ncheck = '{LINK}'\nreason = 'a'\n[[suppress]]\ncheck = '{LINK}'"
    )


def test_a_pattern_may_name_what_became_of_the_ranks_beside_other_checks() -> None:
    (only,) = read("[[suppress]]\ncheck = '*'\nreason = 'a trial'").suppress
    assert only == Suppression(check="*", reason="a trial")
