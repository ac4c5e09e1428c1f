import ast
from pathlib import Path

import pytest

from ddpcheck.measures.script import Place, Script, shown, text_of


def calls(source: str) -> list[list[str]]:
    """Return the names of what is called, path by path."""
    script = Script(source)
    return [[name for event in path if (name := script.called(event))] for path in script.paths]


def test_names_are_told_in_full() -> None:
    source = "import torch\nimport torch.distributed as dist\nfrom torch.cuda import set_device\n"
    source += (
        "from torch import nn\nset_device(0)\ndist.barrier()\ntorch.cuda.init()\nnn.Linear(1, 1)"
    )
    assert calls(source) == [
        ["torch.cuda.set_device", "torch.distributed.barrier", "torch.cuda.init", "torch.nn.Linear"]
    ]


def test_a_function_runs_where_it_is_called() -> None:
    assert calls("def main():\n    inner()\nfirst()\nmain()\nlast()") == [
        ["first", "main", "inner", "last"]
    ]


def test_a_function_that_is_handed_over_runs_too() -> None:
    assert calls("def work(rank):\n    inner()\nmp.spawn(work)") == [["mp.spawn", "inner"]]


def test_methods_and_constructors_are_followed() -> None:
    source = (
        "class T:\n    def __init__(self):\n        built()\n    def fit(self):\n        fitted()\n"
        "t = T()\nt.fit()"
    )
    assert calls(source) == [["T", "built", "t.fit", "fitted"]]


def test_a_name_of_two_functions_means_none() -> None:
    source = "class A:\n    def f(self): a()\nclass B:\n    def f(self): b()\nx.f()"
    assert calls(source) == [["x.f"]]


def test_a_module_s_function_is_not_ones_own() -> None:
    source = (
        "import torch.distributed as dist\nclass A:\n    def barrier(self): own()\ndist.barrier()"
    )
    assert calls(source)[0] == ["torch.distributed.barrier"]


def test_what_nobody_calls_comes_after_the_file() -> None:
    assert calls("def make():\n    made()\nfirst()") == [["first"], ["first", "made"]]


def test_recursion_ends() -> None:
    assert calls("def f():\n    f()\n    g()\nf()") == [["f", "f", "g"]]


def test_branches_exclude_each_other() -> None:
    script = Script("if a:\n    f()\nelse:\n    g()\nh(i() if b else j())")
    (path,) = script.paths
    f, g, i, j, h = path
    assert [script.called(each) for each in path] == ["f", "g", "i", "j", "h"]
    assert f.excludes(g)
    assert i.excludes(j)
    assert not f.excludes(h)
    assert f.condition == "a"


@pytest.mark.parametrize("source", ["", "def", "\0", "(" * 10_000])
def test_what_does_not_parse_is_empty(source: str) -> None:
    assert Script(source).paths == [[]]


def test_every_statement_of_python_can_be_read() -> None:
    source = Path(ast.__file__).read_text()
    assert sum(len(path) for path in Script(source).paths) > 100


def test_text_of_a_script(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_bytes("# -*- coding: latin-1 -*-\nx = 'é'\n".encode("latin-1"))
    assert "é" in text_of(str(script))
    script.write_bytes(b"\xff\xfe\x00")
    assert text_of(str(script)) == ""
    assert text_of(str(tmp_path / "gone.py")) == ""
    assert text_of("/usr/bin/env") == ""


def test_many_places_are_shown_in_few_words() -> None:
    assert shown([Place(n, f"f({n})") for n in range(1, 11)]).endswith("line 8: f(8); and 2 more")
