import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import nn

from ddpcheck.errors import TargetError
from ddpcheck.target.builtin import BUILT_IN
from ddpcheck.target.load import build, find_factory, is_built_in
from ddpcheck.target.target import Target

MODEL = nn.Linear(1, 1)
LOADER = [torch.ones(2, 1)]
GOOD = """
import torch
def make():
    return torch.nn.Linear(1, 1), [torch.ones(2, 1)], lambda model, batch: model(batch).mean()
"""


@pytest.fixture(autouse=True)
def _import_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Work in an empty folder, and forget what a test imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def written(text: str, name: str = "my_training.py") -> str:
    Path(name).write_text(text)
    return name


def found(spec: str) -> Any:
    return find_factory(spec, "", 0, 1)()


def refusal(spec: str) -> str:
    """Return what is said of a target that cannot be had: one line that names it."""
    with pytest.raises(TargetError) as told:
        build(find_factory(spec, "", 0, 1), spec)
    message = str(told.value)
    assert message.startswith(f"--target {spec}: ")
    assert "\n" not in message
    return message.removeprefix(f"--target {spec}: ")


def loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(model(batch)).mean()


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_built_in_targets_are_found_by_name(name: str, tmp_path: Path) -> None:
    data = tmp_path / "text"
    data.write_bytes(bytes(range(256)) * 80)
    assert is_built_in(name)
    assert isinstance(build(find_factory(name, str(data), 1, 2), name), Target)


@pytest.mark.parametrize("name", ["", "minigpt:", "MiniGPT", "train.py:make", "convnet:convnet"])
def test_other_names_are_not_built_in(name: str) -> None:
    assert not is_built_in(name)


@pytest.mark.parametrize("spec", ["my_training.py:make", "./my_training.py:make"])
def test_a_factory_is_found_in_a_file(spec: str) -> None:
    written(GOOD)
    assert isinstance(build(find_factory(spec, "", 0, 1), spec), Target)


def test_a_factory_is_found_in_a_module_of_the_working_directory() -> None:
    written(GOOD, "some_module.py")
    assert isinstance(build(find_factory("some_module:make", "", 0, 1), "x"), Target)


def test_a_factory_is_found_in_a_package() -> None:
    Path("parts").mkdir()
    written("", "parts/__init__.py")
    written(GOOD, "parts/tiny.py")
    assert len(found("parts.tiny:make")) == 3


def test_a_file_finds_its_neighbours() -> None:
    Path("code").mkdir()
    written("NUMBER = 7", "code/my_neighbour.py")
    written("import my_neighbour\ndef make(): return my_neighbour.NUMBER", "code/mine.py")
    assert found("code/mine.py:make") == 7


def test_a_class_is_a_factory_and_its_instances_can_be_pickled() -> None:
    written("class Make:\n    pass", "with_class.py")
    made = found("with_class.py:Make")
    assert sys.modules[type(made).__module__].Make is type(made)


def test_a_callable_target_is_called_once_a_build() -> None:
    written("calls = []\ndef make():\n    calls.append(1)\n    return len(calls)", "counted.py")
    factory = find_factory("counted.py:make", "", 0, 1)
    assert [factory(), factory()] == [1, 2]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param("train.py", "name a built-in target (minigpt, convnet)", id="no factory"),
        pytest.param("", "name a built-in target", id="nothing"),
        pytest.param("no_such_module:make", "ModuleNotFoundError", id="no module"),
        pytest.param("no_such.py:make", "there is no file no_such.py", id="no file"),
        pytest.param("no_such/folder/train.py:make", "there is no file", id="no folder"),
        pytest.param(":make", "does not import", id="no place"),
        pytest.param("my_training.py:", "has no function", id="no name"),
        pytest.param("my_training.py:mke", "my_training.py has no function mke", id="a typo"),
        pytest.param("my_training.py:torch.nn", "has no function torch.nn", id="dots"),
        pytest.param("my_training.py:torch", "has no function torch", id="no function"),
        pytest.param("os:sep", "os has no function sep", id="a text"),
    ],
)
def test_what_is_not_there_is_told_in_one_line(spec: str, words: str) -> None:
    written(GOOD)
    assert words in refusal(spec)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("def make(:\n    pass", ["SyntaxError", "my_training.py:1"], id="syntax"),
        pytest.param("import torch\n\n1 / 0", ["ZeroDivisionError", "my_training.py:3"], id="1/0"),
        pytest.param("import no_such_thing", ["no_such_thing", "my_training.py:1"], id="import"),
        pytest.param("raise ValueError('two\\nlines')", ["ValueError: two lines"], id="lines"),
        pytest.param("raise TypeError", ["TypeError", "my_training.py:1"], id="no text"),
    ],
)
def test_a_file_that_does_not_import_is_told_with_its_line(text: str, words: list[str]) -> None:
    written(text)
    message = refusal("my_training.py:make")
    assert "does not import" in message
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param("raise OSError('no\\n data')", ["OSError: no data", "py:2"], id="raises"),
        pytest.param("return {}['x']", ["KeyError: 'x'", "py:2"], id="a key"),
        pytest.param("return helper()", ["ZeroDivisionError", "py:4"], id="the innermost line"),
    ],
)
def test_a_factory_that_raises_is_told_with_its_line(body: str, words: list[str]) -> None:
    written(f"def make():\n    {body}\ndef helper():\n    return 1 / 0\n")
    message = refusal("my_training.py:make")
    assert "the factory raised" in message
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize("body", ["json.loads('{')", "json.dumps({1, 2})"])
def test_what_a_library_raises_is_told_with_the_users_line(body: str) -> None:
    written(f"import json\ndef make():\n    {body}\n")
    assert "my_training.py:3" in refusal("my_training.py:make")


def test_a_factory_that_wants_arguments_is_told() -> None:
    written("def make(args):\n    pass")
    assert "missing 1 required positional argument: 'args'" in refusal("my_training.py:make")


def test_what_a_factory_says_for_the_user_is_left_as_it_is() -> None:
    def make() -> None:
        raise TargetError("mend this")

    with pytest.raises(TargetError, match=r"^mend this$"):
        build(make, "x:y")


@pytest.mark.parametrize(
    "text",
    [
        "import sys\nsys.exit(2)\ndef make(): pass",
        "import argparse\nargparse.ArgumentParser().parse_args()\ndef make(): pass",
        "def make():\n    raise SystemExit('no GPU')",
    ],
)
def test_a_script_that_exits_is_told(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["ddpcheck", "run", "--target", "my_training.py:make"])
    written(text)
    try:
        assert refusal("my_training.py:make")
    except SystemExit as left:
        raise AssertionError(str(left)) from left


@pytest.mark.parametrize(
    ("made", "words"),
    [
        pytest.param(None, "the factory returned NoneType, not a Target or", id="None"),
        pytest.param(MODEL, "the factory returned Linear", id="a model alone"),
        pytest.param([MODEL, LOADER, loss], "the factory returned list", id="a list"),
        pytest.param((MODEL, LOADER), "the factory returned tuple", id="too few"),
        pytest.param((MODEL, LOADER, loss, None, None, 6), "the factory returned", id="too many"),
        pytest.param((None, LOADER, loss), "the model is NoneType", id="no model"),
        pytest.param((LOADER, MODEL, loss), "the model is list", id="swapped"),
        pytest.param((MODEL, 3, loss), "the loader is int, which cannot be iterated", id="loader"),
        pytest.param((MODEL, LOADER, 1.5), "the loss is float, which cannot be called", id="loss"),
        pytest.param(
            Target(MODEL, LOADER, cast(Any, torch.ones(()))),
            "the loss is Tensor",
            id="the loss of a Target",
        ),
    ],
)
def test_what_is_no_target_is_told_in_one_line(made: Any, words: str) -> None:
    with pytest.raises(TargetError) as told:
        build(lambda: made, "x:y")
    assert words in str(told.value)
    assert str(told.value).startswith("--target x:y: ")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("rest", [(5,), (None, 5)])
def test_an_optimizer_or_wrap_that_is_none_is_told(rest: tuple[Any, ...]) -> None:
    with pytest.raises(TargetError):
        build(lambda: (MODEL, LOADER, loss, *rest), "x:y")


def test_tuples_become_targets() -> None:
    optimizer = torch.optim.SGD(MODEL.parameters(), lr=0.1)
    short = build(lambda: (MODEL, LOADER, loss), "x:y")
    assert (short.model, short.loader, short.loss) == (MODEL, LOADER, loss)
    assert (short.optimizer, short.wrap) == (None, None)
    whole = build(lambda: (MODEL, LOADER, loss, optimizer, nn.Sequential), "x:y")
    assert (whole.optimizer, whole.wrap) == (optimizer, nn.Sequential)
    assert build(lambda: whole, "x:y") is whole
