"""Penstock on one machine: penstock.DataLoader without a fleet, which starts one of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peers.recipe import Recipe
from peers.subject import Batch, Run


class System:
    """See peers.subject."""

    def __init__(self, run: Run, recipe: Recipe) -> None:
        os.environ["PENSTOCK_BINARY"] = run.penstock
        self._run, self._recipe = run, recipe
        self._format = run.options.get("format", "torch")
        if self._format == "torch":
            import torch

            torch.set_num_threads(1)
        import numpy
        import penstock
        import pyarrow

        self._loader_of = penstock.DataLoader
        self._loader: Any = None
        self._arguments: dict[str, Any] = {"workers": int(run.options.get("workers", 0))}
        self.versions = {"pyarrow": pyarrow.__version__, "numpy": numpy.__version__}
        self._spec = Path(run.scratch) / "spec.yaml"
        self._spec.write_text(run.spec)

    def start(self) -> None:
        """The first loader starts the fleet, which counts as the time to its first batch."""

    def read(self) -> Iterator[Batch]:
        """Batches of torch tensors. The loader of the pass before keeps the fleet until the next one has it."""
        before, self._loader = self._loader, self._loader_of(spec=self._spec, format=self._format, **self._arguments)
        batches = iter(self._loader)
        if before is not None:
            before.close()
        names = self._recipe.ragged
        for batch in batches:
            labels, sparse = batch.labels, batch.sparse
            ragged = {}
            for name in names:
                one = sparse[name]
                ragged[name] = (one.values, one.offsets)
            dense = batch.dense if self._recipe.dense else None
            photo = batch.images[self._recipe.photo] if self._recipe.photo else None
            yield Batch(labels[self._recipe.row], labels[self._recipe.label], dense, ragged, photo)

    def close(self) -> None:
        """Ends the fleet."""
        if self._loader is not None:
            self._loader.close()
