"""PyTorch's DataLoader over pyarrow: an IterableDataset whose workers share out row groups and yield whole batches.

What makes it fast: no Python per row; batches made in the workers (batch_size=None, so that nothing is collated); few
large tensors (columnar.Columns) instead of a hundred small ones, made in shared memory as default_collate does, so that
handing them over copies nothing; persistent workers; one thread for each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy
import pyarrow
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from peers import columnar
from peers.recipe import Recipe
from peers.subject import Batch, Run
from peers.systems import row_groups
from peers.systems.twin import as_batch


class RowGroups(IterableDataset):  # type: ignore[misc]
    """The batches of a worker's row groups, which lie one behind the other."""

    def __init__(self, run: Run, recipe: Recipe) -> None:
        super().__init__()
        self._groups, self._recipe = row_groups.listed(run.files), recipe  # workers are forks, and have the footers too

    def __iter__(self) -> Iterator[tuple[torch.Tensor, ...]]:
        groups = self._groups
        worker = get_worker_info()
        if worker is not None:
            begin, end = (len(groups) * i // worker.num_workers for i in (worker.id, worker.id + 1))
            groups = groups[begin:end]
        for batch in row_groups.batches(self._recipe, groups):
            memory = Shared(worker is not None)
            columns = columnar.transform(self._recipe, batch, memory.empty)
            yield tuple(map(memory.tensor, columns.parts()))


class Shared:
    """Makes arrays in memory that processes share, and finds the tensors that they are views of."""

    def __init__(self, shared: bool) -> None:
        self._shared, self._tensors = shared, dict[int, torch.Tensor]()

    def empty(self, shape: Any, dtype: Any) -> columnar.Array:
        tensor = torch.empty(0, dtype=torch.from_numpy(numpy.empty(0, dtype)).dtype)
        if self._shared:
            size = math.prod(shape if isinstance(shape, tuple) else (shape,)) * tensor.element_size()
            tensor.set_(tensor.untyped_storage()._new_shared(size))
        array: columnar.Array = tensor.resize_(shape).numpy()
        self._tensors[array.ctypes.data] = tensor
        return array

    def tensor(self, array: columnar.Array) -> torch.Tensor:
        """The tensor whose array it is, or a copy: of small ones, that were not made here."""
        tensor = self._tensors.get(array.ctypes.data)
        return torch.from_numpy(array.copy()) if tensor is None else tensor


def _one_thread(_: int) -> None:
    torch.set_num_threads(1)
    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)


class System:
    """See peers.subject."""

    def __init__(self, run: Run, recipe: Recipe) -> None:
        self._recipe = recipe
        self.versions = {
            "torch": torch.__version__, "pyarrow": pyarrow.__version__, "numpy": numpy.__version__,
        }  # fmt: skip
        workers = int(run.options["num_workers"])
        _one_thread(0)
        more = {} if workers == 0 else {
            "prefetch_factor": int(run.options["prefetch_factor"]), "persistent_workers": True,
            "worker_init_fn": _one_thread, "multiprocessing_context": "fork",
        }  # fmt: skip
        self._loader = DataLoader(RowGroups(run, recipe), batch_size=None, num_workers=workers, **more)

    def start(self) -> None:
        """Workers begin with the first pass, as DataLoader's do, and persist."""

    def read(self) -> Iterator[Batch]:
        """Batches of torch tensors."""
        for parts in self._loader:
            yield as_batch(self._recipe, columnar.Columns(*parts))

    def close(self) -> None:
        """Ends the workers."""
        iterator = getattr(self._loader, "_iterator", None)
        if iterator is not None:
            iterator._shutdown_workers()
