import torch

from ddpcheck.target.builtin import seeded
from ddpcheck.target.minigpt import MiniGPT, MiniGPTConfig, count_predictions, next_byte_loss
from ddpcheck.train.exact import Exact
from ddpcheck.train.optimizer import MAX_GRADIENT_NORM
from ddpcheck.train.parallel import Place
from ddpcheck.train.recipe import Recipe

PLACE = Place(Recipe(strategy="single", backend="gloo", device="cpu"), torch.device("cpu"))


def small_model() -> MiniGPT:
    return seeded(lambda: MiniGPT(MiniGPTConfig(block=8, layers=1, heads=2, width=16)))


def test_a_step_is_what_float64_makes_of_the_weights_that_are_given() -> None:
    random = torch.Generator().manual_seed(1)
    batches = [torch.randint(256, (4, 9), generator=random) for _ in range(3)]
    exact = Exact(small_model(), PLACE, batches)
    weights = {name: each + 0.1 for name, each in small_model().state_dict().items()}
    step = exact(2, weights)
    model = small_model().double()
    model.load_state_dict(weights)
    loss = next_byte_loss(model, batches[1])
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
    assert count_predictions(batches[1]) == 32
    torch.testing.assert_close(step.loss, loss.item(), rtol=1e-12, atol=0)
    torch.testing.assert_close(step.norm, norm.item(), rtol=1e-12, atol=0)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(step.gradients[name], parameter.grad, rtol=1e-10, atol=1e-12)
    # One step leaves nothing for the next, and the same weights need no second look.
    assert exact(2, {name: each.clone() for name, each in weights.items()}) is step
    again = exact(2, small_model().state_dict())
    assert again.loss != step.loss
    torch.testing.assert_close(exact(2, weights).gradients, step.gradients, rtol=0, atol=0)
