"""Ray Data: read_parquet, map_batches on Arrow with the numpy transforms, iter_batches.

What makes it fast: batch_format="pyarrow" on both sides, so that ragged columns stay flat (its numpy format makes an
object of each row); zero-copy batches; one block for each read of some row groups, cut to whole batches; as many CPUs
as the others have. Dense features travel as one fixed-size list column. progress bars and per-operator logs are off.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import numpy
import pyarrow as pa

from peers import columnar
from peers.recipe import Recipe
from peers.subject import Batch, Run

os.environ.setdefault("RAY_DEDUP_LOGS", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
import ray
import ray.data

OBJECT_STORE, MEMORY = 4 << 30, 8 << 30


class System:
    """See peers.subject."""

    def __init__(self, run: Run, recipe: Recipe) -> None:
        self._run, self._recipe = run, recipe
        self.versions = {"ray": ray.__version__, "pyarrow": pa.__version__, "numpy": numpy.__version__}

    def start(self) -> None:
        """Runs the cluster: one node, all its processes below this one."""
        ray.init(
            num_cpus=self._run.cpus, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR,
            object_store_memory=OBJECT_STORE, _memory=MEMORY,  # Ray's guess fails where others use much of the memory
        )  # fmt: skip
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        recipe, blocks = self._recipe, int(self._run.options["blocks"])
        self._dataset = ray.data.read_parquet(
            list(self._run.files), columns=recipe.columns, override_num_blocks=blocks or None
        ).map_batches(
            lambda table: _table(recipe, table),
            batch_format="pyarrow", batch_size=recipe.batch_size, zero_copy_batch=True,
        )  # fmt: skip

    def read(self) -> Iterator[Batch]:
        """Batches of numpy arrays: views of Ray's shared memory, as far as batches lie in one block."""
        recipe = self._recipe
        for table in self._dataset.iter_batches(
            batch_size=recipe.batch_size, batch_format="pyarrow", prefetch_batches=int(self._run.options["prefetch"])
        ):
            yield _batch(recipe, table)

    def close(self) -> None:
        """Ends the cluster."""
        ray.shutdown()


def _table(recipe: Recipe, table: pa.Table) -> pa.Table:
    """The transformed batch as an Arrow table."""
    batch = table.combine_chunks().to_batches()[0]
    c = columnar.transform(recipe, batch)
    made = {recipe.row: pa.array(c.row), recipe.label: pa.array(c.label)}
    if recipe.dense:
        made["dense"] = pa.FixedSizeListArray.from_arrays(pa.array(c.dense.reshape(-1)), c.dense.shape[1])
    if recipe.photo:
        made["photo"] = pa.FixedSizeListArray.from_arrays(pa.array(c.photos.reshape(-1)), 3 * recipe.crop**2)
    for i, name in enumerate(recipe.ragged):
        made[name] = pa.ListArray.from_arrays(pa.array(c.offsets[i]), pa.array(c.values[c.starts[i] : c.starts[i + 1]]))
    return pa.table(made)


def _batch(recipe: Recipe, table: pa.Table) -> Batch:
    columns = {name: _whole(table.column(name)) for name in table.column_names}
    dense = None
    if recipe.dense:
        dense = columns["dense"].flatten().to_numpy().reshape(len(table), -1)
    ragged = {}
    for name in recipe.ragged:
        offsets = columns[name].offsets.to_numpy()
        ragged[name] = (columns[name].flatten().to_numpy(), offsets - offsets[0] if offsets[0] else offsets)
    photo = None
    if recipe.photo:
        photo = columns["photo"].flatten().to_numpy().reshape(-1, recipe.crop, recipe.crop, 3)
    return Batch(columns[recipe.row].to_numpy(), columns[recipe.label].to_numpy(), dense, ragged, photo)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
