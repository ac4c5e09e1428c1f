"""What a tensor was made of, and to which part of that a backward pass comes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn

# So many operations before the tensor are looked at: its own layers are near.
KEPT_OPERATIONS = 64
LEAF = "torch::autograd::AccumulateGrad"
# What stands between a parameter and the operation that uses it: a cast, or another shape.
ON_THE_WAY = {
    *("TBackward0", "ToCopyBackward0", "TransposeBackward0", "PermuteBackward0"),
    *("ViewBackward0", "UnsafeViewBackward0", "ExpandBackward0", "CloneBackward0"),
}
LONGEST_WAY = 4
# DDP hands all outputs of a model through it, each by itself.
PASSES_ON = "_DDPSinkBackward"
# An operation by its number, and which of its results.
Edge = tuple[int, int]


@dataclass
class _Operation:
    """Where its inputs come from, by their place, and the parameters that it uses."""

    passes_on: bool
    inputs: list[Edge | None] = field(default_factory=list[Edge | None])
    parameters: list[int] = field(default_factory=list[int])


class Ancestry:
    """The operations that a tensor comes of, the nearest first, and which of them get a gradient.

    It keeps no part of the graph, and its hooks go with the graph. ``wants_none`` is whether it was
    made within no_grad: whoever cuts a gradient there may want to, as long as the layers learn.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self.wants_none = not torch.is_grad_enabled()
        self._known: dict[int, nn.Parameter] = {}
        self._start: Edge = (0, tensor.output_nr)
        self._operations: list[_Operation] = []
        self._reached: set[Edge] = set()
        self._follow(tensor.grad_fn)

    def parameter_without_gradient(self) -> int | None:
        """Return the id of a parameter that the tensor was made with, if no gradient came there.

        None where a gradient came to the tensor, or where it is only something that is derived from
        what gets a gradient in another way, as probabilities are from logits; within no_grad where
        one came to the parameter in any way.
        """
        waiting: list[Edge | None] = [self._start]
        seen: set[Edge] = set()
        while waiting:
            edge = waiting.pop(0)
            if edge is None or edge in seen or edge in self._reached:
                continue
            seen.add(edge)
            number, result = edge
            operation = self._operations[number]
            if operation.passes_on:
                waiting += operation.inputs[result : result + 1]
            elif not self._is_reached(number):
                if operation.parameters:
                    return self._unless_it_learns(operation.parameters[0])
                waiting += operation.inputs
        return None

    def _unless_it_learns(self, parameter: int) -> int | None:
        gradient = self._known[parameter].grad if self.wants_none else None
        return parameter if gradient is None or not gradient.any() else None

    def _is_reached(self, number: int) -> bool:
        return any(each == number for each, _ in self._reached)

    def _follow(self, first: Any) -> None:
        nodes, numbers = [first], {first: 0}
        for number, node in enumerate(nodes):  # it grows meanwhile
            node.register_prehook(partial(self._come, number))
            operation = _Operation(node.name() == PASSES_ON)
            self._operations.append(operation)
            for source, result in node.next_functions:
                parameter = _parameter_behind(source)
                if parameter is not None:
                    operation.parameters.append(id(parameter))
                    self._known[id(parameter)] = parameter
                is_one = source is not None and source.name() != LEAF
                if is_one and source not in numbers and len(nodes) < KEPT_OPERATIONS:
                    numbers[source] = len(nodes)
                    nodes.append(source)
                known = is_one and source in numbers
                operation.inputs.append((numbers[source], result) if known else None)

    def _come(self, number: int, gradients: Any) -> None:
        self._reached.update((number, at) for at, each in enumerate(gradients) if each is not None)


def _parameter_behind(source: Any) -> nn.Parameter | None:
    for _ in range(LONGEST_WAY):
        if source is None or source.name() == LEAF:
            break
        if source.name() not in ON_THE_WAY or len(source.next_functions) != 1:
            return None
        source = source.next_functions[0][0]
    leaf = getattr(source, "variable", None)
    return leaf if isinstance(leaf, nn.Parameter) else None
