"""The events of a training, and how observers receive them.

The rehearsal emits them (``engine.rehearsal``), or hooks on a script of the user's (``hooks``).

An observer is any object with methods named after events; it has only those it wants. Its ``parts``,
if it has any, are such objects too, and receive each event before it:

    on_placed(module)         the bare model is where it will be trained
    on_built(live)            the target is on its device and wrapped
    on_epoch(feed)            an iteration over a DataLoader begins; scripts only
    on_indices(feed, indices) its sampler has chosen the samples of a batch; scripts only
    on_sampling()             samples are about to be fetched, here or in a forked worker, which has
                              copies of the observers; scripts only
    on_sampled(indices)       they were fetched, and made a batch of; None are those of streams
    on_asked(feed)            the script asks this DataLoader for a batch; scripts only
    on_fed(feed)              the next batch is of this DataLoader; scripts only
    on_batch(step, batch)     a batch as the loader gave it
    on_inputs(step, inputs)   what goes into the wrapped model, arguments and named ones; scripts only
    on_entered(took_s)        DDP did what comes before its forward pass, in which ranks may wait for
                              rank 0's buffers; scripts only
    on_searched(step, took_s, outputs)   DDP searched the graph of its outputs, so many tensors, for
                              unused parameters; scripts only
    on_loss(step, loss)       the loss before backward
    on_gradients(step)        after backward, before the optimizer's step
    on_step(step)             after the optimizer's step
    on_other_step()           an optimizer made a step that is not the one of this training; scripts only
    on_raise(step, error)     the training raised
    on_ended()                the script came to its end, and did not raise; scripts only
    on_drained(feed)          an iteration over a DataLoader came to its end; scripts only
    on_saved(path, value, location)      torch.save wrote a value; the path is '' for what is neither
                              one nor a file that was opened by one; scripts only, as all that follow
    on_loaded(module, given, missing, unexpected, location)   a state of these keys was loaded
    on_captured(module, versions)        its state_dict() was asked for, with tensors of these versions
    on_reloading(module, given, versions, location)   its own tensors, of these keys, are given to it:
                              it loads what they are now
    on_returning(module)      the parts of a sharded one that are here are given to it, as they are
                              now: maybe filled, by torch itself; ``loaded`` follows
    on_scaled()               a GradScaler that is enabled took a step
    on_split(dataset, parts, location)   random_split made Subsets of a dataset
    on_chosen(subset, location)          a Subset was made, by random_split too, which tells it first
    on_optimizing(optimizer, location)   an optimizer was made, maybe as a part of another
    on_compiled(module)       torch.compile was called on it: its forwards are not told of any more
    on_sharding(module, location)        fully_shard is called on a module, whose parameters are whole
    on_sharded(module, mesh, location)   it has been, or by FullyShardedDataParallel over all ranks
    on_averaged(loss, targets, ignored, location)   a loss is the mean over the targets but those of
                              the value ``ignored``: by cross_entropy or nll_loss, with a gradient
    on_gathered(tensor, location)        a tensor that was computed goes into an all_gather, which
                              cuts its gradient; within no_grad, too
    on_reducing(tensor, ranks)           the script sums floating point values over these ranks
    on_weighed(came, made)    a hook of the script's own on a tensor made another gradient of what
                              came, None for both where it did so in place
    on_pickled(operation, value, size_bytes, ranks, location)   a collective of objects pickled a value,
                              for a group of so many ranks; not told of small ones
    on_stored(value, location)           a value is about to be written as a distributed checkpoint, by
                              ``async_save``, too; whatever has a state_dict is replaced by that
    on_storing(path, leads, location)    this rank's part of a distributed checkpoint will be written
                              there; one rank leads, or each does where each writes one by itself
    on_read(held, asked, location)       of a distributed checkpoint that holds these keys, each with
                              what torch noted of it, these are to be loaded
    on_restored(value, location)         torch.distributed.checkpoint.load has filled this value
    on_scheduled(scheduler, location)    a learning rate scheduler made a step, not as a part of another
    on_measured(scheduler, location)     one made a step by a measure: ReduceLROnPlateau's
    on_resumed(optimizer, location)      an optimizer was given a state
    on_called(call)           a collective of torch.distributed returned; see ``meetings.Called``
    on_joint(ranks)           a backward pass made a collective among these ranks, and not for FSDP; told
                              once for each
    on_spread(ranks)          the forward of a torch.autograd.Function made one: what it works on may be
                              spread over these ranks; told once for each
    on_exchanged(ranks)       a backward pass, or the forward of a Function, made an all_to_all among these
                              ranks, as between experts; told once for each
    on_passed(ranks)          one rank sends a tensor to another, as stages of a pipeline do; told once
                              for each two
    on_grouped(group)         the script made a group; see ``meetings.Grouped``
    on_dropped(what, location)   an asynchronous collective was called, and its handle thrown away

An observer leaves numerics, RNG state and the order of collectives as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ddpcheck.check import Skip


class EventStream:
    """Passes each event on to every observer that wants it.

    An observer that raises is dropped, and what it raised is kept for the engine: it must
    not take the training down, nor the other observers.
    """

    def __init__(self, observers: Mapping[str, Any]) -> None:
        self._observers = dict(observers)
        # By event, found once: a step of a script has a dozen events, and most observers want few.
        self._receivers: dict[str, list[tuple[str, list[Callable[..., None]]]]] = {}
        self.raised: dict[str, Exception] = {}

    def emit(self, event: str, *values: Any) -> None:
        """Call ``on_<event>`` of each observer that has it."""
        if event not in self._receivers:
            self._receivers[event] = self._found(event)
        for name, receivers in self._receivers[event]:
            try:
                for receive in receivers:
                    receive(*values)
            except Exception as error:
                # Frames would keep what the script has let go of; of a skip nobody asks for them.
                is_skip = isinstance(error, Skip)
                self.raised[name] = error.with_traceback(None) if is_skip else error
                self._observers.pop(name, None)
                self._receivers.clear()

    def _found(self, event: str) -> list[tuple[str, list[Callable[..., None]]]]:
        found: list[tuple[str, list[Callable[..., None]]]] = []
        for name, observer in self._observers.items():
            each = (*getattr(observer, "parts", ()), observer)
            wanting = [getattr(one, f"on_{event}", None) for one in each]
            if receivers := [receive for receive in wanting if receive is not None]:
                found.append((name, receivers))
        return found
