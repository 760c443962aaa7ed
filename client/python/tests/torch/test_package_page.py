"""The package's page, run as it stands: what needs torch."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from tests import page
from tests.conftest import write_dataset
from tests.torch import jobs

if TYPE_CHECKING:
    from tests.conftest import Dataset, Fleet

HERE = [b.name for b in page.blocks() if b.needs_torch]
IN_ONE_PROCESS = [f"Loops that read ahead-{i}" for i in (2, 3, 4, 5)] + ["Formats and devices-2"]
ON_RANKS = ["Ranks-1", "Replicas-1", "Checkpoints-3"]


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Criteo's columns, in many row groups."""
    folder = tmp_path_factory.mktemp("page") / "criteo"
    return write_dataset(folder, files=4, rows=3000, row_group=250, dense=13, sparse=3)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def on_ranks(name: str, clicks: Dataset, fleet: Fleet, out: Path, then: str, run_id: str) -> list[Any]:
    """Runs a block on two ranks; `then` says what each of them found."""
    code = "from pathlib import Path\n" + page.block("Start-2").code + page.block(name).code + then
    code = page.on(code, clicks.uri, fleet.master)
    run_id = f"{run_id}-{uuid.uuid4()}"  # also if the test is run once more
    return jobs.run(code, 2, out, {"master": fleet.master, "uri": clicks.uri}, run_id=run_id)


def test_every_block_is_run() -> None:
    assert sorted(HERE) == sorted(IN_ONE_PROCESS + ON_RANKS)


def test_ranks(clicks: Dataset, shared_fleet: Fleet, tmp_path: Path) -> None:
    then = "found([batch.epoch, loader.stats().batches, loader.stats().rows])"
    ranks = on_ranks("Ranks-1", clicks, shared_fleet, tmp_path, then, "page-ranks")
    assert ranks[0][:2] == ranks[1][:2] and ranks[0][0] == 1
    assert sum(rows for *_, rows in ranks) == 2 * clicks.rows


def test_replicas(clicks: Dataset, shared_fleet: Fleet, tmp_path: Path) -> None:
    ranks = on_ranks("Replicas-1", clicks, shared_fleet, tmp_path, "found(loader.stats().rows)", "page-replicas")
    assert ranks == [clicks.rows] * 2


def test_torchs_distributed_checkpoints(clicks: Dataset, shared_fleet: Fleet, tmp_path: Path) -> None:
    """Each rank has read one batch before; the rest comes once, but for what two ranks drop."""
    then = "found([loader.stats().rows, sorted(s['rank'] for s in json.loads(saved['loader']))])"
    ranks = on_ranks("Checkpoints-3", clicks, shared_fleet, tmp_path, then, "page-dcp")
    assert sum(rows for rows, _ in ranks) == (clicks.rows // (2 * page.BATCH) - 1) * 2 * page.BATCH
    assert [saved for _, saved in ranks] == [[0, 1]] * 2


def test_torchrec(clicks: Dataset, shared_fleet: Fleet) -> None:
    names = page.run("Loops that read ahead-2", clicks, shared_fleet)
    assert names["trained"].position.number == 4
    assert names["loader"].position.number > 4, "it has read ahead"
    with page.penstock.DataLoader(clicks.uri, **names["options"]) as loader:
        loader.load_state_dict(names["state"])
        assert sum(len(batch) for batch in loader) == clicks.rows - 5 * page.BATCH


def test_lightning(clicks: Dataset, shared_fleet: Fleet) -> None:
    names = page.run("Loops that read ahead-3", clicks, shared_fleet)
    assert names["trainer"].global_step == -(-clicks.rows // page.BATCH)
    assert names["loader"].stats().rows == clicks.rows - 5 * page.BATCH


def test_accelerate(clicks: Dataset, shared_fleet: Fleet) -> None:
    assert page.run("Loops that read ahead-4", clicks, shared_fleet)["loader"].stats().rows == clicks.rows


def test_torchdata(clicks: Dataset, shared_fleet: Fleet) -> None:
    names = page.run("Loops that read ahead-5", clicks, shared_fleet)
    assert names["loader"].stats().rows == clicks.rows


def test_formats(clicks: Dataset, shared_fleet: Fleet) -> None:
    batch = page.run("Formats and devices-2", clicks, shared_fleet)["batch"]
    assert isinstance(batch.dense, torch.Tensor)
