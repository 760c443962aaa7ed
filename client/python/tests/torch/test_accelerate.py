"""Under Accelerate: every rank reads its own rows, or there is an error that says what to do."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch.utils.data
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration

from penstock import errors
from tests.test_loader import make, places
from tests.torch import jobs

if TYPE_CHECKING:
    from tests.conftest import Dataset, Fleet


def test_every_rank_reads(fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    """A loader that is given to prepare() itself, on two ranks; around it, a torch DataLoader is refused."""
    fleet.start(workers=2)
    code = """
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration
    from penstock import errors
    dist.init_process_group("gloo")
    refused = []
    for dispatch in (None, True, False):
        accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=dispatch))
        with loader() as train:
            wrapped = accelerator.prepare(torch.utils.data.DataLoader(train, batch_size=None))
            try:
                next(iter(wrapped))
            except errors.UsageError as err:
                refused.append(str(err))
    with loader() as train:
        prepared, layer = accelerator.prepare(train, torch.nn.Linear(3, 1))
        read = []
        for batch in prepared:
            layer(batch.to(accelerator.device).dense)
            read += places([batch])
            if len(read) < 3000:
                dist.barrier()  # so that no rank reads all
        found([accelerator.num_processes, refused, read, train.session])
    """
    ranks = jobs.run(code, 2, tmp_path, {"master": fleet.master, "uri": dataset.uri})
    assert [processes for processes, _, _, _ in ranks] == [2, 2]
    for _, refused, read, _ in ranks:
        assert ["prepare() the penstock.DataLoader itself" in said for said in refused] == [True] * 3
        assert len(read) >= 3000
    assert Counter(tuple(place) for _, _, read, _ in ranks for place in read) == Counter(dataset.places())
    assert len({session for _, _, _, session in ranks}) == 1, "rank 0 gave the id to all"


def test_a_torch_loader_is_refused_in_one_process_too(shared_fleet: Fleet, dataset: Dataset) -> None:
    """By default Accelerate dispatches batches from the main process, and cannot join Penstock's."""
    with make(shared_fleet, dataset) as loader:
        wrapped = Accelerator(cpu=True).prepare(torch.utils.data.DataLoader(loader, batch_size=None))
        with pytest.raises(errors.UsageError, match="main process alone"):
            next(iter(wrapped))


def prepared(loader: Any, **options: Any) -> Any:
    configuration = DataLoaderConfiguration(dispatch_batches=False, **options)
    return Accelerator(cpu=True, dataloader_config=configuration).prepare(
        torch.utils.data.DataLoader(loader, batch_size=None)
    )


def test_it_reads_one_batch_ahead(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset, epochs=2) as loader:
        batches = iter(prepared(loader))
        first, second = next(batches), next(batches)
        with pytest.raises(errors.UsageError, match=r"loader\.done\(batch\)"):
            loader.state_dict()
        after = loader.state_dict(after=second)
        loader.done(first)
        loader.done(second)
        assert loader.state_dict() == after
        assert after != loader.state_dict(after=loader.position), "that of the batch that was read ahead"
        assert Counter(places([first, second, *batches])) == Counter(dataset.places())
    with make(shared_fleet, dataset, epochs=2) as loader:
        loader.load_state_dict(after)
        batches = prepared(loader)
        assert Counter(places([first, second, *batches])) == Counter(dataset.places())
        assert {b.epoch for b in batches} == {1}, "Accelerate calls set_epoch(1) here"


def test_a_state_of_a_later_epoch(shared_fleet: Fleet, dataset: Dataset) -> None:
    """Accelerate calls set_epoch(0) in a new process."""
    with make(shared_fleet, dataset, epochs=2) as loader:
        list(loader)
        state = loader.state_dict()
    with make(shared_fleet, dataset, epochs=2) as loader:
        loader.load_state_dict(state)
        batches = list(prepared(loader))
    assert {b.epoch for b in batches} == {1}
    assert Counter(places(batches)) == Counter(dataset.places())


def test_with_torchdatas_loader_inside(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset) as loader:
        stateful = prepared(loader, use_stateful_dataloader=True)
        batches = iter(stateful)
        before = [next(batches) for _ in range(3)]
        state = stateful.state_dict()
    with make(shared_fleet, dataset) as loader:
        stateful = prepared(loader, use_stateful_dataloader=True)
        stateful.load_state_dict(state)
        assert Counter(places(before + list(stateful))) == Counter(dataset.places())
