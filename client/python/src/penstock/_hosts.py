"""Which framework iterates over a loader, where that decides whether it can work.

PyTorch's and Accelerate's loaders treat an IterableDataset as a source of single samples that each process reads whole:
they copy it into other processes, collate what it yields, read on one process for all, or leave out what they take for
other ranks' share. Each would lose or repeat rows in silence. They do not say who they are, so the calls that led here
are looked at: once per epoch, and only in programs that have imported the framework.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from penstock.errors import UsageError

_DEEPEST = 200  # frames to look at


def _callers(*modules: str) -> Iterator[FrameType]:
    """The frames of calls that led here which lie in certain modules, the innermost first."""
    if not any(module in sys.modules for module in modules):
        return
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_DEEPEST):
        if frame is None:
            return
        if frame.f_globals.get("__name__") in modules:
            yield frame
        frame = frame.f_back


def check() -> None:
    """Raises UsageError where whoever iterates would lose or repeat rows."""
    _check_torch()
    _check_accelerate()


def _check_torch() -> None:
    worker = sys.modules.get("torch.utils.data._utils.worker")
    if worker is not None and worker.get_worker_info() is not None:
        raise UsageError(
            "a penstock loader was copied into a worker process of torch.utils.data.DataLoader; Penstock's own workers "
            "do that work already: use the loader itself, or torch.utils.data.DataLoader(loader, batch_size=None, "
            "num_workers=0)"
        )
    for frame in _callers("torch.utils.data._utils.fetch"):
        if frame.f_locals.get("auto_collation"):
            raise UsageError(
                "torch.utils.data.DataLoader would collate batches into batches; a penstock loader yields whole ones: "
                "use torch.utils.data.DataLoader(loader, batch_size=None)"
            )


def _check_accelerate() -> None:
    for frame in _callers("accelerate.data_loader"):
        kind = type(frame.f_locals.get("self")).__name__
        if kind not in ("DataLoaderDispatcher", "IterableDatasetShard"):
            continue
        what = "read on the main process alone" if kind == "DataLoaderDispatcher" else "leave out most batches"
        raise UsageError(
            f"Accelerate ({kind}) would {what}, but each rank's loader has its own rows already: "
            "give accelerator.prepare() the penstock.DataLoader itself, not a torch DataLoader around it, "
            "and move batches with batch.to(accelerator.device), or give the loader device="
        )


def reads_ahead() -> str | None:
    """The framework that reads batches before its loop gets them, if one iterates over the loader in this call."""
    for frame in _callers("accelerate.data_loader"):
        if type(frame.f_locals.get("self")).__name__ == "DataLoaderShard":
            return "Accelerate"
    return None


def saves_ahead() -> str | None:
    """The framework that reads a loader ahead and asks for its state, if it does one of the two in this call."""
    frames = _lightning("utilities.combined_loader", "trainer.connectors.data_connector")
    return "Lightning" if next(frames, None) is not None else None


def _lightning(*parts: str) -> Iterator[FrameType]:
    """The frames of Lightning's that led here, of some of its modules."""
    yield from _callers(
        *(f"{package}.{part}" for package in ("lightning.pytorch", "pytorch_lightning") for part in parts)
    )


def prefetches() -> bool:
    """Whether Lightning takes a batch in this call before there is a loop for it: it may take it anew."""
    return any(frame.f_code.co_name == "__iter__" for frame in _lightning("loops.fetchers"))


def cycles() -> bool:
    """Whether Lightning begins a loader again in this call since another one has more batches."""
    frames = (f for f in _lightning("utilities.combined_loader") if f.f_code.co_name == "__next__")
    return any(type(frame.f_locals.get("self")).__name__ == "_MaxSizeCycle" for frame in frames)


def counts() -> bool:
    """Whether Lightning asks for the length in this call: ranks that know it wait until all others do."""
    frames = _lightning("utilities.data", "utilities.combined_loader", "loops.fetchers")
    return next(frames, None) is not None


def asked_by_stateful_loader() -> bool:
    """Whether torchdata's StatefulDataLoader asks for the state: it does so as of the batch that it took last."""
    return next(_callers("torchdata.stateful_dataloader.stateful_dataloader"), None) is not None


def register(loader: type[Any], batch: type[Any]) -> None:
    """Makes classes virtual subclasses of torch's IterableDataset and TorchRec's Pipelineable, which those test for.

    In programs that have imported them only: importing penstock does not.
    """
    data = sys.modules.get("torch.utils.data")
    if data is not None:
        data.IterableDataset.register(loader)
    streamable = sys.modules.get("torchrec.streamable")
    if streamable is not None:
        streamable.Pipelineable.register(batch)
