"""Data-parallel ranks that wait for each other after each batch, over gloo: dropping last batches, they never hang."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.conftest import write_dataset
from tests.torch import jobs
from tests.torch.test_pad import FILTER, chosen, kept

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Fleet

TRAIN = (
    jobs.DDP
    + """
    def rows(batch):
        return [[batch.epoch, *place] for place in places([batch])]

    def step(batch):
        assert len(batch) == batch.valid == given["batch_size"]
        learn(losses(batch).mean())
"""
)

EPOCHS = (
    TRAIN
    + """
    results = []
    for i, (uri, rows_filter, given["batch_size"]) in enumerate(given["datasets"]):
        given["uri"] = uri
        read, steps = [], []
        options = dict(last_batch="drop", batch_size=given["batch_size"], filter=rows_filter, name=f"data-{i}")
        with loader(epochs=3, **options) as train:
            for epoch in range(3):
                steps.append(0)
                for batch in train:
                    assert batch.epoch == epoch
                    step(batch)
                    read += rows(batch)
                    steps[-1] += 1
        results.append({"steps": steps, "read": read})
    found(results)
"""
)


@pytest.mark.parametrize("world", [2, 4])
def test_uneven_ranks(fleet: Fleet, tmp_path: Path, world: int) -> None:
    """Every rank gets as many full batches as the others; no row comes twice, and less than a step's are left."""
    one = write_dataset(tmp_path / "one", files=1, rows=350, row_group=350)
    three = write_dataset(tmp_path / "three", files=1, rows=1050, row_group=350)
    many = write_dataset(tmp_path / "many", files=5, rows=1000, row_group=200)
    cases = [
        (one.uri, "", 40, kept(one, 3)),
        (one.uri, "", 200, kept(one, 3)),  # less than a step
        (three.uri, "", 50, kept(three, 3)),
        (many.uri, FILTER, 20, chosen(many, 3)),
    ]
    fleet.start(workers=2)
    given = {"master": fleet.master, "datasets": [case[:3] for case in cases]}
    ranks = jobs.run(EPOCHS, world, tmp_path / "found", given)
    for (_, _, batch_size, want), results in zip(cases, zip(*ranks, strict=True), strict=True):
        read = Counter(tuple(row) for r in results for row in r["read"])
        assert max(read.values(), default=1) == 1 and set(read) <= want
        for epoch in range(3):
            steps = len({row for row in want if row[0] == epoch}) // (world * batch_size)
            assert [r["steps"][epoch] for r in results] == [steps] * world


DEATH = (
    TRAIN
    + """
    given["batch_size"] = 50
    read = []
    def end():
        found(read)
        os._exit(0)  # as if killed: it does not leave

    train = loader(last_batch="drop", batch_size=50)
    for batch in train:
        step(batch)
        if len(read) == given["dies_at"] - 1 and RANK == WORLD - 1:
            end()
        read.append([rows(batch), train.state_dict()])
        try:
            dist.barrier()
        except RuntimeError:  # a rank is gone, and with it, until its lease ends, rows that others may need
            end()
    raise AssertionError("no rank died")
"""
)

AGAIN = (
    TRAIN
    + """
    given["batch_size"] = 50
    options = dict(last_batch="drop", batch_size=50)
"""
    + jobs.AGAIN
)


@pytest.mark.parametrize("states", [True, False])
def test_a_rank_dies_near_the_end(fleet: Fleet, tmp_path: Path, states: bool) -> None:
    """Started again, with the states of a step or without, all ranks end the epoch together."""
    data = write_dataset(tmp_path / "data", files=1, rows=1170, row_group=390)
    fleet.start(workers=2)
    given = {"master": fleet.master, "uri": data.uri, "dies_at": 6}
    first, again = jobs.lose_a_rank(DEATH, AGAIN, tmp_path, given, states)
    after = [tuple(row) for read in again for batch in read for row in batch]
    assert max(Counter(after).values()) == 1
    if states:  # 7 steps of 3 batches of 50 rows
        before = [tuple(row) for read in first for batch in read for row in batch]
        assert len(again[0]) == 7 - len(first[0])
        assert max(Counter(before + after).values()) == 1 and set(before + after) <= kept(data, 1)
