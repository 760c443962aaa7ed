"""Batches as torch tensors, and the loader under torch's own DataLoader."""

from __future__ import annotations

import pickle
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
import torch.utils.data
from torchrec.distributed.train_pipeline import TrainPipelineBase

import penstock
from penstock import batch as batch_module
from penstock import errors, features
from penstock._reading import Making
from tests import test_batch, test_feeder
from tests.test_loader import make, places

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Dataset, Fleet


def to_numpy(tensor: torch.Tensor) -> Any:
    """Of bfloat16 its bits."""
    return (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


@pytest.mark.parametrize(("lo", "hi"), [(0, 5), (0, 3), (2, 4), (1, 2), (0, 1)])
def test_tensors(lo: int, hi: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as torch's about memory that is not writable
        b = test_batch.batch(test_batch.record().slice(lo, hi - lo), "torch")
        test_batch.check(b, lo, to_numpy)
    assert isinstance(b.dense, torch.Tensor)


def test_tensors_share_the_records_memory_and_may_be_written() -> None:
    b = test_batch.batch(test_batch.record(), "torch")
    assert b.dense.data_ptr() == b.to_arrow().column("dense").flatten().buffers()[1].address
    b.dense.add_(1)
    assert b.numpy().dense[0, 0] == 1
    brain = b.tensors["brain"]
    assert (brain.dtype, brain[2].tolist(), brain[1, 1].tolist()) == (torch.bfloat16, [[2, -2], [1, 1]], [0.5, 1])
    assert {t.dtype for t in (*b.tensors.values(), b.padded["recent"].lengths, b.padded["seen"].values)} == {
        torch.float16, torch.bfloat16, torch.bool, torch.uint32, torch.int32,
    }  # fmt: skip
    brain[0] = 3
    b.tensors["flag"][0] = True
    b.padded["recent"].values[0] = 5
    record = b.to_arrow()
    assert record.column("brain")[0].as_py() == [0x4040] * 4
    assert record.column("flag")[0].as_py() == 1
    assert record.column("recent")[0].as_py() == {"values": [5] * 4, "length": 0}


@pytest.mark.parametrize("made", [True, False])
def test_masks_are_where_their_values_are(made: bool) -> None:
    b = test_batch.batch(test_batch.record(), "torch")
    if made:
        assert b.padded["recent"].mask.device.type == "cpu"
    moved = b.to("meta").padded["recent"]
    assert (moved.mask.device.type, moved.mask.shape, moved.mask.dtype) == ("meta", (5, 4), torch.bool)
    again = pickle.loads(pickle.dumps(b.to("cpu")))
    assert torch.equal(again.padded["recent"].mask, b.padded["recent"].mask)
    test_batch.check(again, 0, to_numpy)


def test_streams_know_of_masks() -> None:
    """Here objects stand for tensors of a GPU."""
    b = test_batch.batch(test_batch.record(), "torch")
    assert b.dense is not None
    heard = list[str]()

    class Tensor:
        device = torch.device("cuda")

        def record_stream(self, stream: str) -> None:
            heard.append(stream)

    feature = b.padded["recent"]
    feature._mask = Tensor()
    b.record_stream("stream")
    assert heard == ["stream"]


def test_a_torch_without_small_integers(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Its from_numpy raises TypeError; of bfloat16 it takes the bits."""
    from_numpy = torch.from_numpy

    def refuse(array: np.ndarray[Any, Any]) -> torch.Tensor:
        if array.dtype in (np.uint16, np.uint32):
            raise TypeError(f"can't convert np.ndarray of type numpy.{array.dtype}")
        return from_numpy(array)

    monkeypatch.setattr(torch, "from_numpy", refuse)
    batch_module._views.cache_clear()
    request.addfinalizer(batch_module._views.cache_clear)
    with pytest.raises(errors.UsageError, match=r"torch before 2\.3 .* numpy\.uint32; update torch"):
        _ = test_batch.batch(test_batch.record(), "torch").dense
    b = test_batch.batch(test_batch.record().select(["brain"]), "torch")
    assert b.tensors["brain"].dtype == torch.bfloat16


def test_tensors_outlive_their_batch() -> None:
    b = test_batch.batch(test_batch.record(), "torch")
    values = b.sparse["ids"].values
    del b
    assert values.tolist() == [0, 0, 1, 0, 1, 2, 0, 1, 2, 3]


@pytest.mark.parametrize(
    "view",
    [
        lambda b: b.dense,
        lambda b: b.dense[3:4, 5:].T,
        lambda b: b.dense.detach().view(torch.int32),
        lambda b: torch.utils.dlpack.from_dlpack(b.dense),
        lambda b: torch.from_numpy(b.numpy().dense.view()),
        lambda b: b.dense.numpy(),
        lambda b: b.dense.requires_grad_().sum(),  # autograd keeps no values for a sum, but the leaf
        lambda b: b.to("cpu"),
    ],
)
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_memory_that_a_tensor_sees_is_not_used_again(
    view: Callable[[penstock.Batch], Any], shared_fleet: Fleet, dataset: Dataset
) -> None:
    with make(shared_fleet, dataset, batch_size=200) as loader:
        test_feeder.check_memory_of(view, loader)


def test_dlpack() -> None:
    b = test_batch.batch(test_batch.record(), "torch")
    np.testing.assert_array_equal(np.from_dlpack(b.dense), b.numpy().dense)
    np.testing.assert_array_equal(torch.from_dlpack(b.dense).numpy(), b.numpy().dense)
    np.testing.assert_array_equal(np.from_dlpack(b.tensors["half"]), b.numpy().tensors["half"])
    assert torch.equal(torch.from_dlpack(b.tensors["brain"]), b.tensors["brain"])


def test_pickled() -> None:
    b = test_batch.batch(test_batch.record(), "torch")
    b.dense[0, 0] = 7
    again = pickle.loads(pickle.dumps(b))
    assert torch.equal(again.dense, b.dense)


def test_moving_to_a_device() -> None:
    b = test_batch.batch(test_batch.record(), "torch")
    moved = b.to("meta", non_blocking=True)
    arrays = [moved.dense, moved.labels["click"], moved.images["photo"], moved.rows, moved.bytes["word"].data]
    arrays += [*moved.tensors.values(), *(a for f in moved.padded.values() for a in (f.values, f.lengths))]
    arrays += [a for f in moved.sparse.values() for a in (f.values, f.offsets, f.weights, f.lengths) if a is not None]
    assert {a.device.type for a in arrays} == {"meta"}
    assert (moved.position, moved.epoch, len(moved), moved.dense.shape) == (b.position, b.epoch, len(b), b.dense.shape)
    assert b.dense.device.type == "cpu"
    test_batch.check(b.to("cpu"), 0, to_numpy)
    with pytest.raises(errors.UsageError, match="takes a device"):
        b.to(torch.float16)


def test_dtypes_of_torch_are_those_of_the_spec() -> None:
    for name in features.DTYPES:
        (feature,) = penstock.tensor("raw", shape=2, dtype=getattr(torch, name))
        assert feature.dtype == name


def test_jagged_tensors() -> None:
    f = test_batch.batch(test_batch.record(), "torch").sparse["ids"]
    jagged = f.jagged()
    assert jagged.layout == torch.jagged
    assert [row.tolist() for row in jagged.unbind()] == [list(range(i)) for i in range(5)]
    assert jagged.values().data_ptr() == f.values.data_ptr()


def test_keyed_jagged_tensors() -> None:
    b = test_batch.batch(test_batch.record(), "torch")
    kjt = b.keyed_jagged_tensor(["ids"])
    assert (kjt.keys(), kjt.lengths().dtype, kjt.weights_or_none()) == (["ids"], torch.int32, None)
    assert kjt["ids"].to_dense()[3].tolist() == [0, 1, 2]
    weighted = b.keyed_jagged_tensor(["weighted"], dtype=torch.int64)
    assert weighted.lengths().dtype == weighted.offsets().dtype == torch.int64
    assert weighted["weighted"].weights().tolist() == b.sparse["weighted"].weights.tolist()
    assert b.keyed_jagged_tensor("ids").keys() == ["ids"]
    with pytest.raises(errors.UsageError, match="one dtype"):
        b.keyed_jagged_tensor(["ids", "scores"])
    with pytest.raises(errors.UsageError, match="one weights"):
        b.keyed_jagged_tensor(["ids", "weighted"])


def test_keyed_jagged_tensors_of_several_features(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset) as loader:
        b = next(iter(loader))
    kjt = b.keyed_jagged_tensor()
    assert kjt.keys() == list(b.sparse)
    for name, feature in b.sparse.items():
        assert torch.equal(kjt[name].values(), feature.values)
        assert torch.equal(kjt[name].lengths(), feature.lengths)


def test_the_loader_is_an_iterable_dataset(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset, epochs=2) as loader:
        assert isinstance(loader, torch.utils.data.IterableDataset)
        wrapped = torch.utils.data.DataLoader(loader, batch_size=None)
        for _ in range(2):
            batches = list(wrapped)
            assert all(isinstance(b.dense, torch.Tensor) for b in batches)
            assert Counter(places(batches)) == Counter(dataset.places())


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_worker_processes_are_an_error(shared_fleet: Fleet, dataset: Dataset, context: str) -> None:
    with make(shared_fleet, dataset) as loader:
        wrapped = torch.utils.data.DataLoader(loader, batch_size=None, num_workers=1, multiprocessing_context=context)
        with pytest.raises(Exception, match="num_workers=0"):
            next(iter(wrapped))
        assert loader._reading is None, "nothing was opened"


def test_worker_processes_of_an_open_loader_are_an_error(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset, on_break="resume") as loader:
        first = next(iter(loader))
        with pytest.raises(errors.UsageError, match="num_workers=0"):
            next(iter(torch.utils.data.DataLoader(loader, batch_size=None, num_workers=1)))
        assert Counter(places([first, *loader])) == Counter(dataset.places())


def test_collating_batches_is_an_error(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset) as loader, pytest.raises(errors.UsageError, match="batch_size=None"):
        next(iter(torch.utils.data.DataLoader(loader)))


def test_device(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset, device="meta") as loader:
        batch = next(iter(loader))
        assert (batch.dense.device.type, batch.position) == ("meta", loader.position)
    with make(shared_fleet, dataset, device=torch.device("cpu"), map=lambda b: b.dense) as loader:
        assert sum(len(dense) for dense in loader) == dataset.rows


def test_no_device() -> None:
    with pytest.raises(errors.UsageError, match="device='gpu'"):
        penstock.DataLoader("/data", features=penstock.dense("a"), batch_size=1, device="gpu")


@pytest.mark.skipif(torch.accelerator.is_available(), reason="of machines without an accelerator")
@pytest.mark.parametrize("wrong", [{"device": "cuda"}, {"device": "cuda:1"}, {"device": "cpu:1"}, {"pin_memory": True}])
def test_devices_that_are_not_here(wrong: dict[str, Any]) -> None:
    with pytest.raises(errors.UsageError, match=f"{next(iter(wrong))}=.*; .*leave .* out"):
        penstock.DataLoader("/data", features=penstock.dense("a"), batch_size=1, **wrong)


@pytest.mark.parametrize(("device", "waits"), [("cuda", False), ("xpu", False), ("mps", True), ("meta", True)])
def test_copies_from_memory_that_is_used_again(device: str, waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are over before the batch is let go of."""
    asked = []

    def to(batch: penstock.Batch, device: Any, non_blocking: bool = False) -> penstock.Batch:
        asked.append(not non_blocking)
        return batch

    monkeypatch.setattr(penstock.Batch, "to", to)
    monkeypatch.setattr(penstock.Batch, "pin_memory", lambda batch: batch)
    for backend in (torch.cuda, torch.xpu, torch.mps):
        monkeypatch.setattr(backend, "device_count", lambda: 1)
    Making("train", "torch", device).place(test_batch.batch(test_batch.record(), "torch"))
    assert asked == [waits]


def test_pinned_memory(shared_fleet: Fleet, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tensor is pinned once. torch itself pins nothing on a machine without an accelerator."""
    pinned: dict[int, torch.Tensor] = {}

    def pin(tensor: torch.Tensor) -> torch.Tensor:
        copy = tensor.clone()
        pinned[copy.data_ptr()] = copy
        return copy

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    with make(shared_fleet, dataset, pin_memory=True) as loader:
        batch = next(iter(loader))
    arrays = [batch.dense, batch.label, batch.files, batch.rows, batch.mask]
    arrays += [a for f in batch.sparse.values() for a in (f.values, f.offsets)]
    assert {a.data_ptr() for a in arrays} == set(pinned)
    test_batch.check(test_batch.batch(test_batch.record(), "torch").pin_memory(), 0, to_numpy)


class Summing(torch.nn.Module):
    """What TorchRec's pipelines train: it gives the loss and an output."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)

    def forward(self, batch: penstock.Batch) -> tuple[torch.Tensor, penstock.Batch]:
        return self.layer(batch.dense.nan_to_num(0)).square().mean(), batch


def test_torchrecs_pipeline(shared_fleet: Fleet, dataset: Dataset) -> None:
    """It moves batches by to() and record_stream(), and reads ahead of what it has trained."""
    model = Summing()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    pipeline = TrainPipelineBase(model, optimizer, torch.device("cpu"))
    with make(shared_fleet, dataset) as loader:
        batches = iter(loader)
        trained = []
        for _ in range(5):
            trained.append(pipeline.progress(batches))
            loader.done(trained[-1])
        assert loader.position is not None
        assert loader.position.number > trained[-1].position.number, "it has read ahead"
        state = loader.state_dict()
        assert state == loader.state_dict(after=trained[-1])
    with make(shared_fleet, dataset) as loader:
        loader.load_state_dict(state)
        assert Counter(places(trained + list(loader))) == Counter(dataset.places())


def test_training(shared_fleet: Fleet, dataset: Dataset) -> None:
    """A loop as a user writes it."""
    transforms = [penstock.fill_null("int_*", 0), penstock.log1p("int_*"), penstock.sigrid_hash("cat_*", max=50)]
    torch.manual_seed(0)
    model = torch.nn.ModuleDict(
        {"dense": torch.nn.Linear(3, 1), "cat_0": torch.nn.EmbeddingBag(50, 1, include_last_offset=True)}
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def loss_of(batch: penstock.Batch) -> Any:
        bag = batch.sparse["cat_0"]
        logits = model["dense"](batch.dense) + model["cat_0"](bag.values, bag.offsets.long())
        return torch.nn.functional.binary_cross_entropy_with_logits(logits.squeeze(1), batch.label.float())

    trained: list[Any] = []
    losses: list[float] = []
    with make(shared_fleet, dataset, transforms=transforms, batch_size=500) as loader:
        for batch in loader:
            loss = loss_of(batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            trained.append(batch)
            losses.append(loss.item())
    # The same rows before and after: those of two batches differ by more than is learned from so few.
    assert sum(loss_of(batch).item() for batch in trained) < sum(losses)
