"""Exact checkpoints under Lightning, which reads batches ahead of its loop.

    trainer = lightning.Trainer(callbacks=[penstock.lightning.ExactState()], ...)
    trainer.fit(model, penstock.DataLoader(...))

Lightning saves the state of loaders with its checkpoints, and restores it, by itself. The callback tells them how far
the loop has come, so that what Lightning read ahead is read again. A checkpoint has the states of all ranks. It works
with the packages lightning and pytorch_lightning, whichever the program has imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.batch import Batch
from penstock.errors import UsageError
from penstock.loader import DataLoader
from penstock.position import Position


def _callback() -> Any:
    """The class of callbacks of the Lightning that the program uses."""
    names = ["lightning.pytorch", "pytorch_lightning"]
    if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
        names.reverse()
    problems = []
    for name in names:
        try:
            return __import__(name, fromlist=["Callback"]).Callback
        except ImportError as err:
            problems.append(str(err))
    raise UsageError(f"penstock.lightning needs Lightning ({'; '.join(problems)}); pip install lightning")


class ExactState(_callback()):  # type: ignore[misc]
    """Tells Penstock's loaders which batches the training loop has finished.

    Without it, asking a loader for its state under Lightning is an error. With several loaders, or with map=, give
    Lightning the batches themselves: the callback finds them in lists, tuples and dictionaries.
    """

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Has the loaders follow this callback, and go on from a checkpoint of an epoch's end."""
        loop = trainer.fit_loop
        # Lightning takes an epoch that has ended for one of which no loader has a state.
        states = getattr(loop, "_combined_loader_states_to_load", None)
        if states:
            loop._combined_loader._load_state_dicts(states)
            loop._combined_loader_states_to_load = []
        for loader in _loaders(trainer.train_dataloader):
            loader._follow(True)
        if states:
            iter(loop._data_fetcher)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Leaves the loaders to whoever iterates next."""
        for loader in _loaders(trainer.train_dataloader):
            loader._follow(False)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Tells the loaders of a batch that is done."""
        by_loader = {id(p._reading): p for p in _positions(batch)}
        loaders = list(_loaders(trainer.train_dataloader))
        for loader in loaders:
            position = by_loader.get(id(loader._open().stream.reading))
            if position is not None or len(loaders) == 1:
                loader._finished(position, is_last=trainer.is_last_batch)


def _loaders(of: Any) -> Iterator[DataLoader]:
    """Penstock's loaders among those of a Trainer, also inside torch's DataLoader."""
    if isinstance(of, DataLoader):
        yield of
    elif isinstance(of, Mapping):
        for value in of.values():
            yield from _loaders(value)
    elif isinstance(of, (list, tuple)):
        for value in of:
            yield from _loaders(value)
    elif hasattr(of, "dataset"):
        yield from _loaders(of.dataset)


def _positions(batch: Any) -> Iterator[Position]:
    """The positions of the batches in what a training step gets."""
    if isinstance(batch, Batch):
        yield batch.position
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from _positions(value)
    elif isinstance(batch, (list, tuple)):
        for value in batch:
            yield from _positions(value)
