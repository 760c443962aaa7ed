"""Reading Parquet with pyarrow, batch by batch, a row group at a time: what the Python systems share."""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from peers.recipe import Recipe


@functools.cache
def footer(file: str) -> pq.FileMetaData:
    """A file's footer, read once."""
    return pq.read_metadata(file)


def listed(files: Sequence[str]) -> list[tuple[str, int]]:
    """All row groups of the files."""
    return [(file, group) for file in files for group in range(footer(file).num_row_groups)]


def batches(recipe: Recipe, groups: Iterable[tuple[str, int]]) -> Generator[pa.RecordBatch]:
    """The rows of row groups in batches, of which the last of each file's run may be short.

    iter_batches decodes as many rows as a batch has, in one thread: faster here than read_row_group and slicing,
    since what was decoded is still in the cache when it is transformed. Consecutive row groups of a file are one run.
    """
    for file, run in _runs(groups):
        with pq.ParquetFile(file, metadata=footer(file), memory_map=True, pre_buffer=False) as opened:
            yield from opened.iter_batches(recipe.batch_size, run, recipe.columns, use_threads=False)


def _runs(groups: Iterable[tuple[str, int]]) -> Iterator[tuple[str, list[int]]]:
    file, run = "", list[int]()
    for name, group in groups:
        if run and (name != file or group != run[-1] + 1):
            yield file, run
            run = []
        file = name
        run.append(group)
    if run:
        yield file, run
