"""A session against a real fleet: every row arrives once, whatever dies."""

from __future__ import annotations

import concurrent.futures
import logging
import signal
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from penstock import errors
from penstock._session import Rows, Session
from penstock._session.session import STATES_KEPT, _close_all
from tests.conftest import Dataset, Fleet, write_dataset
from tests.session_cases import all_places, check_values, configure, name, read_epoch, spec, threads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.monitor import Event


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """More than the buffers between worker and trainer hold, also of one shard: 160,000 rows of about 600 bytes."""
    folder = tmp_path_factory.mktemp("big") / "criteo"
    return write_dataset(folder, files=4, rows=40_000, row_group=40_000, dense=13, sparse=26)


@pytest.fixture(autouse=True)
def _close_sessions() -> Iterator[None]:
    """Closes what a failed test left open, or the next one would find its threads."""
    yield
    _close_all()


def test_reads_an_epoch_once(shared_fleet: Fleet, dataset: Dataset) -> None:
    session = Session(configure(shared_fleet, spec(dataset)))
    batches = read_epoch(session)
    assert all_places(batches) == sorted(dataset.places())
    assert [b.record.num_rows for b in batches] == [1000] * 18 + [15]
    check_values(batches[0], dataset)
    check_values(batches[-1], dataset)
    assert session.finished
    with pytest.raises(errors.EpochsExhausted, match="epochs="):
        session.next()
    stats = session.stats()
    assert (stats.rows, stats.batches, stats.workers) == (dataset.rows, 19, 2)
    assert sum(stats.rows_by_worker.values()) == dataset.rows
    assert stats.bytes == sum(b.record.get_total_buffer_size() for b in batches)
    assert session.schema == batches[0].record.schema
    session.close()


def test_a_fleet_that_others_use_too_is_no_warning(
    fleet: Fleet, big: Dataset, caplog: pytest.LogCaptureFixture
) -> None:
    fleet.start(workers=1, worker_flags=["--slots=1"])
    caplog.set_level(logging.DEBUG, "penstock")
    with (
        Session(configure(fleet, spec(big))) as one,
        Session(configure(fleet, spec(big))) as other,
        concurrent.futures.ThreadPoolExecutor(2) as pool,
    ):
        read = list(pool.map(read_epoch, (one, other)))
    assert [sum(b.record.num_rows for b in batches) for batches in read] == [big.rows] * 2
    busy = [r for r in caplog.records if "busy: " in r.getMessage()]
    assert {r.levelno for r in busy} == {logging.DEBUG}


def test_workers_that_are_gone_are_told_once(fleet: Fleet, big: Dataset, caplog: pytest.LogCaptureFixture) -> None:
    """Not for each stream and each attempt."""
    fleet.start(workers=1)
    events: list[Event] = []
    with Session(configure(fleet, spec(big), budget=1 << 16, on_event=events.append, timeout=3.0)) as session:
        read_epoch(session, 1)
        assert session.stats().streams > 1
        fleet.kill()
        with pytest.raises(errors.WorkersUnreachable):
            read_epoch(session)
    causes = [e.metadata["cause"] for e in events if e.type == "penstock.no_worker"]
    codes = Counter(str(cause).rpartition("(")[2].upper() for cause in causes)
    assert codes["UNAVAILABLE)"] == 1
    assert set(codes.values()) == {1}, causes


def test_batches_are_contiguous(shared_fleet: Fleet, dataset: Dataset) -> None:
    """Consumers make tensors of buffers: they begin at 0 and hold no other rows."""
    session = Session(configure(shared_fleet, spec(dataset, batch_size=7)))
    for b in read_epoch(session, 300):
        for column in b.record.columns:
            assert column.offset == 0
            if pa.types.is_list(column.type):
                assert column.offsets[0].as_py() == 0
                assert len(column.values) == column.offsets[-1].as_py()
        assert b.record.get_total_buffer_size() < 4 * b.record.nbytes
    session.close()


def test_epochs_are_told_apart(shared_fleet: Fleet, dataset: Dataset) -> None:
    session = Session(configure(shared_fleet, spec(dataset, batch_size=5000, epochs=3)))
    orders = []
    for epoch in range(3):
        assert session.epoch == epoch
        batches = read_epoch(session)
        assert {b.epoch for b in batches} == {epoch}
        assert all_places(batches) == sorted(dataset.places())
        orders.append([b.record["_row"].to_pylist() for b in batches])
    assert session.finished
    assert orders[0] != orders[1]
    session.close()


def test_short_last_batch_is_dropped(shared_fleet: Fleet, dataset: Dataset) -> None:
    session = Session(configure(shared_fleet, spec(dataset, batch_size=4000, last_batch="drop", epochs=2)))
    for _ in range(2):
        assert [b.record.num_rows for b in read_epoch(session)] == [4000] * 4
    assert session.stats().dropped == 2 * (dataset.rows - 16_000)
    session.close()


def test_no_thread_stays(shared_fleet: Fleet, dataset: Dataset) -> None:
    before = set(threading.enumerate())
    session = Session(configure(shared_fleet, spec(dataset)))
    read_epoch(session, 3)
    session.close()
    deadline = time.monotonic() + 30  # gRPC's own threads end a moment later
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert set(threading.enumerate()) <= before
    with pytest.raises(errors.Closed):
        session.next()
    session.close()


@pytest.mark.parametrize("world", [2, 4])
def test_ranks_share_an_epoch(shared_fleet: Fleet, dataset: Dataset, world: int) -> None:
    session = name()

    def read(rank: int) -> list[list[Rows]]:
        config = configure(
            shared_fleet, spec(dataset, batch_size=300, epochs=2), session=session, rank=rank, world_size=world
        )
        s = Session(config)
        out = [read_epoch(s) for _ in range(2)]
        s.close()
        return out

    with concurrent.futures.ThreadPoolExecutor(world) as pool:
        parts = list(pool.map(read, range(world)))
    for epoch in range(2):
        assert sorted(p for part in parts for p in all_places(part[epoch])) == sorted(dataset.places())


def test_rank_that_waits_says_so(shared_fleet: Fleet, dataset: Dataset) -> None:
    """A rank waits at the epoch's end for what another holds, and gets it when that one leaves."""
    session, events = name(), list[str]()
    text = spec(dataset, batch_size=100)
    other = Session(configure(shared_fleet, text, session=session, rank=1, world_size=2))
    few = read_epoch(other, 3)
    told, told_again = threading.Event(), threading.Event()

    def listen(e: Event) -> None:
        events.append(e.type)
        if e.type == "penstock.waiting_for_ranks":
            (told_again if "timeout= does not bound" in e.message else told).set()

    config = configure(shared_fleet, text, session=session, rank=0, world_size=2, on_event=listen, timeout=3.0)
    mine = Session(config)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        rest = pool.submit(read_epoch, mine)
        assert told.wait(30)
        assert told_again.wait(30)  # longer than timeout: waiting for another rank is no error
        assert not rest.done()
        other.close()
        batches = rest.result(30)
    mine.close()
    assert sorted(all_places(few) + all_places(batches)) == sorted(dataset.places())
    assert events[0] == "penstock.joined"


def test_a_rank_that_never_joins(shared_fleet: Fleet, dataset: Dataset) -> None:
    """Those that need it wait for it, and then say which it is."""
    text = spec(dataset, batch_size=100, last_batch="pad")
    config = configure(shared_fleet, text, world_size=2, join_timeout=0.5)
    with Session(config) as session, pytest.raises(errors.RanksAbsent, match=r"rank 1 of 2, .*join_timeout="):
        read_epoch(session)


def test_budget_bounds_what_is_buffered(shared_fleet: Fleet, big: Dataset) -> None:
    budget = 4 << 20
    session = Session(configure(shared_fleet, spec(big, batch_size=10_000), budget=budget))
    streams = []
    while session.next() is not None:
        streams.append(session.stats().streams)  # they get fewer towards the end
    peak = session.stats().peak_buffered
    session.close()
    assert len(streams) == 17
    largest = 3 << 20  # of a message; each stream may hold one beyond its share
    assert 0 < peak <= budget + max(streams) * largest


def test_worker_killed_in_the_middle(fleet: Fleet, big: Dataset) -> None:
    events: list[Event] = []
    fleet.start(workers=2)
    config = configure(fleet, spec(big, batch_size=5000), budget=4 << 20, on_event=events.append)
    session = Session(config)
    batches = read_epoch(session, 4)
    by_worker = session.stats().streams_by_worker
    killed = fleet.kill(max(by_worker, key=lambda w: by_worker[w]))
    fleet.add_worker()
    batches += read_epoch(session)
    stats = session.stats()
    session.close()
    assert all_places(batches) == sorted(big.places())
    resumed = [e for e in events if e.type == "penstock.stream_resumed"]
    assert resumed
    assert stats.failovers == sum(e.metadata["from"] != e.metadata["to"] for e in resumed) > 0
    assert killed in {e.metadata["from"] for e in resumed}  # on a busy machine streams of others may be late, too
    for e in resumed:
        assert e.metadata["cause"]
        assert isinstance(e.metadata["pause"], float)


def test_worker_that_hangs_is_left(fleet: Fleet, big: Dataset) -> None:
    """A stopped process keeps its connections: only silence tells, in open streams and in new ones."""
    events: list[Event] = []
    fleet.start(workers=2)
    config = configure(fleet, spec(big, batch_size=2500), budget=4 << 20, stream_timeout=1.0, on_event=events.append)
    with Session(config) as session:
        batches = read_epoch(session, 4)
        by_worker = session.stats().streams_by_worker
        hangs = max(by_worker, key=lambda w: by_worker[w])
        fleet.workers[hangs].signal(signal.SIGSTOP)
        try:
            batches += read_epoch(session)
        finally:
            fleet.workers[hangs].signal(signal.SIGCONT)
        assert session.stats().failovers > 0
    assert all_places(batches) == sorted(big.places())
    causes = [str(e.metadata["cause"]) for e in events if e.type == "penstock.stream_resumed"]
    assert any(f"worker {hangs}" in c and "sent nothing for" in c for c in causes)


def test_worker_that_hangs_costs_a_moment(fleet: Fleet, big: Dataset) -> None:
    """Streams that are late are opened a second time, long before a connection is known to be dead."""
    events: list[Event] = []
    fleet.start(workers=2)
    config = configure(fleet, spec(big, batch_size=2500), budget=4 << 20, on_event=events.append)
    with Session(config) as session:
        batches = read_epoch(session, 4)
        by_worker = session.stats().streams_by_worker
        hangs = max(by_worker, key=lambda w: by_worker[w])
        fleet.workers[hangs].signal(signal.SIGSTOP)
        try:
            batches += read_epoch(session)
        finally:
            fleet.workers[hangs].signal(signal.SIGCONT)
        stats = session.stats()
    assert all_places(batches) == sorted(big.places())
    hedged = [e.metadata for e in events if e.type == "penstock.stream_hedged"]
    assert stats.hedges == len(hedged) > 0
    assert hangs in {e["late"] for e in hedged}  # on a busy machine others may be late, too
    assert stats.failovers > 0


def test_all_workers_killed_then_others_come(fleet: Fleet, dataset: Dataset) -> None:
    told = threading.Event()

    def listen(e: Event) -> None:
        if e.type == "penstock.no_worker":
            told.set()

    fleet.start(workers=1)
    config = configure(fleet, spec(dataset, batch_size=100), budget=1, timeout=1.0, on_event=listen)
    session = Session(config)
    batches = read_epoch(session, 2)
    fleet.kill()
    with pytest.raises(errors.WorkersUnreachable) as caught:
        batches += _endless(session)
    assert "penstock doctor" in str(caught.value)
    assert fleet.addresses["worker-1"] in str(caught.value)
    assert told.is_set()
    batches += _taken
    fleet.add_worker()
    deadline = time.monotonic() + 30
    while not session.finished and time.monotonic() < deadline:
        try:
            rows = session.next()
        except errors.WorkersUnreachable:
            continue
        if rows is not None:
            batches.append(rows)
    session.close()
    assert all_places(batches) == sorted(dataset.places())


_taken: list[Rows] = []


def _endless(session: Session) -> list[Rows]:
    """Reads until an error; what came before it is in _taken."""
    _taken.clear()
    while (rows := session.next()) is not None:
        _taken.append(rows)
    return []


def test_master_killed_and_back(fleet: Fleet, big: Dataset) -> None:
    events: list[str] = []
    fleet.start(workers=2)
    text = spec(big, batch_size=5000, epochs=2)
    session = Session(configure(fleet, text, budget=4 << 20, on_event=lambda e: events.append(e.type)))
    batches = read_epoch(session, 5)
    fleet.kill_master()
    batches += read_epoch(session, 3)  # streams go on
    fleet.restart_master()
    fleet.add_worker()  # the others find the new master later
    batches += read_epoch(session)
    again = read_epoch(session)
    session.close()
    assert all_places(batches) == all_places(again) == sorted(big.places())
    assert "penstock.master_lost" in events
    assert "penstock.master_back" in events


def test_lease_runs_out(fleet: Fleet, big: Dataset) -> None:
    """Without a master nothing is handed over once the lease has ended, though it was received."""
    lapsed = threading.Event()
    events: list[Event] = []

    def listen(e: Event) -> None:
        events.append(e)
        if e.type == "penstock.lease_lapsed":
            lapsed.set()

    flags = ["--lease=4s"]
    fleet.start(workers=1, master_flags=flags)
    session = Session(configure(fleet, spec(big, batch_size=1000), on_event=listen))
    batches = read_epoch(session, 3)
    fleet.kill_master()
    time.sleep(4.1)  # the lease
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        more = pool.submit(session.next)
        assert lapsed.wait(30)
        assert not more.done()
        fleet.restart_master(*flags)
        rows = more.result(60)
        assert rows is not None
        batches += [rows, *read_epoch(session)]
    session.close()
    assert all_places(batches) == sorted(big.places())
    assert [e.metadata["lease"] for e in events if e.type == "penstock.lease_lapsed"] == [4.0]


def test_close_without_a_master_is_bounded(fleet: Fleet, dataset: Dataset, caplog: pytest.LogCaptureFixture) -> None:
    fleet.start(workers=1)
    session = Session(configure(fleet, spec(dataset)))
    read_epoch(session, 2)
    fleet.kill_master()
    session.close()  # which would else hang until the test's own timeout
    assert "could not leave" in caplog.text
    assert not threads()


def test_another_process_fences_this_one(shared_fleet: Fleet, dataset: Dataset) -> None:
    config = configure(shared_fleet, spec(dataset, batch_size=100))
    first = Session(config)
    read = read_epoch(first, 5)
    second = Session(config)
    with pytest.raises(errors.Fenced, match="rank 0"):
        _endless(first)
    rest = read_epoch(second)
    first.close()
    second.close()
    counts = Counter(all_places(read) + all_places(_taken) + all_places(rest))
    assert set(counts) == dataset.places()  # what no Sync had told before the fence comes again


def test_states_that_are_held_outlive_the_session(shared_fleet: Fleet, dataset: Dataset) -> None:
    """Those of the newest batches."""
    session = Session(configure(shared_fleet, spec(dataset, batch_size=1)))
    batches = read_epoch(session, STATES_KEPT + 2)
    session.close()
    assert [session.state(b.after).rows for b in batches[2:]] == list(range(3, STATES_KEPT + 3))
    with pytest.raises(errors.Closed):
        session.state(batches[0].after)


def test_state_is_restored(shared_fleet: Fleet, dataset: Dataset) -> None:
    """Two ranks checkpoint, one of them two batches behind what it read; three ranks go on exactly from there."""
    session, text = name(), spec(dataset, batch_size=500)
    ranks = [Session(configure(shared_fleet, text, session=session, rank=r, world_size=2)) for r in range(2)]
    ahead = read_epoch(ranks[0], 6)
    behind = read_epoch(ranks[1], 3)
    states = [ranks[0].state(ahead[3].after), ranks[1].state()]
    for s in ranks:
        s.close()

    def go_on(rank: int) -> list[tuple[int, int]]:
        part = tuple(s for i, s in enumerate(states) if i % 3 == rank)
        s = Session(configure(shared_fleet, text, session=session, rank=rank, world_size=3, restore=part))
        out = all_places(read_epoch(s))
        s.close()
        return out

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        rest = [p for part in pool.map(go_on, range(3)) for p in part]
    assert sorted(all_places(ahead[:4]) + all_places(behind) + rest) == sorted(dataset.places())


def test_state_between_epochs(shared_fleet: Fleet, dataset: Dataset) -> None:
    text = spec(dataset, batch_size=5000, epochs=2)
    first = Session(configure(shared_fleet, text))
    read_epoch(first)
    state = first.state()
    read_epoch(first, 1)
    first.close()
    assert state.epoch == 1
    second = Session(configure(shared_fleet, text, session=state.session, restore=(state,)))
    assert second.epoch == 1
    assert all_places(read_epoch(second)) == sorted(dataset.places())
    assert second.finished
    second.close()
