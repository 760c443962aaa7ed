"""Data-parallel ranks that wait for each other after each batch, over gloo: with padding they never hang."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.conftest import write_dataset
from tests.torch import jobs

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Dataset, Fleet

TRAIN = (
    jobs.DDP
    + """
    def rows(batch):
        mask = batch.mask.tolist()
        assert mask == [True] * batch.valid + [False] * (len(batch) - batch.valid), mask
        padding = slice(batch.valid, None)
        assert (batch.files[padding] == -1).all() and (batch.rows[padding] == -1).all()
        assert not batch.dense[padding].any() and not batch.label[padding].any()
        assert all((f.lengths[padding] == 0).all() for f in batch.sparse.values())
        return [[batch.epoch, *place] for place in places([batch])[:batch.valid]]

    def step(batch):
        valid = torch.tensor(float(batch.valid))
        dist.all_reduce(valid)
        # Steps that dead ranks had rows for are steps, though others have handed the rows over.
        assert valid > 0 or given.get("states", ()) is None, "no rank has a row"
        learn((losses(batch) * batch.mask).sum() * WORLD / valid.clamp(min=1))
"""
)

EPOCHS = (
    TRAIN
    + """
    results = []
    for i, (uri, rows_filter) in enumerate(given["datasets"]):
        given["uri"] = uri
        read, steps, schemas = [], [], set()
        with loader(epochs=3, last_batch="pad", batch_size=100, filter=rows_filter, name=f"data-{i}") as train:
            for epoch in range(3):
                steps.append(0)
                for batch in train:
                    assert len(batch) == 100 and batch.epoch == epoch
                    step(batch)
                    read += rows(batch)
                    steps[-1] += 1
                    schemas.add(batch.to_arrow().schema.to_string(show_field_metadata=True, truncate_metadata=False))
            assert train.stats().rows == len(read), (train.stats(), len(read))
        results.append({"steps": steps, "read": read, "schemas": sorted(schemas)})
    assert all(p.isfinite().all() for p in model.parameters())
    found(results)
"""
)


def kept(data: Dataset, epochs: int) -> set[tuple[int, ...]]:
    return {(e, *place) for e in range(epochs) for place in data.places()}


def chosen(data: Dataset, epochs: int) -> set[tuple[int, ...]]:
    """The rows that FILTER keeps."""
    return {
        (e, f, i)
        for e in range(epochs)
        for f, table in enumerate(data.files)
        for i, (x, label) in enumerate(zip(table["int_0"].to_pylist(), table["label"].to_pylist(), strict=True))
        if x is not None and x > 30 and label == 1
    }


FILTER = "int_0 > 30 and label == 1"


@pytest.mark.parametrize("world", [2, 4])
def test_uneven_ranks(fleet: Fleet, tmp_path: Path, world: int) -> None:
    """Of one row group and of three, which are shared out, and with filters, of which footers tell nothing.

    Then most ranks may get no row. Every rank gets as many batches as the others, and all rows come once.
    """
    one = write_dataset(tmp_path / "one", files=1, rows=350, row_group=350)
    three = write_dataset(tmp_path / "three", files=1, rows=1050, row_group=350)
    many = write_dataset(tmp_path / "many", files=5, rows=1000, row_group=200)
    wanted = [kept(one, 3), kept(three, 3), chosen(many, 3), kept(one, 3)]
    fleet.start(workers=2)
    datasets = [[one.uri, ""], [three.uri, ""], [many.uri, FILTER], [one.uri, "label == 0 or label == 1"]]
    ranks = jobs.run(EPOCHS, world, tmp_path / "found", {"master": fleet.master, "datasets": datasets})
    for (_, selects), want, results in zip(datasets, wanted, zip(*ranks, strict=True), strict=True):
        assert Counter(tuple(row) for r in results for row in r["read"]) == Counter(want)
        steps = [r["steps"] for r in results]
        assert all(s == steps[0] for s in steps) and min(steps[0]) > 0, steps
        suffice = -(-len(want) // (3 * world * 100))
        assert selects or max(steps[0]) <= suffice + 1, f"{steps[0]} steps, where {suffice} suffice"
        schemas = {s for r in results for s in r["schemas"]}
        assert len(schemas) == 1, "\n\n".join(schemas)  # of ranks without rows, too


REPLICAS = """
    from torch.distributed.device_mesh import init_device_mesh
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    read = []
    with loader(last_batch="pad", batch_size=100, ranks=penstock.Ranks(mesh=mesh)) as train:
        for batch in train:
            dist.barrier()
            read.append([batch.valid, batch.mask.tolist(), places([batch])])
        assert train.stats().rows == sum(valid for valid, *_ in read)
    found(read)
"""


def test_replicas(fleet: Fleet, tmp_path: Path) -> None:
    """Ranks of a replica get the same padding, and both replicas end together."""
    data = write_dataset(tmp_path / "data", files=1, rows=420, row_group=420)
    fleet.start(workers=2)
    ranks = jobs.run(REPLICAS, 4, tmp_path / "found", {"master": fleet.master, "uri": data.uri})
    assert ranks[0] == ranks[1] and ranks[2] == ranks[3]
    assert len(ranks[0]) == len(ranks[2])
    read = [tuple(place) for rank in ranks[::2] for valid, _, batch in rank for place in batch[:valid]]
    assert Counter(read) == Counter(data.places())


DEATH = (
    TRAIN
    + """
    read = []
    def end():
        found(read)
        os._exit(0)  # as if killed: it does not leave

    train = loader(last_batch="pad", batch_size=100)
    for batch in train:
        try:
            step(batch)
        except RuntimeError:  # a rank is gone
            end()
        if len(read) == given["dies_at"] - 1 and RANK == WORLD - 1:
            end()
        read.append([rows(batch), train.state_dict()])
    raise AssertionError("no rank died")
"""
)

AGAIN = (
    TRAIN
    + """
    options = dict(last_batch="pad", batch_size=100)
"""
    + jobs.AGAIN
)


@pytest.mark.parametrize("states", [True, False])
def test_a_rank_dies_near_the_end(fleet: Fleet, tmp_path: Path, states: bool) -> None:
    """In the last step but one. Started again, with the states of a step or without, all end the epoch together."""
    data = write_dataset(tmp_path / "data", files=1, rows=1170, row_group=390)
    fleet.start(workers=2)
    given = {"master": fleet.master, "uri": data.uri, "dies_at": 3}
    first, again = jobs.lose_a_rank(DEATH, AGAIN, tmp_path, given, states)
    before = [row for read in first for batch in read for row in batch]
    after = [row for read in again for batch in read for row in batch]
    if states:
        assert Counter(map(tuple, before + after)) == Counter(kept(data, 1))
    else:  # nothing is lost but what dead processes had been given
        lost = kept(data, 1) - {tuple(row) for row in before + after}
        assert len(lost) <= 3 * 2 * 100 and max(Counter(map(tuple, after)).values()) == 1
