"""What a loader does that is told neither how many passes there are nor how they end."""

from __future__ import annotations

import logging
import re
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock import errors
from tests.test_loader import make, places, take

if TYPE_CHECKING:
    from tests.conftest import Dataset, Fleet

DEFAULTS = {"epochs": None, "last_batch": None}


def test_passes_have_no_limit(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset, **DEFAULTS) as loader:
        for epoch in range(3):
            assert loader.epoch == epoch
            assert Counter(places(loader)) == Counter(dataset.places())


def test_a_job_that_is_started_again_goes_on(
    shared_fleet: Fleet, dataset: Dataset, caplog: pytest.LogCaptureFixture
) -> None:
    session = uuid.uuid4().hex
    for epoch in range(2):
        with make(shared_fleet, dataset, session=session, **DEFAULTS) as loader:
            assert loader.epoch == epoch
            said = [r.getMessage() for r in caplog.records if "an earlier start" in r.getMessage()]
            assert len(said) == epoch
            assert Counter(places(loader)) == Counter(dataset.places())
            state = loader.state_dict()
    assert "read 1 epoch, and this one goes on with epoch 1" in said[0]
    assert "another run id, or the loader another session=" in said[0]
    assert "load_state_dict()" in said[0]
    with make(shared_fleet, dataset, session=session, **DEFAULTS) as loader:
        take(loader, 1)
    assert caplog.text.count("an earlier start") == 2
    with make(shared_fleet, dataset, session=session, **DEFAULTS) as loader:
        iter(loader)  # as Lightning does first
        loader.load_state_dict(state)
        assert loader.epoch == 2
    assert caplog.text.count("an earlier start") == 2


def test_set_epoch_does_not_go_behind_an_earlier_start(shared_fleet: Fleet, dataset: Dataset) -> None:
    session = uuid.uuid4().hex
    with make(shared_fleet, dataset, session=session, **DEFAULTS) as loader:
        places(loader)
    with (
        make(shared_fleet, dataset, session=session, **DEFAULTS) as loader,
        pytest.raises(errors.UsageError, match=r"set_epoch\(0\): an earlier start .* another run id, .* session="),
    ):
        loader.set_epoch(0)


def read(fleet: Fleet, dataset: Dataset, session: str, world: int, **given: Any) -> list[list[int]]:
    """The sizes of the batches of one pass, by rank."""
    ranks = range(world)
    loaders = [make(fleet, dataset, session=session, rank=r, world_size=world, **(DEFAULTS | given)) for r in ranks]
    with ThreadPoolExecutor(world) as pool:
        sizes = list(pool.map(lambda loader: [len(b) for b in loader], loaders))
        list(pool.map(lambda loader: loader.close(), loaders))
    return sizes


@pytest.mark.parametrize("order", ["fast", "deterministic"])
def test_several_ranks_make_equally_many_steps(
    shared_fleet: Fleet, dataset: Dataset, order: str, caplog: pytest.LogCaptureFixture
) -> None:
    batch = 700  # does not divide the rows
    sizes = read(shared_fleet, dataset, uuid.uuid4().hex, 2, batch_size=batch, order=order)
    assert sizes == [[batch] * (dataset.rows // (2 * batch))] * 2
    said = [r.getMessage() for r in caplog.records if "no last_batch is given" in r.getMessage()]
    assert len(said) == 1
    assert ", rank 0: " in said[0]


def test_one_rank_gets_all_rows_and_no_warning(
    shared_fleet: Fleet, dataset: Dataset, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), make(shared_fleet, dataset, batch_size=700, **DEFAULTS) as loader:
        assert sum(len(b) for b in loader) == dataset.rows
    assert "last_batch" not in caplog.text


def test_a_restore_keeps_the_ending(shared_fleet: Fleet, dataset: Dataset, caplog: pytest.LogCaptureFixture) -> None:
    with make(shared_fleet, dataset, batch_size=700, **DEFAULTS) as alone:
        before = places(take(alone, 1))
        state = alone.state_dict()
    session = uuid.uuid4().hex
    two = [
        make(shared_fleet, dataset, session=session, batch_size=700, rank=r, world_size=2, **DEFAULTS) for r in range(2)
    ]
    for loader in two:
        loader.load_state_dict([state])
    with ThreadPoolExecutor(2) as pool:
        rest = [place for rank in pool.map(places, two) for place in rank]
        list(pool.map(lambda loader: loader.close(), two))
    assert Counter(before + rest) == Counter(dataset.places())  # none was dropped
    assert "no last_batch is given" not in caplog.text


def test_an_ending_is_named_beside_on_error(shared_fleet: Fleet, dataset: Dataset) -> None:
    given: dict[str, Any] = {"session": uuid.uuid4().hex, "rank": 0, "world_size": 2}
    given["data"] = penstock.Data(on_error={"skip": 1})
    with (
        make(shared_fleet, dataset, **(DEFAULTS | given)) as loader,
        pytest.raises(errors.SpecError, match=r"last_batch: found nothing, with on_error: skip and 2 ranks.* want pad"),
    ):
        iter(loader)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"filter": "int_0 > 999999999"}, r"filter='int_0 > 999999999' left no row .*`penstock show URI`"),
        ({"last_batch": "pad", "filter": "int_0 > 999999999"}, "filter=.* left no row"),
        ({"transforms": penstock.sample(0.0)}, "an op that selects rows left no row"),
        (
            {"last_batch": "drop", "batch_size": 1 << 20},
            r"leaves out its \d+ rows, which are fewer .* smaller batch_size=",
        ),
    ],
)
def test_a_pass_without_a_batch_says_why_once(
    shared_fleet: Fleet, dataset: Dataset, caplog: pytest.LogCaptureFixture, given: dict[str, Any], why: str
) -> None:
    with make(shared_fleet, dataset, **(DEFAULTS | given)) as loader:
        assert list(loader) == list(loader) == []
        assert re.search(why, loader.stats().verdict)
    said = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(said) == 1
    assert re.search(why, said[0])


def test_a_pass_that_others_read_or_an_earlier_start_is_no_mistake(
    shared_fleet: Fleet, dataset: Dataset, caplog: pytest.LogCaptureFixture
) -> None:
    with make(shared_fleet, dataset) as loader:
        for _ in loader:
            state = loader.state_dict()
    with make(shared_fleet, dataset) as loader:
        loader.load_state_dict(state)
        assert list(loader) == []
    session = uuid.uuid4().hex
    for rank in (1, 0):
        with make(shared_fleet, dataset, session=session, rank=rank, world_size=2) as loader:
            assert sum(map(len, loader)) == rank * dataset.rows
    assert "had no batch" not in caplog.text
