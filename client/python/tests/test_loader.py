"""The loader against a real fleet: every row once, states to the row, and mistakes that say what to do."""

from __future__ import annotations

import copy
import dataclasses
import gc
import inspect
import io
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import uuid
import weakref
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock import errors, monitor
from penstock._reader import SessionReader
from penstock._session import Session
from penstock.loader import DataLoader
from tests.conftest import write_dataset
from tests.session_cases import threads

if TYPE_CHECKING:
    from types import FrameType

    from tests.conftest import Dataset, Fleet

FEATURES = penstock.dense("int_*") + penstock.sparse("cat_*") + penstock.label("label")
BATCH = 1000
SOURCE = Path(__file__).parents[1] / "src"

Place = tuple[int, int]


def make(fleet: Fleet, dataset: Dataset, **options: Any) -> DataLoader:
    """A loader of all rows, which says of each where it comes from."""
    usual: dict[str, Any] = {
        "features": FEATURES, "batch_size": BATCH, "master": fleet.master, "last_batch": "uneven", "epochs": 1,
    }  # fmt: skip
    data = dataclasses.replace(options.pop("data", penstock.Data()), provenance=True)
    return DataLoader(dataset.uri, data=data, **(usual | options))


def places(batches: Iterable[penstock.Batch]) -> list[Place]:
    return [
        place for b in batches for place in zip(np.asarray(b.files).tolist(), np.asarray(b.rows).tolist(), strict=True)
    ]


def take(loader: DataLoader, count: int) -> list[penstock.Batch]:
    """Some batches of the present epoch, as a loop that breaks."""
    out = []
    for batch in loader:
        out.append(batch)
        if len(out) == count:
            break
    return out


def test_each_row_once_in_each_epoch(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset, epochs=2, seed=1, shuffle=True) as loader:
        assert (loader.epoch, loader.batch_size, loader.position) == (0, BATCH, None)
        orders = []
        for epoch in range(2):
            batches = list(loader)
            assert [len(b) for b in batches[:-1]] == [BATCH] * (len(batches) - 1)
            assert {b.epoch for b in batches} == {epoch}
            orders.append(places(batches))
            assert loader.position is batches[-1].position
            assert loader.epoch == epoch + 1
        for order in orders:
            assert Counter(order) == Counter(dataset.places())
        assert orders[0] != orders[1]
        stats = loader.stats()
        assert (stats.rows, stats.workers) == (2 * dataset.rows, 2)
        with pytest.raises(errors.EpochsExhausted, match=r"made for 2 epochs, .* DataLoader\(\.\.\., epochs=N\)$"):
            iter(loader)


@pytest.mark.parametrize("shuffle", [False, True])
def test_rows_of_a_shard_come_in_the_same_order_in_each_run(
    shared_fleet: Fleet, dataset: Dataset, shuffle: bool
) -> None:
    """A row group is never cut into several shards."""

    def orders() -> dict[tuple[int, int], list[tuple[int, bytes]]]:
        found: dict[tuple[int, int], list[tuple[int, bytes]]] = {}
        with make(shared_fleet, dataset, seed=1, shuffle=shuffle) as loader:
            for batch in loader:
                for (file, row), dense in zip(places([batch]), np.asarray(batch.dense), strict=True):
                    found.setdefault((file, row // 1000), []).append((row, dense.tobytes()))
        return found

    first = orders()
    assert sum(map(len, first.values())) == dataset.rows
    assert orders() == first
    assert all(rows == sorted(rows) for rows in first.values()) != shuffle


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_what_rows_hold(shared_fleet: Fleet, dataset: Dataset, compression: str) -> None:
    with make(shared_fleet, dataset, connection=penstock.Connection(compression=compression)) as loader:
        batch = next(iter(loader))
    assert isinstance(batch.dense, np.ndarray), "this program has not imported torch"
    for i in (0, 500, len(batch) - 1):
        row = dataset.files[batch.files[i]].slice(int(batch.rows[i]), 1).to_pylist()[0]
        want = [np.nan if row[n] is None else row[n] for n in batch.dense_names]
        np.testing.assert_array_equal(batch.dense[i], np.array(want, np.float32))
        ids = batch.sparse["cat_1"]
        assert ids.values[ids.offsets[i] : ids.offsets[i + 1]].tolist() == (row["cat_1"] or [])
        assert batch.label[i] == row["label"]


def test_transforms_and_filters(shared_fleet: Fleet, dataset: Dataset) -> None:
    transforms = [penstock.fill_null("int_*", 0), penstock.sigrid_hash("cat_*", max=100), penstock.first_x("cat_*", 2)]
    with make(shared_fleet, dataset, transforms=transforms, filter="label == 1") as loader:
        batches = list(loader)
        with pytest.raises(TypeError, match="not known"):
            len(loader)
    assert sum(len(b) for b in batches) == sum(sum(t["label"].to_pylist()) for t in dataset.files)
    for b in batches:
        assert b.label.all()
        assert not np.isnan(b.dense).any()
        assert b.sparse["cat_0"].values.max() < 100
        assert b.sparse["cat_0"].lengths.max() <= 2


def test_breaking_out_and_going_on(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset, epochs=2, on_break="resume") as loader:
        first = take(loader, 3)
        assert loader.epoch == 0
        rest = list(loader)
        assert Counter(places(first + rest)) == Counter(dataset.places())
        assert {b.epoch for b in first + rest} == {0}


@pytest.mark.parametrize("last_batch", ["uneven", "drop"])
def test_len(shared_fleet: Fleet, dataset: Dataset, last_batch: str) -> None:
    with make(shared_fleet, dataset, epochs=2, last_batch=last_batch, on_break="resume") as loader:
        count = len(take(loader, 1)) + len(list(loader))
        length = len(loader)
        assert count == length == dataset.rows // BATCH + (last_batch == "uneven")
        # A loop that counts instead of asking for the end gets the next epoch then, and no empty one.
        assert [b.epoch for b in take(loader, length)] == [1] * length


def test_len_is_known_after_a_whole_epoch(
    shared_fleet: Fleet, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "planned_rows", lambda session, patience: None)  # no master says
    session = uuid.uuid4().hex
    with make(shared_fleet, dataset, epochs=3, session=session) as loader:
        with pytest.raises(TypeError):
            len(loader)
        count = len(list(loader))
        assert len(loader) == count
        take(loader, 2)
    with make(shared_fleet, dataset, epochs=3, session=session) as loader:  # it goes on with the rest of epoch 1
        rest = len(list(loader))
        assert rest < count
        with pytest.raises(TypeError):
            len(loader)
        assert len(list(loader)) == len(loader) == count


def test_a_loop_that_counts_gets_no_empty_epoch(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset, epochs=2, on_break="resume") as loader:
        for epoch in range(2):
            iter(loader)
            length = dataset.rows // BATCH + 1
            assert [b.epoch for b in take(loader, length)] == [epoch] * length
        assert list(loader) == []
        with pytest.raises(errors.EpochsExhausted):
            iter(loader)


def test_a_state_is_as_of_its_batch(shared_fleet: Fleet, dataset: Dataset) -> None:
    """Three batches are in flight when the state of the first of them is taken."""
    with make(shared_fleet, dataset, shuffle=True) as loader:
        held = take(loader, 6)
        state = json.loads(json.dumps(loader.state_dict(after=held[2])))
        same = loader.state_dict(after=held[2].position)
        newest = loader.state_dict()
    assert state == same
    assert newest == {**newest, "rank": 0, "world_size": 1, "epoch": 0, "batch_size": BATCH}
    for saved, behind in ((state, 3), (newest, 6)):
        with make(shared_fleet, dataset, shuffle=True) as resumed:
            resumed.load_state_dict(saved)
            rest = list(resumed)
        assert Counter(places(held[:behind] + rest)) == Counter(dataset.places())


def test_done_says_how_far_a_loop_is_that_reads_ahead(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset, epochs=2) as loader:
        batches = iter(loader)
        pipeline = [next(batches) for _ in range(3)]
        finished = []
        while pipeline:
            batch = pipeline.pop(0)
            finished.append(batch)
            loader.done(batch)
            pipeline += [b for b in [next(batches, None)] if b is not None]
            if len(finished) in (1, 5):
                assert loader.state_dict() == loader.state_dict(after=batch)
        assert Counter(places(finished)) == Counter(dataset.places())
        ended = loader.state_dict()
        assert ended["epoch"] == 1, "the loop has ended the epoch"
        with pytest.raises(errors.UsageError, match="none is in flight"):
            loader.done()
    with make(shared_fleet, dataset, epochs=2) as resumed:
        resumed.load_state_dict(ended)
        assert Counter(places(resumed)) == Counter(dataset.places())
        assert resumed.epoch == 2


def test_an_epoch_that_is_done_stays_done_while_the_next_is_read_ahead(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset, epochs=2) as loader:
        for batch in loader:
            loader.done(batch)
        ended = loader.state_dict()
        first, second = take(loader, 2)
        assert loader.state_dict() == ended
        assert ended["epoch"] == 1
        loader.done(first)
        assert loader.state_dict() == loader.state_dict(after=first)
        loader.done(second)
        assert loader.state_dict() == loader.state_dict(after=second)


def test_a_state_knows_whether_the_loop_has_ended_the_epoch(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset, epochs=2) as loader:
        inside = [loader.state_dict() for _ in loader][-1]
        behind = loader.state_dict()
    assert (inside["epoch"], behind["epoch"]) == (0, 1)
    for state in (inside, behind):
        with make(shared_fleet, dataset, epochs=2) as resumed:
            resumed.load_state_dict(state)
            if state is inside:
                assert resumed.epoch == 0
                assert list(resumed) == []
            assert resumed.epoch == 1
            assert Counter(places(resumed)) == Counter(dataset.places())
            with pytest.raises(errors.EpochsExhausted):
                iter(resumed)


def test_a_rank_that_comes_late_has_an_empty_epoch(shared_fleet: Fleet, dataset: Dataset) -> None:
    session = uuid.uuid4().hex
    with make(shared_fleet, dataset, session=session, rank=0, world_size=2) as loader:
        assert len(places(loader)) == dataset.rows
    with make(shared_fleet, dataset, session=session, rank=1, world_size=2) as late:
        assert list(late) == []
        with pytest.raises(errors.EpochsExhausted):
            iter(late)
    with (
        make(shared_fleet, dataset, session=session, rank=0, world_size=2) as again,
        pytest.raises(errors.EpochsExhausted, match="another session="),
    ):
        iter(again)


def test_states_of_all_ranks_go_into_a_job_of_another_size(shared_fleet: Fleet, dataset: Dataset) -> None:
    job = uuid.uuid4().hex
    loaders = [make(shared_fleet, dataset, session=f"{job}-a", rank=r, world_size=2) for r in range(2)]
    with ThreadPoolExecutor(3) as pool:
        read = list(pool.map(lambda loader: take(loader, 4), loaders))
        states = list(pool.map(lambda loader: loader.state_dict(), loaders))
        list(pool.map(lambda loader: loader.close(), loaders))
        assert [s["rank"] for s in states] == [0, 1]
        before = places(read[0] + read[1])
        assert all(read), "each rank read"  # 4 batches, or fewer where the other was granted the rest
        assert len(before) == len(set(before)) < dataset.rows
        resumed = [make(shared_fleet, dataset, session=f"{job}-b", rank=r, world_size=3) for r in range(3)]
        for loader in resumed:
            loader.load_state_dict([*states, states[0]])  # as ranks of one replica give the same
        rest = [place for read in pool.map(places, resumed) for place in read]
        list(pool.map(lambda loader: loader.close(), resumed))
    assert Counter(before + rest) == Counter(dataset.places())


def test_loops_over_more_epochs_than_there_are(
    shared_fleet: Fleet, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_too_many(loader: DataLoader) -> str:
        with loader:
            list(loader)
            with pytest.raises(errors.EpochsExhausted) as caught:
                iter(loader)
        return str(caught.value)

    assert one_too_many(make(shared_fleet, dataset)) == (
        "the loader was made for 1 epoch, and all have been read; for N passes make it with DataLoader(..., epochs=N)"
    )
    text = f"dataset: {{uri: '{dataset.uri}'}}\nfeatures: [{{dense: int_*}}]\nbatch_size: {BATCH}\nepochs: 1\n"
    assert one_too_many(DataLoader(spec=text, master=shared_fleet.master)).endswith(
        'make it with "epochs: N" in its spec'
    )
    anew = (
        "the session {!r} was made for 1 epoch, and all have been read; to read again, give the job another run id, or "
        "the loader another session=, and for N passes DataLoader(..., epochs=N)"
    )
    session = uuid.uuid4().hex
    assert one_too_many(make(shared_fleet, dataset, session=session)) == anew.format(session)
    monkeypatch.setenv("PENSTOCK_RUN_ID", session)
    assert one_too_many(make(shared_fleet, dataset)) == anew.format(f"{session}/train")
    with make(shared_fleet, dataset) as same_job, pytest.raises(errors.EpochsExhausted) as caught:
        iter(same_job)
    assert str(caught.value) == anew.format(f"{session}/train")


def test_loading_a_state_into_an_open_loader(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset) as loader:
        held = take(loader, 4)
        state = loader.state_dict(after=held[1])
        loader.load_state_dict(state)
        assert Counter(places(held[:2]) + places(loader)) == Counter(dataset.places())
        with pytest.raises(errors.UsageError, match="before load_state_dict"):
            loader.state_dict(after=held[3])


@pytest.mark.parametrize(
    "state",
    [
        {}, {"format": "penstock.state/0"}, {"format": "penstock.state/1", "state": "no"},
        None, "text", 3, [], [3], ["text"], {"format": "penstock.state/1", "ranks": 3},
        {"format": "penstock.state/1", "ranks": []},
    ],
)  # fmt: skip
def test_what_is_no_state(state: Any) -> None:
    loader = DataLoader("/data", features=FEATURES, batch_size=1, master="127.0.0.1:1")
    with pytest.raises(errors.UsageError, match="state"):
        loader.load_state_dict(state)


def test_a_state_of_another_spec(shared_fleet: Fleet, dataset: Dataset) -> None:
    """The error names what differs; batch size and epochs may."""
    with make(shared_fleet, dataset, seed=1) as loader:
        take(loader, 2)
        state = json.loads(json.dumps(loader.state_dict()))
    assert len(json.dumps(state)) < 1000
    text = (
        f"{{dataset: {{uri: '{dataset.uri}'}}, features: [{{dense: int_*}}, {{sparse: cat_*}}, {{label: label}}], "
        f"batch_size: {BATCH}, provenance: true, seed: 2}}"
    )
    for other, lines in (
        (make(shared_fleet, dataset, seed=2), ["seed: 1 and 2"]),
        (DataLoader(spec=text, master=shared_fleet.master), ["seed: 1 and 2"]),
        (make(shared_fleet, dataset, seed=1, shuffle=True, filter="label > 0"), [
            "filter: '' and 'label > 0'", "shuffle: False and True"
        ]),
        (make(shared_fleet, dataset, seed=1, features=penstock.dense("int_*")), [r"features: '3 #\w+' and '1 #\w+'"]),
    ):  # fmt: skip
        with other as loader:
            loader.load_state_dict([state])
            with pytest.raises(errors.RestoreRefused) as caught:
                iter(loader)
            first, _, rest = str(caught.value).partition("\n")
            assert re.fullmatch("the state's spec and this one differ: " + "; ".join(lines), first)
            assert "of another spec" in rest
    with make(shared_fleet, dataset, seed=1, batch_size=BATCH // 2, epochs=2) as loader:
        loader.load_state_dict(state)
        assert sum(map(len, loader)) == dataset.rows - 2 * BATCH


def test_set_epoch(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset, epochs=5) as loader:
        loader.set_epoch(0)
        assert {b.epoch for b in loader} == {0}
        loader.set_epoch(1)  # its turn anyway
        session = loader.session
        loader.set_epoch(2)
        assert loader.session == session
        some = take(loader, 2)
        assert {b.epoch for b in some} == {2}
        loader.set_epoch(3)  # in the middle of an epoch
        batches = list(loader)
        assert {b.epoch for b in batches} == {3}
        assert Counter(places(batches)) == Counter(dataset.places())
        with pytest.raises(errors.UsageError, match=r"loader\.epoch"):
            loader.set_epoch(3)
        with pytest.raises(errors.EpochsExhausted, match=r"5 epochs, .*set_epoch\(5\).*epochs=N"):
            loader.set_epoch(5)


def test_map_and_a_map_that_fails(shared_fleet: Fleet, dataset: Dataset) -> None:
    """A batch whose map was interrupted is not lost, and no state has it."""
    fail = [False]

    def double(batch: penstock.Batch) -> tuple[penstock.Batch, Any]:
        if fail[0]:
            fail[0] = False
            raise KeyboardInterrupt
        return batch, batch.dense * 2

    with make(shared_fleet, dataset, map=double) as loader:
        batches = iter(loader)
        first, doubled = next(batches)
        np.testing.assert_array_equal(doubled, first.dense * 2)
        assert loader.position is first.position
        before = loader.state_dict()
        fail[0] = True
        with pytest.raises(KeyboardInterrupt):
            next(batches)
        assert loader.state_dict() == before
        rest = [batch for batch, _ in batches]
        assert Counter(places([first, *rest])) == Counter(dataset.places())
        assert loader.stats().map_seconds > 0


def test_a_batch_that_an_epoch_begins_with_and_that_fails_is_in_no_state(shared_fleet: Fleet, dataset: Dataset) -> None:
    fail = [False]

    def failing(batch: penstock.Batch) -> penstock.Batch:
        if fail[0]:
            raise MemoryError
        return batch

    with make(shared_fleet, dataset, epochs=2, map=failing) as loader:
        list(loader)
        fail[0] = True
        with pytest.raises(MemoryError):
            next(iter(loader))
        state = loader.state_dict()
    with make(shared_fleet, dataset, epochs=2) as resumed:
        resumed.load_state_dict(state)
        assert resumed.epoch == 1
        assert Counter(places(resumed)) == Counter(dataset.places())


def test_a_map_that_ends_like_an_iterator(shared_fleet: Fleet, dataset: Dataset) -> None:
    with (
        make(shared_fleet, dataset, map=lambda batch: next(iter(()))) as loader,
        pytest.raises(RuntimeError, match="map= raised StopIteration"),
    ):
        list(loader)


class Interrupt:
    """Raises KeyboardInterrupt once, where a function comes to one of its lines."""

    def __init__(self, function: Any, line: int) -> None:
        self._code, self._line = function.__code__, line
        self.raised = False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Interrupt | None:
        if frame.f_code is not self._code:
            return None
        if event == "line" and frame.f_lineno == self._line and not self.raised:
            self.raised = True
            raise KeyboardInterrupt
        return self


def test_an_interrupt_between_session_and_loop_loses_nothing(
    shared_fleet: Fleet, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "planned_rows", lambda session, patience: None)  # so that it counts them
    source, first = inspect.getsourcelines(SessionReader.next)
    call = next(i for i, text in enumerate(source) if "self._session.next()" in text)
    # Python does not look for signals before a mere return.
    lines = [first + i for i, text in enumerate(source) if i > call and not text.strip().startswith("return")]
    assert lines
    tracing = sys.gettrace()
    for line in lines:
        interrupt = Interrupt(SessionReader.next, line)
        with make(shared_fleet, dataset) as loader:
            batches, read = iter(loader), []
            for _ in range(2):  # the second time it goes on
                sys.settrace(interrupt)
                try:
                    for batch in batches:
                        read.append(batch)
                except KeyboardInterrupt:
                    state = loader.state_dict()
                finally:
                    sys.settrace(tracing)
            assert interrupt.raised, source[line - first]
            assert Counter(places(read)) == Counter(dataset.places()), source[line - first]
            assert len(loader) == len(read)
            assert loader.state_dict()["epoch"] == 1
            assert state["epoch"] == 0


@pytest.mark.parametrize("progress", [False, True])
def test_a_loader_that_is_forgotten_leaves_without_the_garbage_collector(
    shared_fleet: Fleet, dataset: Dataset, progress: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    gc.disable()
    try:
        loader = make(shared_fleet, dataset, progress=progress)
        last = list(loader)[-1]
        stream = weakref.ref(loader._open().stream)
        del loader
        assert stream() is None, "for all that a batch is kept"
        assert len(last.dense) == len(last)
    finally:
        gc.enable()
    for thread in threading.enumerate():
        if thread.name == "penstock-close":
            thread.join(30)
    assert not threads()


def test_a_short_run_logs_its_statistics(shared_fleet: Fleet, dataset: Dataset) -> None:
    events: list[monitor.Event] = []
    handle = monitor.register_event_handler(events.append)
    with make(shared_fleet, dataset) as loader:
        list(loader)
    monitor.unregister_event_handler(handle)
    figures = {name for e in events if e.type == monitor.STAT_EVENT for name in e.metadata}
    assert {"penstock.train.wait_seconds.p99", "penstock.system.rss_bytes.max"} <= figures


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress(shared_fleet: Fleet, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with make(shared_fleet, dataset, progress=True, epochs=2, name="clicks") as loader:
        for _ in range(2):
            list(loader)
    shown = terminal.getvalue()
    assert "clicks epoch 0" in shown
    assert "clicks epoch 1" in shown
    assert "waited" in shown


def test_a_newer_iterator_takes_over(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset, epochs=2) as loader:
        older = iter(loader)
        next(older)
        next(iter(loader))
        with pytest.raises(errors.UsageError, match="newer iter"):
            next(older)


def test_formats(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset, format="arrow") as loader:
        batch = next(iter(loader))
    assert isinstance(batch.to_arrow(), pa.RecordBatch)
    assert isinstance(batch.dense, pa.FixedSizeListArray)
    with pytest.raises(errors.UsageError, match="format"):
        DataLoader("/data", features=FEATURES, batch_size=1, format="tensorflow")
    with pytest.raises(errors.UsageError, match="torch"):
        DataLoader("/data", features=FEATURES, batch_size=1, format="numpy", device="cpu")


def test_spec_files(shared_fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    text = f"dataset: {{uri: '{dataset.uri}'}}\nfeatures: [{{dense: int_*}}]\nbatch_size: {BATCH}\nepochs: 1\n"
    file = tmp_path / "spec.yaml"
    file.write_text(text)
    for spec in (text, file):
        with DataLoader(spec=spec, master=shared_fleet.master) as loader:
            assert (sum(len(b) for b in loader), loader.batch_size) == (dataset.rows, BATCH)
    with pytest.raises(errors.UsageError, match="batch_size, shuffle"):
        DataLoader(spec=text, batch_size=BATCH, shuffle=True)
    with pytest.raises(errors.UsageError, match="features="):
        DataLoader("/data")


def test_paths_in_spec_files_begin_at_the_working_directory(
    shared_fleet: Fleet, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(dataset.dir.parent)
    file = tmp_path / "spec.yaml"
    file.write_text(
        f"dataset: {{uri: {dataset.dir.name}/}}\nfeatures: [{{dense: int_*}}]\nbatch_size: {BATCH}\nepochs: 1\n"
    )
    with DataLoader(spec=file, master=shared_fleet.master) as loader:
        monkeypatch.chdir(tmp_path)  # the session is not open yet
        assert sum(len(b) for b in loader) == dataset.rows
    with pytest.raises(errors.SessionFailed, match=str(tmp_path / dataset.dir.name)):
        iter(DataLoader(spec=file, master=shared_fleet.master))


def test_tables_by_relative_paths(shared_fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = Path(__file__).parents[3] / "internal/tables/delta/testdata/tables"
    name = "spark-dv-with-columnmapping"
    versions = json.loads((tables / name / "expected.json").read_text())
    want = sorted((row["part"], row["col1"]) for row in versions["versions"][versions["newest"]]["rows"])
    file = tmp_path / "spec.yaml"
    file.write_text(f"dataset: {{uri: delta+{name}}}\nfeatures: [{{dense: [part, col1]}}]\nbatch_size: 8\nepochs: 1\n")
    monkeypatch.chdir(tables)
    loaders = [
        DataLoader(
            f"delta+{name}", features=penstock.dense("part", "col1"), batch_size=8, epochs=1, master=shared_fleet.master
        ),
        DataLoader(spec=file, master=shared_fleet.master),
    ]
    assert [c.name for c in penstock.schema(f"delta+{name}")] == ["part", "col1", "col2"]
    monkeypatch.chdir(tmp_path)  # no session is open yet
    for loader in loaders:
        with loader:
            assert sorted(tuple(map(int, row)) for batch in loader for row in batch.dense) == want


def test_mistakes_in_the_spec_come_with_the_masters_words(shared_fleet: Fleet, dataset: Dataset) -> None:
    wrong = penstock.dense("int_*", "nothing") + penstock.label("cat_0")
    with pytest.raises(errors.SpecError) as caught, make(shared_fleet, dataset, features=wrong) as loader:
        next(iter(loader))
    assert "nothing" in str(caught.value)
    assert "cat_0" in str(caught.value)
    session = uuid.uuid4().hex
    with make(shared_fleet, dataset, session=session) as loader:
        next(iter(loader))
    with pytest.raises(errors.SessionMismatch, match="batch_size"):
        iter(make(shared_fleet, dataset, session=session, batch_size=7))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"features": [penstock.dense("a"), penstock.label("b")]}, r"penstock\.dense\(...\) \+"),
        ({"features": "int_*"}, r"penstock\.dense\('int_\*'\)"),
        ({"features": ["label", "int_0"]}, r"penstock\.dense\(\['label', 'int_0'\]\)"),
        ({"transforms": penstock.log1p}, r"transforms=\["),
        ({"transforms": ["log1p"]}, r"transforms=\["),
        ({"batch_size": 1e3}, "batch_size: .* integer"),
        ({"epochs": 0}, "epochs: .* 1 or more"),
        ({"map": "double"}, "map="),
        ({"master": "10.0.0.1"}, "no port.*host:port"),
        ({"master": "localhost"}, "no port"),
        ({"master": "http://localhost:7070"}, "has a scheme; leave it out"),
        ({"master": ["a:7070", "::1:7070"]}, r"'::1:7070': .* in brackets"),
        ({"master": "localhost:70700"}, "port outside"),
        ({"master": "localhost:0"}, "port outside"),
        ({"master": ":7070"}, "no host"),
        ({"master": []}, "empty.*host:port"),
        ({"master": 7070}, "host:port"),
        ({"budget": "1GB"}, "budget="),
        ({"timeout": 0}, "timeout="),
        ({"workers": 2}, "workers= is of the fleet that a loader without master= starts"),
        ({"connection": penstock.Connection(memory=1 << 30)}, "memory= is of the fleet that a loader without master="),
        ({"master": None, "workers": -1}, "workers=-1: give a number of worker processes"),
        ({"master": None, "workers": "2"}, "workers='2': give a number of worker processes"),
    ],
)
def test_arguments_that_cannot_be(wrong: dict[str, Any], says: str) -> None:
    """They raise at once, not when the session opens."""
    options: dict[str, Any] = {"features": FEATURES, "batch_size": 1, "master": "127.0.0.1:1"}
    with pytest.raises((errors.UsageError, errors.SpecError), match=says):
        DataLoader("/data", **(options | wrong))


def test_numbers_of_numpy(shared_fleet: Fleet, dataset: Dataset) -> None:
    numbers: dict[str, Any] = {"batch_size": np.int64(BATCH), "epochs": np.int8(1), "seed": np.uint8(1)}
    numbers |= {"rank": np.int32(0), "world_size": np.int64(1), "budget": np.uint64(1 << 28)}
    numbers |= {"timeout": np.float32(60), "connection": penstock.Connection(connect_timeout=np.int16(60))}
    with make(shared_fleet, dataset, **numbers) as loader:
        assert sum(map(len, loader)) == dataset.rows
        assert json.dumps(loader.state_dict())


@pytest.mark.parametrize("master", ["h:1", "10.0.0.1:65535", "[::1]:7070", "[fe80::1%eth0]:7070", "unix:/run/x"])
def test_addresses_of_masters(master: str) -> None:
    DataLoader("/data", features=FEATURES, batch_size=1, master=master)


@pytest.mark.parametrize(
    ("share", "kept"),
    [
        (None, None),
        (2.5, {"weight": 2.5}),
        ({"min_workers": 1}, {"weight": 1, "min_workers": 1}),
        ({"weight": 3, "min_workers": 1, "max_workers": 8}, {"weight": 3, "min_workers": 1, "max_workers": 8}),
    ],
)
def test_the_master_keeps_the_share(shared_fleet: Fleet, dataset: Dataset, share: Any, kept: Any) -> None:
    ranks = penstock.Ranks(share=share)
    with make(shared_fleet, dataset, session=(session := uuid.uuid4().hex), ranks=ranks) as loader:
        assert len(take(loader, 1)) == 1
        command = [str(shared_fleet.binary), "session", "show", session, f"--master={shared_fleet.master}"]
        shown = subprocess.run([*command, "--output=json"], capture_output=True, text=True, check=True)
        assert json.loads(shown.stdout).get("share") == kept


def test_ranks_that_ask_for_different_shares(shared_fleet: Fleet, dataset: Dataset) -> None:
    ranks: dict[str, Any] = {"session": uuid.uuid4().hex, "world_size": 2}
    with make(shared_fleet, dataset, rank=0, ranks=penstock.Ranks(share=2), **ranks) as first:
        iter(first)
        with pytest.raises(errors.SessionMismatch, match=r"another share: weight 2, 0 to 0 workers"):
            iter(make(shared_fleet, dataset, rank=1, ranks=penstock.Ranks(share=3), **ranks))
        with make(shared_fleet, dataset, rank=1, **ranks) as none:
            iter(none)


def test_no_data(shared_fleet: Fleet, tmp_path: Path) -> None:
    loader = DataLoader(tmp_path, features=FEATURES, batch_size=1, master=shared_fleet.master)
    with pytest.raises(errors.SessionFailed, match=r"nothing found(.|\n)*mend what the master names") as caught:
        iter(loader)
    assert "session show" not in str(caught.value), "there is no session to be shown"


def test_no_master() -> None:
    soon = penstock.Connection(connect_timeout=0.5)
    loader = DataLoader("/data", features=FEATURES, batch_size=1, master="127.0.0.1:1", connection=soon)
    with pytest.raises(errors.MasterUnreachable, match=r"127\.0\.0\.1:1"):
        iter(loader)


def test_no_worker_is_a_verdict(fleet: Fleet, dataset: Dataset) -> None:
    fleet.start(workers=1)
    # A batch at a time, so that the rest is still to come when the worker dies.
    with make(fleet, dataset, timeout=2, budget=1, batch_size=100) as loader:
        batches = iter(loader)
        read = places([next(batches)])
        assert "first batch" in loader.stats().verdict
        fleet.kill()
        with pytest.raises(errors.WorkersUnreachable):
            read.extend(place for batch in batches for place in places([batch]))  # as they come
        stats = loader.stats()
        assert stats.bottleneck == "failure"
        assert stats.verdict.startswith("reading failed: WorkersUnreachable: session")
        assert stats.verdict in str(stats)
        fleet.add_worker()
        read += places(loader)  # a loop that was ended by an error has not left its epoch
    assert Counter(read) == Counter(dataset.places())


def test_loaders_of_one_job_need_names(shared_fleet: Fleet, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_RUN_ID", run := uuid.uuid4().hex)
    with make(shared_fleet, dataset) as train, make(shared_fleet, dataset, name="validation") as validation:
        assert (train.session, validation.session) == (f"{run}/train", f"{run}/validation")
        assert Counter(places(validation)) == Counter(dataset.places())
        with make(shared_fleet, dataset) as again:
            assert Counter(places(again)) == Counter(dataset.places())
        with pytest.raises(errors.Fenced, match="name="):
            next(iter(train))
        with pytest.raises(errors.SessionMismatch, match=r"shuffle: false and true") as caught:
            iter(make(shared_fleet, dataset, shuffle=True))
    assert 'name="validation"' in str(caught.value)
    assert "delete" not in str(caught.value)


def test_jobs_with_equal_specs_get_all_rows_each(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset) as one, make(shared_fleet, dataset) as other, ThreadPoolExecutor(2) as pool:
        read = list(pool.map(places, [one, other]))
    assert [Counter(r) for r in read] == [Counter(dataset.places())] * 2


def test_ranks_need_one_id() -> None:
    options: dict[str, Any] = {"features": FEATURES, "batch_size": 1, "rank": 1, "world_size": 2}
    with pytest.raises(errors.UsageError, match="session="):
        iter(DataLoader("/data", master="127.0.0.1:1", **options))
    with pytest.raises(
        errors.UsageError, match=r'\n    penstock local\n(.|\n)*\n    master=".*", .*\(token_file=".*"\)'
    ):
        iter(DataLoader("/data", session="x", **options))
    with pytest.raises(errors.UsageError, match="go together"):
        iter(DataLoader("/data", features=FEATURES, batch_size=1, rank=0))


def test_tasks_of_srun_are_ranks(shared_fleet: Fleet, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", run := uuid.uuid4().hex)
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
    loaders = [make(shared_fleet, dataset) for _ in range(2)]
    for task, loader in enumerate(loaders):
        monkeypatch.setenv("SLURM_PROCID", str(task))
        assert loader.session == f"{run}/train"
    with loaders[0], loaders[1], ThreadPoolExecutor(2) as pool:
        assert Counter(place for read in pool.map(places, loaders) for place in read) == Counter(dataset.places())


def test_pods_of_an_indexed_job_say_which_rank_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")
    monkeypatch.setenv("HOSTNAME", "ctr-1")

    def opened(**options: Any) -> None:
        soon = penstock.Connection(connect_timeout=0.1)
        iter(DataLoader("/data", features=FEATURES, batch_size=1, master="127.0.0.1:1", connection=soon, **options))

    with pytest.raises(errors.UsageError, match=r"Job 'ctr' .*rank=int\(os\.environ.* and world_size="):
        opened()
    told: list[dict[str, Any]] = [{"rank": 1, "world_size": 2}, {"session": "of-this-pod-alone"}]
    for options in told:
        with pytest.raises(errors.MasterUnreachable):
            opened(**options)
    monkeypatch.setenv("PENSTOCK_RUN_ID", "of-this-pod-alone")
    with pytest.raises(errors.MasterUnreachable):
        opened()


def test_closed(shared_fleet: Fleet, dataset: Dataset) -> None:
    loader = make(shared_fleet, dataset)
    with loader:
        batches = iter(loader)
        next(batches)
    loader.close()
    for use in (lambda: next(batches), lambda: iter(loader), loader.state_dict, lambda: loader.epoch):
        with pytest.raises(errors.Closed):
            use()
    assert loader.stats().batches == 1
    assert repr(loader).endswith("; closed)")


def test_a_fork_says_what_to_do(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset) as loader:
        batches = iter(loader)
        first = next(batches)
        uses = (lambda: next(batches), lambda: iter(loader), loader.state_dict)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            said = []
            for use in uses:
                try:
                    use()
                except errors.UsageError as err:
                    said.append(str(err))
            loader.close()
            os.write(write, json.dumps(said).encode())
            os._exit(0)
        os.waitpid(child, 0)
        os.close(write)
        with os.fdopen(read) as pipe:
            said = json.load(pipe)
        assert len(said) == len(uses)
        assert all("fork" in s and "num_workers=0" in s for s in said)
        # The child's close() took nothing from the parent.
        assert Counter(places([first, *batches])) == Counter(dataset.places())


def test_an_open_loader_is_not_copied(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset) as loader:
        copy = pickle.loads(pickle.dumps(loader))
        assert loader.epoch == 0
        with pytest.raises(errors.UsageError, match="num_workers=0"):
            pickle.dumps(loader)
    with copy:
        assert sum(len(b) for b in copy) == dataset.rows


def run(code: str, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(SOURCE)} | environ,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_importing_penstock_imports_nothing_optional() -> None:
    code = "import sys, penstock; print([m for m in ('torch', 'tqdm', 'torchrec', 'lightning') if m in sys.modules])"
    out, err = run(code).communicate(timeout=60)
    assert (out, err) == ("[]\n", "")


def test_a_batch_may_be_pickled(shared_fleet: Fleet, dataset: Dataset) -> None:
    with make(shared_fleet, dataset) as loader:
        batch = next(iter(loader))
        again = pickle.loads(pickle.dumps(batch))
        assert places([again]) == places([batch])
        with pytest.raises(errors.UsageError, match="as it came from the loop"):
            loader.state_dict(after=again)
        assert loader.state_dict(after=copy.deepcopy(batch)) == loader.state_dict()


def test_ctrl_c(shared_fleet: Fleet, tmp_path: Path) -> None:
    """A loop that waits for its epoch's end ends at once, with nothing but KeyboardInterrupt."""
    dataset = write_dataset(tmp_path / "many", files=100, rows=100)  # more than the first loader takes at once
    session = uuid.uuid4().hex
    code = (
        """
import sys, penstock
options = dict(features=penstock.dense("int_*"), batch_size=10, master=sys.argv[1] if sys.argv[1:] else "MASTER")
with penstock.DataLoader("URI", session="SESSION", rank=0, world_size=2, **options) as loader:
    for i, batch in enumerate(loader):
        print(i, flush=True)
""".replace("MASTER", shared_fleet.master)
        .replace("URI", dataset.uri)
        .replace("SESSION", session)
    )
    with DataLoader(
        dataset.uri, features=penstock.dense("int_*"), batch_size=10, master=shared_fleet.master,
        session=session, rank=1, world_size=2, budget=1 << 10,
    ) as other:  # fmt: skip
        next(iter(other))  # and holds rows, without which the epoch does not end
        process = run(code)
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert err.count("Traceback") == 1, err


def test_on_box(dataset: Dataset, penstock_binary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_BINARY", str(penstock_binary))
    data = penstock.Data(provenance=True)
    with DataLoader(dataset.uri, features=FEATURES, batch_size=BATCH, data=data) as loader:
        assert Counter(places(loader)) == Counter(dataset.places())
