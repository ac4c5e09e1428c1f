"""Which samples the first batches that were trained on are made of, whatever was done to them."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from platform import node
from typing import Any, NamedTuple

from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from ddpcheck.measures.digests import short_digest
from ddpcheck.measures.sampled import Sampled
from ddpcheck.target.live import tensors_in
from ddpcheck.watch.batches import KEPT_BATCHES, TrainedOn
from ddpcheck.watch.contents import content_of
from ddpcheck.watch.feeds import Feed
from ddpcheck.watch.rows import tells_samples

PLAIN = {RandomSampler, SequentialSampler}


class Draw(NamedTuple):
    """The samples of one batch."""

    digest: str
    samples: int


class SampledOn:
    """A part of an observer: pairs what samplers chose with the batches that were trained on."""

    def __init__(self) -> None:
        self._contents: dict[int, str] = {}
        self._chosen: dict[int, deque[Draw]] = {}
        self._own: set[int] = set()
        self._waiting: list[tuple[Feed, Draw]] = []
        self._trained: list[tuple[Feed, Draw]] = []
        self._lengths: list[int] = []
        self._fed: Feed | None = None

    def told(self, trained_on: TrainedOn) -> Sampled:
        """Return what is known; ``trained_on`` has the batches themselves."""
        pairs = zip(self._trained[:KEPT_BATCHES], self._lengths, strict=False)
        # Who trains on a part of each batch shares it with others, maybe.
        draws = (draw.digest if length >= draw.samples else "" for (_, draw), length in pairs)
        is_own = any(feed.number in self._own for feed, _ in self._trained)
        return Sampled(tuple(draws), trained_on.tensors(), short_digest(node()), is_own)

    def on_epoch(self, feed: Feed) -> None:
        """Look at a dataset, the first time; what was chosen in an iteration before is gone."""
        self._chosen[feed.number] = deque()
        if feed.number not in self._contents:
            self._contents[feed.number] = ""
            with suppress(Exception):  # a dataset of the user's may hold anything
                if not _is_plain(feed.loader()):
                    self._own.add(feed.number)
                self._contents[feed.number] = _content(feed.loader().dataset)

    def on_indices(self, feed: Feed, indices: Any) -> None:
        """Note the samples of a batch, which workers are given ahead."""
        if len(self._trained) < KEPT_BATCHES:
            content = self._contents.get(feed.number, "")
            digest = short_digest(f"{content} {indices}") if content else ""
            count = len(indices) if isinstance(indices, list) else 1
            self._chosen.setdefault(feed.number, deque()).append(Draw(digest, count))

    def on_fed(self, feed: Feed) -> None:
        """Take up what comes next."""
        self._fed = feed
        if len(self._trained) < KEPT_BATCHES:
            chosen = self._chosen.get(feed.number)
            self._waiting = self._waiting[-KEPT_BATCHES:]
            self._waiting.append((feed, chosen.popleft() if chosen else Draw("", 0)))

    def on_inputs(self, _step: int, inputs: Any) -> None:
        """Note of how many samples, at least, the model is given something."""
        if len(self._lengths) < KEPT_BATCHES:
            lengths = (len(each) for each in tensors_in(inputs) if each.dim())
            self._lengths.append(max(lengths, default=0))

    def on_loss(self, _step: int, _loss: object) -> None:
        """Keep those since the last backward pass, of the loader that came last."""
        self._trained += [each for each in self._waiting if each[0] is self._fed]
        self._waiting.clear()


def _content(dataset: Any) -> str:
    return content_of(dataset) if tells_samples(dataset) else ""


def _is_plain(loader: Any) -> bool:
    return type(loader.sampler) in PLAIN and type(loader.batch_sampler) is BatchSampler
