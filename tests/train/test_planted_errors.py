"""Each strategy with the error that people make with it: it must be found, and where it shows."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.pipelining import PipelineStage
from torch.distributed.tensor import DTensor, Partial
from torch.nn.parallel import DistributedDataParallel
from verified import Plant, verify

from ddpcheck.target.minigpt import PADDING, MiniGPT, next_byte_loss, summed_cross_entropy
from ddpcheck.train.optimizer import adamw
from ddpcheck.train.parallel import Place, Scale, Share
from ddpcheck.train.precision import AgreedScaler
from ddpcheck.train.strategies import ddp, fsdp, pp, tp
from ddpcheck.train.trainer import StepPart, Trainer


def mean_over_the_rank() -> None:
    """Plant a loss that is the mean over a rank's predictions, as in most scripts."""

    def backward(
        model: DistributedDataParallel, place: Place, batch: Tensor, _total: Tensor, scale: Scale
    ) -> Tensor:
        loss = next_byte_loss(model, batch)
        scale(loss).backward()
        return loss.detach() / place.everyone.size

    pytest.MonkeyPatch().setattr(ddp, "backward", backward)


def optimizer_before_sharding() -> None:
    """Plant an optimizer of the parameters that sharding replaces."""
    shard = fsdp.shard
    built: list[torch.optim.Optimizer] = []

    def build_then_shard(
        model: MiniGPT, place: Place, mesh: DeviceMesh, options: fsdp.Options
    ) -> MiniGPT:
        built.append(adamw(model))
        return shard(model, place, mesh, options)

    def built_before(_: MiniGPT) -> torch.optim.Optimizer:
        return built[-1]

    patch = pytest.MonkeyPatch()
    patch.setattr(fsdp, "shard", build_then_shard)
    patch.setattr(fsdp, "adamw", built_before)


def do_nothing(_: torch.optim.Optimizer) -> None:
    """Leave the gradients as they are."""


def gradients_left_scaled(kind: type[torch.amp.GradScaler]) -> None:
    """Plant a step that clips before the scaler divides the gradients, which it does by itself."""
    rightly = Trainer.gradients

    def gradients(self: Trainer, number: int, batch: Tensor) -> StepPart:
        with pytest.MonkeyPatch.context() as patch:
            if isinstance(self.scaler, kind):
                patch.setattr(self.scaler, "unscale_", do_nothing)
            return rightly(self, number, batch)

    pytest.MonkeyPatch().setattr(Trainer, "gradients", gradients)


def compressed_unasked() -> None:
    """Plant gradients that travel in bf16 though nobody asked for it."""
    replicate = ddp.replicate

    def hook(group: dist.ProcessGroup, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        return bf16_compress_hook(group, bucket)

    def compressed(model: nn.Module, place: Place) -> DistributedDataParallel:
        wrapped = replicate(model, place)
        wrapped.register_comm_hook(None, hook)
        return wrapped

    pytest.MonkeyPatch().setattr(ddp, "replicate", compressed)


def own_parts_of_gradients() -> None:
    """Plant gradients of norms that are those of a rank's own positions, as if they were whole."""

    def left_as_they_are(model: nn.Module) -> None:
        for parameter in model.parameters():
            assert isinstance(parameter, DTensor)
            gradient = parameter.grad
            if isinstance(gradient, DTensor) and gradient.placements[0].is_partial():
                own, mesh = gradient.to_local(), gradient.device_mesh
                parameter.grad = DTensor.from_local(own, mesh, parameter.placements)

    pytest.MonkeyPatch().setattr(tp, "reduce_gradients", left_as_they_are)


def bias_of_every_rank() -> None:
    """Plant row-parallel products whose bias every rank adds, before they are summed."""
    parallelize = tp.parallelize

    def with_biases(model: MiniGPT, mesh: DeviceMesh) -> None:
        parallelize(model, mesh)

        def added_again(module: nn.Module, _: Any, result: Tensor) -> Tensor:
            bias = module.bias
            assert isinstance(bias, DTensor)
            return result + (mesh.size() - 1) * bias.full_tensor(grad_placements=[Partial()])

        for name, module in model.named_modules():
            if name.endswith(("attention.out", "feed_forward.2")):
                module.register_forward_hook(added_again)

    pytest.MonkeyPatch().setattr(tp, "parallelize", with_biases)


def other_data_within_a_group() -> None:
    """Plant shares of the batch for each rank of a tensor-parallel group."""

    def along_all(_mesh: DeviceMesh, _axis: str) -> Share:
        return Share(dist.get_rank(), dist.get_world_size(), dist.group.WORLD)

    pytest.MonkeyPatch().setattr(tp, "share_along", along_all)


def means_of_micro_batches() -> None:
    """Plant a loss that is the mean over a micro-batch, and is not divided by their number."""

    def mean(logits: Tensor, answers: Tensor, _total: Tensor) -> Tensor:
        return summed_cross_entropy(logits, answers) / (answers != PADDING).sum()

    pytest.MonkeyPatch().setattr(pp, "part_of_the_loss", mean)


def gradients_divided_once_more() -> None:
    """Plant torch's own schedule, which divides gradients by the number of micro-batches."""

    def torchs_own(name: str, stage: PipelineStage, micro_batches: int, loss: Any) -> Any:
        return pp.SCHEDULES[name](stage, micro_batches, loss_fn=loss)

    pytest.MonkeyPatch().setattr(pp, "schedule_of", torchs_own)


def clipping_within_a_stage() -> None:
    """Plant stages that clip by the norm of their own gradients, as clip_grad_norm_ does."""

    def alone(stage: nn.Module, _stages: Share, largest: float) -> Tensor:
        return nn.utils.clip_grad_norm_(stage.parameters(), largest)

    pytest.MonkeyPatch().setattr(pp, "clip_over_stages", alone)


def test_a_mean_of_means_is_found_in_the_first_loss(tmp_path: Path) -> None:
    seen = verify(tmp_path, "ddp", mean_over_the_rank)
    assert seen.broken() == ("loss", 1, "")
    assert seen.exit_codes == {1}


def test_an_optimizer_of_what_was_before_sharding_is_found(tmp_path: Path) -> None:
    seen = verify(tmp_path, "fsdp", optimizer_before_sharding)
    assert seen.broken() == ("weights", 1, "bytes.weight")
    assert seen.exit_codes == {1}


def test_clipping_what_is_still_scaled_is_found(tmp_path: Path) -> None:
    plant = partial(gradients_left_scaled, AgreedScaler)
    seen = verify(tmp_path, "ddp", plant, precision="fp16")
    assert seen.broken() == ("norm", 1, "")


def test_so_it_is_where_one_process_does_it_too(tmp_path: Path) -> None:
    plant = partial(gradients_left_scaled, torch.amp.GradScaler)
    seen = verify(tmp_path, "ddp", plant, precision="fp16")
    assert seen.broken() == ("reference", 1, "norm")


def test_compression_that_nobody_asked_for_is_found(tmp_path: Path) -> None:
    seen = verify(tmp_path, "ddp", compressed_unasked)
    assert seen.broken()[1] == 1
    assert seen.suspect()


def test_norms_whose_gradients_are_not_reduced_are_found_by_name(tmp_path: Path) -> None:
    seen = verify(tmp_path, "tp", own_parts_of_gradients)
    assert seen.broken() == ("norm", 1, "")
    assert "norm." in seen.suspect()


def test_a_bias_that_every_rank_adds_is_found_by_name(tmp_path: Path) -> None:
    seen = verify(tmp_path, "tp", bias_of_every_rank)
    assert seen.broken() == ("loss", 1, "")
    assert seen.suspect().endswith(("attention.out.bias", "feed_forward.2.bias"))


def test_ranks_of_a_group_that_have_other_data_are_found(tmp_path: Path) -> None:
    seen = verify(tmp_path, "tp", other_data_within_a_group)
    assert seen.broken() == ("loss", 1, "")


def test_means_of_micro_batches_are_found_in_the_first_loss(tmp_path: Path) -> None:
    seen = verify(tmp_path, "pp", means_of_micro_batches)
    assert seen.broken() == ("loss", 1, "")


@pytest.mark.parametrize("plant", [gradients_divided_once_more, clipping_within_a_stage])
def test_a_pipeline_with_gradients_of_another_size_is_found_in_the_first_norm(
    tmp_path: Path, plant: Plant
) -> None:
    seen = verify(tmp_path, "pp", plant)
    assert seen.broken() == ("norm", 1, "")
