"""Notes what a watched script does to its wrapped model that may set replicas apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

from ddpcheck.measures.deeds import Deed, Kind
from ddpcheck.measures.words import listed
from ddpcheck.watch.callsite import users_line
from ddpcheck.watch.optimizer_settings import OptimizerSettings

if TYPE_CHECKING:
    from torch import nn

    from ddpcheck.finding import Location
    from ddpcheck.target.live import Trained

# Of each kind so many are kept.
KEPT = 64


class Deeds:
    """A part of an observer: has its events, and keeps what is unusual in them."""

    def __init__(self) -> None:
        self._deeds: list[Deed] = []
        self._frozen: list[tuple[ref[nn.Module], list[str]]] = []
        self._placed: list[tuple[ref[nn.Module], frozenset[str], Location | None]] = []
        self._live: Trained | None = None
        self._step = 0
        self._forwards: dict[int, bool] = {}
        self._backward: Location | None = None
        self._compiled: list[ref[nn.Module]] = []
        settings = self._settings = OptimizerSettings()
        self.on_resumed = settings.on_resumed
        self.on_scheduled = self.on_measured = settings.on_scheduled

    @property
    def kept(self) -> tuple[Deed, ...]:
        """Return the deeds, in order, and what the optimizer stepped with."""
        optimizer = self._live.optimizer if self._live else None
        return (*self._deeds, *self._settings.kept_of(optimizer))

    def on_placed(self, module: nn.Module) -> None:
        """Note which parameters get no gradient when the model is wrapped."""
        frozen = [name for name, each in module.named_parameters() if not each.requires_grad]
        self._frozen.append((ref(module), frozen))
        names = frozenset(name for name, _ in module.named_parameters())
        self._placed.append((ref(module), names, users_line()))

    def on_built(self, live: Trained) -> None:
        """Note which model it is that is trained."""
        self._live = live

    def on_compiled(self, module: nn.Module) -> None:
        """Note that forwards through a model will not be seen."""
        self._compiled.append(ref(module))

    def on_inputs(self, step: int, _inputs: Any) -> None:
        """Note whether a forward through DDP lets its backward reduce the gradients."""
        ddp = self._live.ddp if self._live else None
        self._forwards = {step: ddp is None or bool(ddp.require_backward_grad_sync)}

    def on_loss(self, _step: int, _loss: Any) -> None:
        """Note the line of the backward."""
        self._backward = users_line()

    def on_step(self, step: int) -> None:
        """Count the step, and note what was unusual in it."""
        self._step = step + 1
        if self._live is not None and self._live.optimizer is not None:
            self._settings.stepped(self._live.optimizer, step)
        if self._live is None or self._live.ddp is None:
            return
        if step == 0:
            self._look_for_the_added()
        self._look_for_the_freed(step)
        if any(each() is self._live.model for each in self._compiled):
            return
        if step not in self._forwards:
            self._note(Kind.BYPASSED, step, "", self._backward)
        elif not self._forwards[step]:
            self._note(Kind.UNSYNCED, step, "", self._backward)

    def on_loaded(self, module: Any, _given: Any, _missing: Any, _more: Any, location: Any) -> None:
        """Note that a state was loaded into a model that is wrapped already."""
        wrapped = (placed() for placed, _ in self._frozen)
        parts = (part for model in wrapped if model is not None for part in model.modules())
        is_live = self._live is not None and module is self._live.model
        if is_live or any(module is part for part in parts):
            self._note(Kind.LOADED, self._step, "", location)

    def _look_for_the_added(self) -> None:
        own = self._live.module if self._live is not None else None
        for placed, names, line in self._placed:
            if own is not None and placed() is own:
                added = [
                    n for n, each in own.named_parameters() if n not in names and each.requires_grad
                ]
                if added:
                    self._note(Kind.ADDED, 0, listed(added), line)

    def _look_for_the_freed(self, step: int) -> None:
        for placed, frozen in self._frozen:
            module = placed()
            if not frozen or module is None or self._live is None:
                continue
            parameters = dict(module.named_parameters()) if module is self._live.module else {}
            freed = [n for n in frozen if n in parameters and parameters[n].requires_grad]
            if freed:
                self._note(Kind.FREED, step, listed(freed), None)
                frozen[:] = [name for name in frozen if name not in freed]

    def _note(self, kind: Kind, step: int, what: str, location: Location | None) -> None:
        if sum(each.kind is kind for each in self._deeds) < KEPT:
            self._deeds.append(Deed(kind, step, what, location))
