"""iter(loader) begins the next pass, as everywhere in PyTorch."""

from __future__ import annotations

import itertools
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

import penstock
from penstock import errors
from tests.conftest import Dataset, Fleet
from tests.test_loader import BATCH, make, places, take

ENDINGS = [
    {},
    {"last_batch": "drop"},
    {"last_batch": "pad"},
    {"order": "deterministic", "data": penstock.Data(lanes=4)},
    {"order": "deterministic", "data": penstock.Data(lanes=4), "last_batch": "drop"},
]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_pass_that_was_broken_out_of_is_left(
    shared_fleet: Fleet, dataset: Dataset, ending: dict[str, object]
) -> None:
    with make(shared_fleet, dataset, epochs=3, **ending) as loader:
        for epoch in range(3):
            assert [b.epoch for b in take(loader, 2)] == [epoch, epoch]
            assert loader.epoch == epoch
        with pytest.raises(errors.EpochsExhausted, match="3 epochs"):
            iter(loader)
        assert loader.epoch == 3


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_pass_behind_it_has_all_rows(shared_fleet: Fleet, dataset: Dataset, ending: dict[str, object]) -> None:
    with make(shared_fleet, dataset, epochs=2, **ending) as loader:
        first = take(loader, 1)
        whole = [place for batch in loader for place in places([batch])[: batch.valid]]
        assert {b.epoch for b in first} == {0}
        left = dataset.rows % BATCH if ending.get("last_batch") == "drop" else 0
        assert len(whole) == len(set(whole))
        assert dataset.rows - len(whole) <= (left if "order" not in ending else BATCH)
        assert set(whole) <= set(dataset.places())


def test_until_the_next_iter_a_state_names_the_rest(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset, epochs=2) as loader:
        got = take(loader, 2)
        rest = loader.state_dict()
        ahead = iter(loader)
        behind = loader.state_dict()
        assert next(ahead).epoch == 1
    assert (rest["epoch"], behind["epoch"]) == (0, 1)
    with make(shared_fleet, dataset, epochs=2) as loader:
        loader.load_state_dict(rest)
        assert Counter(places([*got, *loader])) == Counter(dataset.places())
        assert {b.epoch for b in loader} == {1}
    with make(shared_fleet, dataset, epochs=2) as loader:
        loader.load_state_dict(behind)
        batches = list(loader)
        assert {b.epoch for b in batches} == {1}
        assert Counter(places(batches)) == Counter(dataset.places())


def test_a_loop_that_counts_its_batches(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset, epochs=2) as loader:
        n = -(-dataset.rows // BATCH)
        for epoch in range(2):
            assert {b.epoch for b in itertools.islice(loader, n)} == {epoch}
        with pytest.raises(errors.EpochsExhausted, match="2 epochs"):
            iter(loader)


def test_an_iterator_that_gave_nothing_leaves_nothing(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset) as loader:
        iter(loader)
        iter(loader)
        assert Counter(places(loader)) == Counter(dataset.places())


def test_on_break_resume(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset, on_break="resume") as loader:
        assert Counter(places([*take(loader, 2), *loader])) == Counter(dataset.places())
    with pytest.raises(errors.UsageError, match=r'on_break=.*"next" or "resume"'):
        make(shared_fleet, dataset, on_break="stop")


def test_what_one_rank_left_others_get(shared_fleet: Fleet, dataset: Dataset) -> None:
    """And once all have left a pass, they read the next one."""
    session = uuid.uuid4().hex
    one, other = (
        make(shared_fleet, dataset, session=session, rank=rank, world_size=2, epochs=3, budget=1 << 20, batch_size=100)
        for rank in range(2)
    )
    with one, other, ThreadPoolExecutor() as threads:
        assert other.epoch == 0  # it has joined, or it would find a pass that all have left
        first = take(one, 1)
        second = threads.submit(list, other)
        whole = threads.submit(take, one, 1)  # waits for the other one
        passed = Counter(places([*first, *second.result(timeout=60)]))
        assert passed == Counter(dataset.places())
        assert {b.epoch for b in whole.result(timeout=60)} == {1}
        assert {b.epoch for b in take(other, 1)} == {1}
        last = [threads.submit(list, loader) for loader in (one, other)]
        got = [batch for each in last for batch in each.result(timeout=60)]
        assert {b.epoch for b in got} == {2}
        assert Counter(places(got)) == Counter(dataset.places())


def test_an_interrupt_while_a_pass_is_left(
    shared_fleet: Fleet, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make(shared_fleet, dataset, epochs=3) as loader:
        older = iter(loader)
        next(older)
        reader = loader._open().stream.reader
        leave = reader.leave

        def interrupted(epoch: int) -> None:
            leave(epoch)
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(reader, "leave", interrupted)
            with pytest.raises(KeyboardInterrupt):
                iter(loader)
        with pytest.raises(errors.UsageError, match="newer iter"):
            next(older)
        batches: list[penstock.Batch] = list(loader)
        assert {b.epoch for b in batches} == {1}
        assert Counter(places(batches)) == Counter(dataset.places())
