"""pyarrow and numpy in one process: what DataLoader's workers do, without DataLoader, torch or a fleet."""

from __future__ import annotations

from collections.abc import Iterator

import numpy
import pyarrow

from peers import columnar
from peers.recipe import Recipe
from peers.subject import Batch, Run
from peers.systems import row_groups


def as_batch(recipe: Recipe, columns: columnar.Columns) -> Batch:
    """Views of the columns' arrays."""
    starts = columns.starts
    ragged = {
        name: (columns.values[starts[i] : starts[i + 1]], columns.offsets[i]) for i, name in enumerate(recipe.ragged)
    }
    photo = columns.photos if recipe.photo else None
    return Batch(columns.row, columns.label, columns.dense if recipe.dense else None, ragged, photo)


class System:
    """See peers.subject."""

    def __init__(self, run: Run, recipe: Recipe) -> None:
        pyarrow.set_cpu_count(1)
        self._run, self._recipe = run, recipe
        self.versions = {"pyarrow": pyarrow.__version__, "numpy": numpy.__version__}

    def start(self) -> None:
        """Nothing serves."""

    def read(self) -> Iterator[Batch]:
        """Batches of numpy arrays."""
        for batch in row_groups.batches(self._recipe, row_groups.listed(self._run.files)):
            yield as_batch(self._recipe, columnar.transform(self._recipe, batch))

    def close(self) -> None:
        """Nothing to end."""
