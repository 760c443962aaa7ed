"""Data-parallel ranks of order deterministic, which wait for each other after each batch, over gloo."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conftest import write_dataset
from tests.torch import jobs

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Fleet

TRAIN = """
    dist.init_process_group("gloo")
    read, sizes = [], []
    with loader(
        epochs=2, order="deterministic", data=penstock.Data(lanes=4), batch_size=given["step"] // WORLD,
        last_batch=given["last_batch"], filter="int_0 > 30", shuffle=True, seed=3,
    ) as train:
        for epoch in range(2):
            for batch in train:
                valid = torch.tensor(batch.valid)
                dist.all_reduce(valid)  # waits for all ranks
                read.append([epoch, valid.item(), places([batch])[:batch.valid]])
                sizes.append(len(batch))
    found([read, sizes])
"""


@pytest.mark.parametrize("last_batch", ["drop", "pad"])
def test_ranks_in_step_read_the_sequence_of_one(fleet: Fleet, tmp_path: Path, last_batch: str) -> None:
    data = write_dataset(tmp_path / "data", files=3, rows=900, row_group=150)
    fleet.start(workers=2)
    step, steps = 80, []
    for world in (1, 2):
        given = {"master": fleet.master, "uri": data.uri, "last_batch": last_batch, "step": step}
        ranks = jobs.run(TRAIN, world, tmp_path / f"found-{world}", given)
        assert {n for _, sizes in ranks for n in sizes} == {step // world}
        together = list(zip(*(read for read, _ in ranks), strict=True))
        steps.append([(s[0][0], s[0][1], [place for _, _, rows in s for place in rows]) for s in together])
    alone, both = steps
    assert both == alone
    assert len(alone) >= 2 * 3 and all(n == len(rows) for _, n, rows in alone)
    assert any(n < step for _, n, _ in alone) == (last_batch == "pad")
