"""Which parameters a backward pass reaches, and which a whole step."""

import torch
from torch import nn

from ddpcheck.watch.reached import Reached


def stepped(net: nn.ModuleDict, *passes: str) -> tuple[Reached, list[str] | None]:
    """Make a backward pass through each of the named parts, and end the step."""
    reached = Reached(net)
    for part in passes:
        reached.end_backward()
        net[part](torch.ones(2, 3)).sum().backward()
    return reached, reached.end_step()


def parts() -> nn.ModuleDict:
    return nn.ModuleDict({"g": nn.Linear(3, 1), "d": nn.Linear(3, 1)})


def test_halves_that_take_turns_are_reached_by_parts() -> None:
    reached, unreached = stepped(parts(), "g", "d")
    assert (unreached, reached.by_parts) == ([], True)


def test_what_no_pass_of_a_step_reaches_is_told() -> None:
    _, unreached = stepped(parts(), "g", "g")
    assert unreached == ["d.weight", "d.bias"]


def test_passes_that_reach_all_are_whole() -> None:
    net = nn.ModuleDict({"whole": nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))})
    reached, unreached = stepped(net, "whole", "whole")
    assert (unreached, reached.by_parts) == ([], False)


def test_what_is_frozen_is_not_waited_for() -> None:
    net = parts()
    net["d"].requires_grad_(False)
    reached, unreached = stepped(net, "g")
    assert (unreached, reached.by_parts) == ([], False)


def test_a_step_without_a_backward_pass_tells_nothing() -> None:
    assert stepped(parts())[1] is None


def test_the_hooks_come_off() -> None:
    net = parts()
    reached, _ = stepped(net, "g")
    reached.close()
    net["g"](torch.ones(2, 3)).sum().backward()
    assert reached.end_step() is None
