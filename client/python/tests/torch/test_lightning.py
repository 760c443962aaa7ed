"""Under Lightning, which reads a batch ahead and saves the loader's state in its checkpoints."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

import penstock.lightning
from penstock import errors
from penstock.loader import DataLoader
from tests.test_loader import BATCH, Place, make, places, take
from tests.torch import jobs

if TYPE_CHECKING:
    from tests.conftest import Dataset, Fleet

STEPS = 19  # of an epoch


class Model(lightning.LightningModule):
    """Notes the rows that it was trained on."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)
        self.trained: list[tuple[int, list[Place]]] = []

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        batch = batch[0] if isinstance(batch, tuple) else batch
        self.trained.append((self.current_epoch, places([batch])))
        return self.layer(batch.dense.nan_to_num(0)).square().mean()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=1e-9)

    def rows(self, epoch: int | None = None) -> list[Place]:
        return [place for e, rows in self.trained if epoch in (None, e) for place in rows]


def trainer(folder: Path, *callbacks: Any, **options: Any) -> lightning.Trainer:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    return lightning.Trainer(default_root_dir=folder, callbacks=list(callbacks), **(quiet | options))


def saving(folder: Path, every: int) -> ModelCheckpoint:
    return ModelCheckpoint(folder, filename="{step}", every_n_train_steps=every, save_top_k=-1)


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("step", [1, 7, STEPS - 1, STEPS, STEPS + 3])
def test_going_on_from_a_checkpoint(
    shared_fleet: Fleet, dataset: Dataset, tmp_path: Path, step: int, counted: bool
) -> None:
    """Whether Lightning knows the loader's length, and reads nothing ahead then, or not."""
    options: dict[str, Any] = {"epochs": 2, "filter": "" if counted else "label >= 0"}
    first = Model()
    with make(shared_fleet, dataset, **options) as loader:
        saves = saving(tmp_path, every=step)
        trainer(tmp_path, penstock.lightning.ExactState(), saves, max_steps=step).fit(first, loader)
    second = Model()
    with make(shared_fleet, dataset, **options) as loader:
        again = trainer(tmp_path, penstock.lightning.ExactState(), max_epochs=2)
        again.fit(second, loader, ckpt_path=tmp_path / f"step={step}.ckpt", weights_only=False)
    assert Counter(first.rows() + second.rows()) == Counter([*dataset.places()] * 2)
    for epoch in range(2):
        assert Counter(first.rows(epoch) + second.rows(epoch)) == Counter(dataset.places()), f"epoch {epoch}"


class Failing(Model):
    """Fails in one step of an epoch."""

    def __init__(self, epoch: int, step: int) -> None:
        super().__init__()
        self.fails = (epoch, step)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        if (self.current_epoch, batch_idx) == self.fails:
            raise ValueError("no memory")
        return super().training_step(batch, batch_idx)


def at_ends(folder: Path) -> ModelCheckpoint:
    """Saves at the end of each epoch, as Lightning does by default."""
    return ModelCheckpoint(folder, filename="{epoch}", save_top_k=-1)


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("same_session", [True, False])
def test_going_on_from_an_epoch_s_end(
    shared_fleet: Fleet, dataset: Dataset, tmp_path: Path, counted: bool, same_session: bool
) -> None:
    """What was trained behind it comes again, and nothing else."""
    options: dict[str, Any] = {"epochs": 3, "filter": "" if counted else "label >= 0"}
    if same_session:
        options["session"] = f"ends-{uuid.uuid4()}"
    first = Failing(1, 4)
    with make(shared_fleet, dataset, **options) as loader, pytest.raises(ValueError, match="no memory"):
        trainer(tmp_path, penstock.lightning.ExactState(), at_ends(tmp_path), max_epochs=3).fit(first, loader)
    second = Model()
    with make(shared_fleet, dataset, **options) as loader:
        again = trainer(tmp_path, penstock.lightning.ExactState(), max_epochs=3)
        again.fit(second, loader, ckpt_path=tmp_path / "epoch=0.ckpt", weights_only=False)
    assert Counter(first.rows(0)) == Counter(second.rows(1)) == Counter(second.rows(2)) == Counter(dataset.places())
    assert not second.rows(0)


@pytest.mark.parametrize("counted", [True, False])
def test_going_on_twice(shared_fleet: Fleet, dataset: Dataset, tmp_path: Path, counted: bool) -> None:
    """From within an epoch, and from the end of that one."""
    options: dict[str, Any] = {"epochs": 2, "filter": "" if counted else "label >= 0"}
    first, second, third = Model(), Failing(1, 0), Model()
    with make(shared_fleet, dataset, **options) as loader:
        trainer(tmp_path, penstock.lightning.ExactState(), saving(tmp_path, every=7), max_steps=7).fit(first, loader)
    again = trainer(tmp_path, penstock.lightning.ExactState(), at_ends(tmp_path), max_epochs=2)
    with make(shared_fleet, dataset, **options) as loader, pytest.raises(ValueError, match="no memory"):
        again.fit(second, loader, ckpt_path=tmp_path / "step=7.ckpt", weights_only=False)
    with make(shared_fleet, dataset, **options) as loader:
        again = trainer(tmp_path, penstock.lightning.ExactState(), max_epochs=2)
        again.fit(third, loader, ckpt_path=tmp_path / "epoch=0.ckpt", weights_only=False)
    assert Counter(first.rows() + second.rows()) == Counter(third.rows(1)) == Counter(dataset.places())


class Validating(Model):
    """Notes the rows of each validation, too."""

    def __init__(self) -> None:
        super().__init__()
        self.validated: list[list[Place]] = []

    def on_validation_start(self) -> None:
        self.validated.append([])

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.validated[-1] += places([batch])


@pytest.mark.parametrize("limit", [1.0, 3])
def test_validation(shared_fleet: Fleet, dataset: Dataset, tmp_path: Path, limit: float) -> None:
    """Each of all rows, or of the first ones of a pass of its own."""
    model = Validating()
    with make(shared_fleet, dataset, epochs=2) as loader, make(shared_fleet, dataset, epochs=9) as validation:
        options = {"max_epochs": 2, "num_sanity_val_steps": 0, "limit_val_batches": limit}
        trainer(tmp_path, enable_checkpointing=False, **options).fit(model, loader, validation)
        assert validation.epoch == 1
    first, second = map(Counter, model.validated)
    if limit == 3:
        assert first.total() == second.total() == 3 * BATCH
    else:
        assert first == second == Counter(dataset.places())


def test_validation_of_one_batch(shared_fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    """Lightning reads it ahead, and then the end."""
    model = Validating()
    options: dict[str, Any] = {"epochs": 2, "filter": "label >= 0"}
    with (
        make(shared_fleet, dataset, **options) as loader,
        make(shared_fleet, dataset, **options, batch_size=dataset.rows) as validation,
    ):
        once = trainer(tmp_path, enable_checkpointing=False, max_epochs=2, num_sanity_val_steps=0)
        once.fit(model, loader, validation)
    assert list(map(Counter, model.validated)) == [Counter(dataset.places())] * 2


def test_a_shorter_loader_beside_a_longer_one(shared_fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    """Lightning begins it again, and has what it read of it still."""

    class Both(Model):
        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            long, short = batch
            self.trained.append((short.epoch, places([short])))
            return self.layer(long.dense.nan_to_num(0)).square().mean()

    model = Both()
    with (
        make(shared_fleet, dataset, filter="label >= 0") as long,
        make(shared_fleet, dataset, filter="label >= 0", epochs=9, batch_size=4000) as short,
    ):
        trainer(tmp_path, penstock.lightning.ExactState(), max_epochs=1).fit(model, [long, short])
    read = Counter((epoch, place) for epoch, rows in model.trained for place in rows)
    assert len(model.trained) == STEPS
    assert set(read.values()) == {1}
    assert {epoch for epoch, _ in read} == {0, 1, 2, 3}


def test_saving_without_the_callback_is_an_error(shared_fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    with (
        make(shared_fleet, dataset, filter="label >= 0") as loader,
        pytest.raises(errors.UsageError, match=r"penstock\.lightning\.ExactState"),
    ):
        trainer(tmp_path, saving(tmp_path, every=2), max_steps=3).fit(Model(), loader)


@pytest.mark.parametrize("counted", [True, False])
def test_what_lightning_reads_and_leaves_comes_again(
    shared_fleet: Fleet, dataset: Dataset, tmp_path: Path, counted: bool
) -> None:
    """It throws away the batch that it has read ahead when its own epoch ends before the loader's."""
    model = Model()
    with make(shared_fleet, dataset, filter="" if counted else "label >= 0", on_break="resume") as loader:
        limits = {"limit_train_batches": 5, "max_epochs": 3, "enable_checkpointing": False}
        trainer(tmp_path, penstock.lightning.ExactState(), **limits).fit(model, loader)
        rest = list(loader)
    assert len(model.rows()) == 15 * BATCH
    assert Counter(model.rows() + places(rest)) == Counter(dataset.places())


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("callbacks", [[], [penstock.lightning.ExactState]])
def test_limits_begin_the_next_pass(
    shared_fleet: Fleet, dataset: Dataset, tmp_path: Path, counted: bool, callbacks: list[Any]
) -> None:
    """And the check before the training takes no rows of the first validation."""

    class Epochs(Validating):
        def __init__(self) -> None:
            super().__init__()
            self.epochs: list[tuple[str, int]] = []

        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            self.epochs.append(("train", batch.epoch))
            return super().training_step(batch, batch_idx)

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            super().validation_step(batch, batch_idx)
            self.epochs.append(("check" if self.trainer.sanity_checking else "validate", batch.epoch))

    model = Epochs()
    options: dict[str, Any] = {"filter": "" if counted else "label >= 0"}
    with (
        make(shared_fleet, dataset, epochs=3, **options) as loader,
        make(shared_fleet, dataset, epochs=4, **options) as validation,
    ):
        limits = {"limit_train_batches": 5, "max_epochs": 3, "enable_checkpointing": False}
        trainer(tmp_path, *(c() for c in callbacks), **limits).fit(model, loader, validation)
        with pytest.raises(errors.EpochsExhausted):
            iter(loader)
    trained = [("train", epoch) for epoch in range(3) for _ in range(5)]
    assert [e for e in model.epochs if e[0] == "train"] == trained
    assert [e for e in model.epochs if e[0] == "check"] == [("check", 0)] * 2
    assert [e for e in model.epochs if e[0] == "validate"] == [("validate", e) for e in (1, 2, 3) for _ in range(STEPS)]
    assert list(map(Counter, model.validated[1:])) == [Counter(dataset.places())] * 3


def test_a_loop_of_one_s_own_behind_lightning_s(shared_fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    """It is not followed: what Lightning had read ahead comes again once, and states are as of the newest batch."""
    model = Model()
    options: dict[str, Any] = {"epochs": 2, "filter": "label >= 0", "on_break": "resume"}
    with make(shared_fleet, dataset, **options) as loader:
        once = trainer(tmp_path, penstock.lightning.ExactState(), max_epochs=1, limit_train_batches=5)
        once.fit(model, loader)
        once.save_checkpoint(tmp_path / "after.ckpt")
        trained = loader.state_dict()
        read = take(loader, 1)
        again = loader.state_dict()
        read += take(loader, 3)
        further = loader.state_dict()
        epochs = [read + list(loader), list(loader)]
        with pytest.raises(errors.EpochsExhausted):
            iter(loader)
    assert Counter(model.rows() + places(epochs[0])) == Counter(dataset.places())
    assert Counter(places(epochs[1])) == Counter(dataset.places())
    for state, behind in ((trained, 0), (again, 1), (further, 4)):
        with make(shared_fleet, dataset, **options) as resumed:
            resumed.load_state_dict(state)
            assert Counter(model.rows() + places(read[:behind]) + places(resumed)) == Counter(dataset.places())
    saved = torch.load(tmp_path / "after.ckpt", weights_only=False)["loops"]["fit_loop"]["state_dict"]
    assert saved["combined_loader"] == [trained]


def test_a_loop_of_one_s_own_behind_a_step_that_fails(shared_fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    model = Failing(0, 3)
    with make(shared_fleet, dataset, filter="label >= 0", on_break="resume") as loader:
        with pytest.raises(ValueError, match="no memory"):
            trainer(tmp_path, penstock.lightning.ExactState(), max_epochs=1).fit(model, loader)
        read = take(loader, 4)
        state = loader.state_dict()
        rest = list(loader)
    with make(shared_fleet, dataset, filter="label >= 0") as resumed:
        resumed.load_state_dict(state)
        for after in (rest, resumed):
            assert Counter(model.rows() + places(read) + places(after)) == Counter(dataset.places())


def test_one_trainer_with_another_loader(shared_fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    """Lightning reads a batch of it before its loop begins, and then reads it anew."""
    model = Model()
    twice = trainer(tmp_path, penstock.lightning.ExactState(), max_epochs=1)
    for epochs in (1, 2):
        twice.fit_loop.max_epochs = epochs
        with make(shared_fleet, dataset, filter="label >= 0") as loader:
            twice.fit(model, loader)
    assert Counter(model.rows(0)) == Counter(model.rows(1)) == Counter(dataset.places())


def test_one_trainer_twice(shared_fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    """What Lightning reads ahead before it asks its callbacks, and reads anew behind them, comes again."""
    model = Model()
    with make(shared_fleet, dataset, epochs=3, filter="label >= 0") as loader:
        twice = trainer(tmp_path, penstock.lightning.ExactState(), max_epochs=1)
        twice.fit(model, loader)
        for epochs in (2, 3):
            twice.fit_loop.max_epochs = epochs
            twice.fit(model, loader)
        assert len(loader._reading.flight._open) == 0
    assert Counter(model.rows()) == Counter([*dataset.places()] * 3)


def test_a_trainer_without_the_callback_after_one_with_it(
    shared_fleet: Fleet, dataset: Dataset, tmp_path: Path
) -> None:
    with make(shared_fleet, dataset, epochs=2, filter="label >= 0") as loader:
        trainer(tmp_path, penstock.lightning.ExactState(), saving(tmp_path, every=2), max_steps=3).fit(Model(), loader)
        with pytest.raises(errors.UsageError, match=r"penstock\.lightning\.ExactState"):
            trainer(tmp_path, saving(tmp_path, every=2), max_steps=3).fit(Model(), loader)


def test_a_checkpoint_of_an_epoch_s_first_step_that_fails(
    shared_fleet: Fleet, dataset: Dataset, tmp_path: Path
) -> None:
    first, second = Failing(1, 0), Model()
    options: dict[str, Any] = {"epochs": 2, "filter": "label >= 0"}
    saves = ModelCheckpoint(tmp_path, every_n_train_steps=STEPS + 1, save_on_exception=True)
    with make(shared_fleet, dataset, **options) as loader, pytest.raises(ValueError, match="no memory"):
        trainer(tmp_path, penstock.lightning.ExactState(), saves, max_epochs=2).fit(first, loader)
    (saved,) = tmp_path.glob("*.ckpt")
    with make(shared_fleet, dataset, **options) as loader:
        again = trainer(tmp_path, penstock.lightning.ExactState(), max_epochs=2)
        again.fit(second, loader, ckpt_path=saved, weights_only=False)
    assert Counter(first.rows()) == Counter(second.rows()) == Counter(dataset.places())


def test_with_map(shared_fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    first, second = Model(), Model()
    options: dict[str, Any] = {"filter": "label >= 0", "map": lambda batch: (batch, 1)}
    with make(shared_fleet, dataset, **options) as loader:
        trainer(tmp_path, penstock.lightning.ExactState(), saving(tmp_path, every=4), max_steps=4).fit(first, loader)
    with make(shared_fleet, dataset, **options) as loader:
        again = trainer(tmp_path, penstock.lightning.ExactState(), max_epochs=1)
        again.fit(second, loader, ckpt_path=tmp_path / "step=4.ckpt", weights_only=False)
    assert Counter(first.rows() + second.rows()) == Counter(dataset.places())


def test_inside_torchs_loader(shared_fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    model = Model()
    with make(shared_fleet, dataset) as loader:
        wrapped = torch.utils.data.DataLoader(loader, batch_size=None)
        trainer(tmp_path, penstock.lightning.ExactState(), max_epochs=1).fit(model, wrapped)
        assert isinstance(loader, DataLoader)
    assert Counter(model.rows()) == Counter(dataset.places())


def test_a_checkpoint_has_all_ranks_states(fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    """Lightning saves what rank 0 has, and gives it to all ranks."""
    fleet.start(workers=2)
    code = """
    import lightning, penstock.lightning
    from tests.torch.test_lightning import Model, saving, trainer
    from pathlib import Path
    model, folder = Model(), Path(given["out"])
    exact, parallel = penstock.lightning.ExactState(), {"devices": 2, "strategy": "ddp"}
    with loader(filter="label >= 0", last_batch="drop") as train:
        if given["first"]:
            trainer(folder, exact, saving(folder, every=3), max_steps=3, **parallel).fit(model, train)
        else:
            t = trainer(folder, exact, max_steps=5, **parallel)
            t.fit(model, train, ckpt_path=given["ckpt"], weights_only=False)
    found(model.rows())
    """
    given = {"master": fleet.master, "uri": dataset.uri}
    first = jobs.run(code, 2, tmp_path / "a", given | {"first": True})
    ckpt = str(tmp_path / "a" / "step=3.ckpt")
    second = jobs.run(code, 2, tmp_path / "b", given | {"first": False, "ckpt": ckpt})
    read = [tuple(place) for rank in (*first, *second) for place in rank]
    assert len(read) == 2 * 3 * BATCH + 2 * 2 * BATCH
    assert len(set(read)) == len(read), "no row twice"
