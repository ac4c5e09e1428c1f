import pytest

from ddpcheck.measures.script_arguments import old_local_rank_arguments

OLD = 'parser.add_argument("--local_rank", type=int, default=-1)\n'


@pytest.mark.parametrize(
    ("source", "note"),
    [
        pytest.param(OLD, "", id="the old spelling alone"),
        pytest.param(
            "import os\nr = int(os.environ['LOCAL_RANK'])\n" + OLD, "environment", id="both"
        ),
        pytest.param("import os\nos.environ['LOCAL_RANK'] = '0'\n" + OLD, "", id="set, not read"),
        pytest.param('group.add_argument("-l", "--local_rank")', "", id="with a short name"),
    ],
)
def test_the_old_spelling(source: str, note: str) -> None:
    (place,) = old_local_rank_arguments(source)
    assert place.note == note


@pytest.mark.parametrize(
    "source",
    [
        'parser.add_argument("--local_rank", "--local-rank", type=int)',
        'parser.add_argument("--local-rank", "--local_rank", type=int)',
        OLD + 'parser.add_argument("--local-rank", dest="local_rank")',
        'parser.add_argument("--local-rank")',
        'parser.add_argument("--rank")',
        "import deepspeed\n" + OLD,
        'print("--local_rank")',
    ],
)
def test_silent(source: str) -> None:
    assert old_local_rank_arguments(source) == []
