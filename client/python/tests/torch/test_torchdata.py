"""Under torchdata's StatefulDataLoader, which saves and restores the loader's state by itself."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from torchdata.stateful_dataloader import StatefulDataLoader

from tests.test_loader import make, places

if TYPE_CHECKING:
    from tests.conftest import Dataset, Fleet


@pytest.mark.parametrize("steps", [0, 1, 5, 18])
def test_going_on_from_its_state(shared_fleet: Fleet, dataset: Dataset, steps: int) -> None:
    with make(shared_fleet, dataset, epochs=2) as loader:
        stateful = StatefulDataLoader(loader, batch_size=None, num_workers=0)
        batches = iter(stateful)
        before = [next(batches) for _ in range(steps)]
        state = json.loads(json.dumps(stateful.state_dict()))
    with make(shared_fleet, dataset, epochs=2) as loader:
        stateful = StatefulDataLoader(loader, batch_size=None, num_workers=0)
        stateful.load_state_dict(state)
        assert Counter(places(before + list(stateful))) == Counter(dataset.places())
        assert Counter(places(stateful)) == Counter(dataset.places()), "the second epoch"


def test_going_on_behind_an_epoch(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset, epochs=2) as loader:
        stateful = StatefulDataLoader(loader, batch_size=None, num_workers=0)
        assert len(places(stateful)) == dataset.rows
        state = stateful.state_dict()
    with make(shared_fleet, dataset, epochs=2) as loader:
        stateful = StatefulDataLoader(loader, batch_size=None, num_workers=0)
        stateful.load_state_dict(state)
        batches = list(stateful)
        assert {b.epoch for b in batches} == {1}
        assert Counter(places(batches)) == Counter(dataset.places())
