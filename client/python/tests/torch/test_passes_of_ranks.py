"""Ranks that train in step leave passes together: each pass is a new one for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.test_loader import BATCH
from tests.torch import jobs

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Dataset, Fleet


@pytest.mark.parametrize(
    "options",
    [
        {"last_batch": "drop"},
        {"last_batch": "pad"},
        {"order": "deterministic", "data": {"lanes": 4}, "last_batch": "drop"},
        {"shares": True},
    ],
)
def test_ranks_in_step_leave_passes(fleet: Fleet, dataset: Dataset, tmp_path: Path, options: dict[str, Any]) -> None:
    """Early stopping, a pass that is counted, and one to its end; with shares, two ranks are one replica."""
    fleet.start(workers=2)
    code = """
    import itertools
    from torch.distributed.device_mesh import init_device_mesh
    from penstock import errors
    dist.init_process_group("gloo")
    options = given["options"]
    options["data"] = penstock.Data(**options.pop("data", {}))
    if options.pop("shares", False):
        mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
        options["ranks"] = penstock.Ranks(mesh=mesh)
    read, states = [], []
    with loader(epochs=4, **options) as train:
        for limit in (1, 3, None, 2):
            for batch in itertools.islice(train, limit):
                dist.all_reduce(torch.zeros(1))
                read.append((batch.epoch, places([batch])[:batch.valid]))
            states.append(train.state_dict()["epoch"])
        try:
            iter(train)
        except errors.EpochsExhausted as err:
            found([read, states, str(err)])
    """
    given = {"master": fleet.master, "uri": dataset.uri, "options": options}
    ranks = jobs.run(code, 2, tmp_path, given, run_id="passes")
    for read, states, said in ranks:
        epochs = [epoch for epoch, _ in read]
        assert [epochs.count(epoch) for epoch in (0, 1, 3)] == [1, 3, 2]
        assert states == [0, 1, 3, 3]
        assert "4 epochs" in said
    assert len({len(read) for read, _, _ in ranks}) == 1
    readers = ranks[:1] if "shares" in options else ranks
    for epoch in range(4):
        rows = [tuple(place) for read, _, _ in readers for e, batch in read if e == epoch for place in batch]
        assert len(rows) == len(set(rows)), "no row twice"
        if epoch == 2:
            assert dataset.rows - len(rows) < 2 * len(readers) * BATCH
