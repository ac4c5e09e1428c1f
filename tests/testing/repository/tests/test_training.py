"""The repository's tests: its training on two ranks."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from training import Classifier, train


def test_cluster(ddpcheck_report):
    assert not [each for each in ddpcheck_report.findings if each.severity == "error"]


@pytest.mark.ranks(2)
def test_gradients_are_the_mean_of_the_ranks(ddpcheck_world):
    torch.manual_seed(0)
    model = DistributedDataParallel(Classifier())
    inputs = torch.randn(2, 4, 16)
    labels = torch.zeros(2, 4, dtype=torch.int64)
    nn.functional.cross_entropy(model(inputs[ddpcheck_world.rank]), labels[0]).backward()
    alone = Classifier()
    alone.load_state_dict(model.module.state_dict())
    nn.functional.cross_entropy(alone(inputs.flatten(0, 1)), labels.flatten()).backward()
    for own, expected in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(own.grad, expected.grad)


@pytest.mark.ranks(2)
def test_all_ranks_end_with_a_loss():
    losses = [None, None]
    dist.all_gather_object(losses, train(epochs=1))
    assert all(0 < each < 3 for each in losses)


def test_training_is_sound(ddpcheck_watch):
    ddpcheck_watch(train, ranks=2, steps=12)
