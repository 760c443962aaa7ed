"""Bad input and missing hops: the right exception, at once, with the words of who said it."""

from __future__ import annotations

import dataclasses
import gc
import socket
import threading
import time
import weakref
from concurrent import futures
from types import SimpleNamespace
from typing import TYPE_CHECKING

import grpc
import pyarrow as pa
import pytest
from pyarrow import flight

from penstock import _opening, errors
from penstock._pb import control_pb2 as pb
from penstock._pb import stream_pb2
from penstock._session import Config, Security, Session
from penstock._session.attempt import Attempt, check
from penstock._session.blocks import Blocks
from penstock._session.config import is_local
from penstock._session.core import THREADS
from penstock._session.failures import refused_shard
from penstock._session.layout import Layout, LayoutError
from penstock._session.masters import CHANNEL_OPTIONS, MasterError, Masters
from penstock._session.messages import Incoming
from penstock._session.piece import Grant, Piece, StreamError
from penstock._session.position import Interval, Position
from penstock._session.rarely import Rarely
from penstock._session.stream import Connection
from penstock._session.workers import WorkerError, read_error
from tests.session_cases import all_places, configure, name, read_epoch, spec, threads

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.monitor import Event
    from tests.conftest import Dataset, Fleet


def test_spec_mistakes_are_listed(shared_fleet: Fleet, dataset: Dataset) -> None:
    text = spec(dataset).replace('"int_*", layout', '"innt_*", layout').replace("label, layout", "labl, layout")
    with pytest.raises(errors.SpecError) as caught:
        Session(configure(shared_fleet, text))
    assert "innt_*" in str(caught.value)
    assert "labl" in str(caught.value)
    assert not threads()


def test_session_of_another_spec(shared_fleet: Fleet, dataset: Dataset) -> None:
    config = configure(shared_fleet, spec(dataset))
    with Session(config), pytest.raises(errors.SessionMismatch, match="batch_size: 1000 and 500"):
        Session(dataclasses.replace(config, spec_text=spec(dataset, batch_size=500)))


def test_session_that_does_not_exist(shared_fleet: Fleet) -> None:
    with pytest.raises(errors.UsageError, match=r"does not exist.*give a spec"):
        Session(configure(shared_fleet, ""))


def test_deleted_session_fails(shared_fleet: Fleet, dataset: Dataset) -> None:
    config = configure(shared_fleet, spec(dataset, batch_size=10), world_size=2)
    with Session(config) as session:
        read_epoch(session, 1)
        masters = Masters(config.masters, config.security)
        masters.call("DeleteSession", pb.DeleteSessionRequest(session=config.session), pb.DeleteSessionReply, 10.0)
        masters.close()
        with pytest.raises(errors.SessionFailed, match="does not exist"):
            read_epoch(session)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def test_no_master(dataset: Dataset) -> None:
    masters = tuple(f"127.0.0.1:{free_port()}" for _ in range(2))
    begin = time.monotonic()
    with pytest.raises(errors.MasterUnreachable) as caught:
        Session(Config(masters, "s", spec_text=spec(dataset), connect_timeout=1.0))
    assert 0.9 < time.monotonic() - begin < 10
    for m in masters:
        assert f"master {m}: failed to connect" in str(caught.value)
    assert f"penstock doctor --master {','.join(masters)}" in str(caught.value)


def test_waiting_for_a_master_is_told_now_and_then(dataset: Dataset, caplog: pytest.LogCaptureFixture) -> None:
    config = Config((f"127.0.0.1:{free_port()}",), "s", spec_text=spec(dataset), connect_timeout=1.5)
    with pytest.raises(errors.MasterUnreachable):
        Session(config)
    assert caplog.text.count("no master answers; trying on") == 1


@pytest.mark.pure
def test_rarely() -> None:
    clock = iter((0.0, 1.0, 9.0, 10.0, 12.0, 21.0))
    rarely = Rarely(10.0, lambda: next(clock))
    assert [rarely.due(cause) for cause in "aabaab"] == [True, False, True, True, False, True]


def test_token(fleet: Fleet, dataset: Dataset) -> None:
    fleet.start(workers=1, token="open-sesame")
    text = spec(dataset)
    for security, why in [(Security(), "bears no token"), (Security(token="wrong"), "is not one that this port knows")]:
        with pytest.raises(errors.PermissionDenied, match=why) as caught:
            Session(configure(fleet, text, security=security))
        assert "wrong" not in str(caught.value)
    with Session(configure(fleet, text, security=Security(token="open-sesame"))) as session:
        assert sum(b.record.num_rows for b in read_epoch(session)) == dataset.rows


def test_secrets_do_not_print() -> None:
    s = Security(token="open-sesame", key=b"private", cert=b"c")
    assert "sesame" not in repr(s)
    assert "private" not in repr(Config(("m:1",), "s", security=s))


def test_token_in_clear_stays_here() -> None:
    for address in ("127.0.0.1:1", "[::1]:1", "localhost:1", "unix:/run/x"):
        assert is_local(address)
    for address in ("10.0.0.1:1", "0.0.0.0:1", "[::]:1", "localhost.evil.com:1", "127.0.0.1", "127.0.0.1.evil.com:1"):
        assert not is_local(address)
    with pytest.raises(errors.UsageError, match="TLS only"):
        Session(Config(("10.0.0.1:1",), "s", security=Security(token="x")))


def test_all_mistakes_of_a_config() -> None:
    with pytest.raises(errors.UsageError) as caught:
        Session(Config((), "", rank=3, world_size=2, budget=0))
    for word in ("masters is empty", "session is empty", "rank 3", "budget is 0"):
        assert word in str(caught.value)


def test_an_address_where_no_worker_is(fleet: Fleet, dataset: Dataset) -> None:
    """A worker that advertises another server's port; or a proxy answers for it."""
    server, address = serve()
    try:
        fleet.start(workers=0)
        fleet.add_worker(f"--advertise={address}")
        session = Session(configure(fleet, spec(dataset)))
        with session, pytest.raises(errors.WorkersUnreachable) as caught:
            read_epoch(session)
        assert f"what answers at {address} is no Penstock worker, or one of another release" in str(caught.value)
        for word in ("Method not found", "--advertise", "penstock doctor", "part-00"):
            assert word in str(caught.value)
    finally:
        server.stop(None).wait()


@pytest.mark.pure
@pytest.mark.parametrize(
    ("words", "code", "kind", "step"),
    [
        ("Received http2 header with status: 404", "UNIMPLEMENTED", errors.WorkersUnreachable, "--advertise"),
        ('this worker cannot run the program: op "x"', "UNIMPLEMENTED", errors.DataError, "the same release"),
        ("row group 3", "DATA_LOSS", errors.DataError, "mend or leave out"),
        ("no token", "UNAUTHENTICATED", errors.PermissionDenied, "token="),
    ],
)
def test_what_a_refusal_means(words: str, code: str, kind: type[errors.Error], step: str) -> None:
    at = Position()
    grant = Grant(Interval(at, at), b"", stream_pb2.SignedTicket(), (), "f.parquet")
    refused = refused_shard(Config(("m:1",), "s"), Piece(at, at, at, at, grant), WorkerError("w", "h:1", words, code))
    assert type(refused) is kind
    assert words in str(refused)
    assert step in str(refused)


def broken(dataset: Dataset, folder: Path) -> str:
    """A spec of the dataset's copy, in which column chunks of part-003 cannot be read."""
    folder.mkdir()
    for path in sorted(dataset.dir.iterdir()):
        (folder / path.name).write_bytes(path.read_bytes())
    victim = folder / "part-003.parquet"
    content = bytearray(victim.read_bytes())
    content[4:20_000] = b"\xff" * (20_000 - 4)
    victim.write_bytes(content)
    return spec(dataset).replace(str(dataset.dir), str(folder))


def test_broken_row_groups_are_left_out(fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    """Exactly what the events name is missing, and states know of it."""
    text = broken(dataset, tmp_path / "broken") + "on_error: {skip: 100}\n"
    events: list[Event] = []
    fleet.start(workers=2)
    with Session(configure(fleet, text, on_event=events.append)) as session:
        got = all_places(read_epoch(session))
        state = session.state()
    skipped = [e.metadata for e in events if e.type == "penstock.rows_skipped"]
    lost: set[int] = set()
    for about in skipped:
        first, rows = about["first_row"], about["rows"]
        assert str(about["file"]).endswith("part-003.parquet")
        assert "column " in str(about["cause"])
        assert isinstance(first, int)
        assert isinstance(rows, int)
        lost.update(range(first, first + rows))
    assert got == sorted(p for p in dataset.places() if p[0] != 3 or p[1] not in lost)
    assert lost
    assert state.skipped_row_groups == len({about["row_group"] for about in skipped}) == len(skipped)


def test_broken_file_is_named(fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    """A column chunk that cannot be read: every worker refuses the shard, in words that reach the loop."""
    text = broken(dataset, tmp_path / "broken")
    fleet.start(workers=1)
    with Session(configure(fleet, text)) as session:
        with pytest.raises(errors.DataError) as caught:
            read_epoch(session)
        assert "part-003.parquet" in str(caught.value)
        assert "worker-1" in str(caught.value)
        with pytest.raises(errors.DataError):
            session.next()


def test_listener_that_fails_ends_nothing(
    shared_fleet: Fleet, dataset: Dataset, caplog: pytest.LogCaptureFixture
) -> None:
    def listen(event: Event) -> None:
        raise ValueError("a broken sink")

    with Session(configure(shared_fleet, spec(dataset), on_event=listen)) as session:
        assert sum(b.record.num_rows for b in read_epoch(session)) == dataset.rows
    assert "a broken sink" in caplog.text


class Raced:
    """An attempt at a worker whose do_get does what `opens` does, and what becomes of it."""

    def __init__(self, opens: Callable[[], object]) -> None:
        self.told = threading.Event()
        client = SimpleNamespace(do_get=lambda ticket, options: opens())
        none = SimpleNamespace(take=lambda note: None)
        connection = Connection(client, none, Blocks(1))  # type: ignore[arg-type]
        workers = SimpleNamespace(connection=lambda address: connection, forget=lambda address, c: None)
        core = SimpleNamespace(
            lock=threading.Lock(),
            info=SimpleNamespace(program=b""),
            config=SimpleNamespace(compression=None),
            guard=lambda work: work(),
            streams_by_worker={},
        )
        at = Position()
        piece = Piece(at, at, at, at, Grant(Interval(at, at), b"", stream_pb2.SignedTicket(), (), "f"))
        self.attempt = Attempt(core, workers, piece, ("w", "h:1"), self, second=False)  # type: ignore[arg-type]

    def took(self, attempt: Attempt, cursor: Position) -> None: ...

    def going(self, attempt: Attempt) -> None: ...

    def ended(self) -> None:
        self.told.set()


@pytest.mark.pure
def test_do_get_that_hangs_is_left_behind() -> None:
    """What it gets in the end is thrown away."""
    answer = threading.Event()
    cancelled: list[bool] = []

    class Reader:
        def cancel(self) -> None:
            cancelled.append(True)

    def opens() -> Reader:
        answer.wait(30)
        return Reader()

    raced = Raced(opens)
    raced.attempt.thread.start()
    raced.attempt.end()
    answer.set()
    assert raced.told.wait(30)
    raced.attempt.thread.join(30)
    assert cancelled == [True]
    assert not raced.attempt.began


@pytest.mark.pure
def test_do_get_that_fails_leaves_nothing() -> None:
    """Training loops switch the garbage collector off: no error may hold on to a connection by a cycle."""

    def opens() -> None:
        raise pa.ArrowInvalid("a mistake")

    enabled = gc.isenabled()
    gc.disable()
    try:
        raced = Raced(opens)
        attempt = raced.attempt
        attempt.thread.start()
        attempt.thread.join(30)
        assert "a mistake" in str(attempt.error)
        there = weakref.ref(attempt)
        raced.attempt = None  # type: ignore[assignment]
        del attempt
        assert there() is None
    finally:
        if enabled:
            gc.enable()


@pytest.mark.pure
def test_message_without_a_record_is_a_workers_mistake() -> None:
    layout = Layout.parse(pa.schema([]))
    record = pa.RecordBatch.from_pydict({})
    for message in (Incoming(None, b"", 0), Incoming(record, None, 0)):
        with pytest.raises(StreamError, match="is this a Penstock worker"):
            check(message, layout, "w")


@pytest.mark.pure
def test_last_words_are_not_cancelled() -> None:
    """A session that failed leaves while its user closes it: the close must not end the leave."""
    server, address = serve(Handler(lambda method, request, context: b"", stream=False))
    masters = Masters((address,), Security())
    try:
        masters.cancel()
        with pytest.raises(MasterError):
            masters.call("Sync", pb.SyncRequest(), pb.SyncReply, 5.0)
        masters.begin_last_words()
        masters.cancel()
        masters.call("Sync", pb.SyncRequest(), pb.SyncReply, 5.0)
    finally:
        masters.close()
        server.stop(None).wait()


def test_close_in_a_thread_of_the_session(shared_fleet: Fleet, dataset: Dataset) -> None:
    """A listener closes; or the garbage collector does, wherever it runs, even with the lock held."""
    session = Session(configure(shared_fleet, spec(dataset)))
    closed = threading.Event()

    def collect() -> None:
        with session._core.lock:
            session.close()
        closed.set()

    thread = threading.Thread(target=collect, name=f"{THREADS}test", daemon=True)
    thread.start()
    assert closed.wait(30)
    with pytest.raises(errors.Closed):
        read_epoch(session)
    for t in session._threads:
        t.join(30)
    assert session._control.leave_error is None
    session.close()
    thread.join(30)
    assert not threads()


def test_restore_of_another_dataset_is_refused(shared_fleet: Fleet, dataset: Dataset) -> None:
    with Session(configure(shared_fleet, spec(dataset))) as first:
        read_epoch(first, 2)
        state = first.state()
    state.dataset_digest = b"another"
    with pytest.raises(errors.RestoreRefused, match="dataset"):
        Session(configure(shared_fleet, spec(dataset), session=name(), restore=(state,)))


class Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
    """A server whose every call does what `act` does."""

    def __init__(self, act: Callable[[str, bytes, grpc.ServicerContext], bytes], stream: bool) -> None:
        self._act, self._stream = act, stream

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        if self._stream:
            return grpc.unary_stream_rpc_method_handler(lambda req, ctx: iter([self._act(details.method, req, ctx)]))
        return grpc.unary_unary_rpc_method_handler(lambda req, ctx: self._act(details.method, req, ctx))


def serve(*handlers: grpc.GenericRpcHandler) -> tuple[grpc.Server, str]:
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers(handlers)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, f"127.0.0.1:{port}"


WORDS = "busy: all 4 streams, with message: are. taken\nline two"


@pytest.mark.pure
@pytest.mark.parametrize("code", [c for c in grpc.StatusCode if c is not grpc.StatusCode.OK])
def test_worker_words_and_codes_come_through(code: grpc.StatusCode) -> None:
    def act(method: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(code, WORDS)
        raise AssertionError

    server, address = serve(Handler(act, stream=True))
    try:
        with pytest.raises(Exception, match="busy") as caught:
            flight.FlightClient(f"grpc://{address}").do_get(flight.Ticket(b"x")).read_chunk()
    finally:
        server.stop(None).wait()
    read, words = read_error(caught.value)
    assert words == WORDS
    assert read == code.name
    of_the_data = {"DATA_LOSS", "FAILED_PRECONDITION"}
    of_a_worker = {"INVALID_ARGUMENT", "UNAUTHENTICATED", "UNIMPLEMENTED", "OUT_OF_RANGE", "ABORTED"}
    refusals = of_the_data | of_a_worker
    assert WorkerError("w", address, words, read).refusal == (code.name in refusals)


@pytest.mark.pure
def test_the_leader_is_found() -> None:
    """A master that does not lead names who does; that one is asked first from then on."""
    calls: list[str] = []

    def leads(method: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        calls.append("leader")
        return pb.SyncReply(revision=7).SerializeToString()

    leader, leader_address = serve(Handler(leads, stream=False))

    def follows(method: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        calls.append("follower")
        detail = pb.NotLeader(leader=leader_address).SerializeToString()
        kind = b"type.googleapis.com/penstock.v1.NotLeader"
        any_ = b"\x0a" + bytes([len(kind)]) + kind + b"\x12" + bytes([len(detail)]) + detail
        status = b"\x08\x0e\x12\x02no\x1a" + bytes([len(any_)]) + any_
        context.set_trailing_metadata((("grpc-status-details-bin", status),))
        context.abort(grpc.StatusCode.UNAVAILABLE, "no leader here")
        raise AssertionError

    follower, follower_address = serve(Handler(follows, stream=False))
    masters = Masters((follower_address,), Security())
    try:
        for _ in range(2):
            reply, _ = masters.call("Sync", pb.SyncRequest(), pb.SyncReply, 5.0)
            assert reply.revision == 7
        assert calls == ["follower", "leader", "leader"]
        leader.stop(None).wait()
        with pytest.raises(MasterError) as caught:
            masters.call("Sync", pb.SyncRequest(), pb.SyncReply, 5.0)
        assert caught.value.transient
        assert "no leader here" in str(caught.value)
    finally:
        masters.close()
        follower.stop(None).wait()


@pytest.mark.pure
def test_silence_never_stops_the_pings() -> None:
    """gRPC would send two pings, and none while the caller has nothing else to send: a dead machine is then not seen.

    The listener speaks as much of HTTP/2 as a quiet server needs: it says its settings, and answers each ping.
    """
    ping, ack = b"\x00\x00\x08\x06\x00", b"\x00\x00\x08\x06\x01"
    settings = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    options = [*dict(CHANNEL_OPTIONS, **{"grpc.keepalive_time_ms": 100}).items()]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        channel = grpc.insecure_channel(f"127.0.0.1:{listener.getsockname()[1]}", options)
        call = channel.unary_unary("/x/Y").future(b"", timeout=60)
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(30)
            connection.sendall(settings)
            received, pings = b"", 0
            while pings < 5:
                received += connection.recv(1 << 16)
                while (at := received.find(ping)) >= 0 and len(received) >= at + 17:
                    connection.sendall(ack + received[at + 5 : at + 17])
                    pings, received = pings + 1, received[at + 17 :]
        call.cancel()
        channel.close()


@pytest.mark.pure
def test_a_ping_without_an_answer_ends_the_connection() -> None:
    """As of a worker that is frozen: its kernel goes on taking bytes."""
    faster = [
        (k, v // 20 if k.endswith("timeout_ms") or k == "grpc.keepalive_time_ms" else v) for k, v in CHANNEL_OPTIONS
    ]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        channel = grpc.insecure_channel(f"127.0.0.1:{listener.getsockname()[1]}", faster)
        call = channel.unary_unary("/x/Y").future(b"", timeout=20)
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")  # its settings
            assert call.exception(30).code() is grpc.StatusCode.UNAVAILABLE
        channel.close()


def field(kind: pa.DataType, **metadata: str) -> pa.Field:
    return pa.field("x", kind, metadata={f"penstock.{k}": v for k, v in metadata.items()})


@pytest.mark.pure
@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (field(pa.float32()), "penstock.layout is ''"),
        (field(pa.list_(pa.float32(), 2), layout="dense", names='["a"]'), "a list of 2 names"),
        (field(pa.list_(pa.float32(), 2), layout="dense"), "penstock.names"),
        (field(pa.list_(pa.float64(), 1), layout="dense", names='["a"]'), "fixed_size_list<float>"),
        (field(pa.list_(pa.int32()), layout="sparse"), "list<int64>"),
        (field(pa.string(), layout="bytes"), "expected binary"),
        (field(pa.int8(), layout="label"), "expected bool, int32"),
        (field(pa.list_(pa.uint8(), 12), layout="image", shape="2,2"), "expected H,W,C or C,H,W"),
        (field(pa.list_(pa.uint8(), 12), layout="image", shape="2,2,4"), "a row has 12 values"),
    ],
)
def test_schemas_that_are_no_tensors(bad: pa.Field, why: str) -> None:
    with pytest.raises(LayoutError, match=why):
        Layout.parse(pa.schema([bad]))


@pytest.mark.pure
def test_records_with_nulls_are_refused() -> None:
    weighted = pa.list_(pa.struct([("value", pa.int64()), ("weight", pa.float32())]))
    for kind, values in [
        (pa.list_(pa.int64()), [[1], None]),
        (pa.list_(pa.int64()), [[1, None]]),
        (weighted, [[{"value": 1, "weight": None}]]),
    ]:
        schema = pa.schema([field(kind, layout="sparse")])
        layout = Layout.parse(schema)
        with pytest.raises(LayoutError, match="column 'x': 1 nulls"):
            layout.check(pa.record_batch([pa.array(values, kind)], schema))


@pytest.mark.pure
def test_record_with_offsets_outside_its_buffers_is_refused() -> None:
    kind = pa.list_(pa.int64())
    schema = pa.schema([field(kind, layout="sparse")])
    offsets = pa.array([0, 100, 1], pa.int32())  # the last one is right, which is all that Arrow looks at unasked
    column = pa.Array.from_buffers(kind, 2, [None, offsets.buffers()[1]], children=[pa.array([1], pa.int64())])
    with pytest.raises(LayoutError, match=r"record: .*offset"):
        Layout.parse(schema).check(pa.record_batch([column], schema))


@pytest.mark.pure
def test_token_file_is_renewed(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\nolder\n")
    security = _opening.security(None, file, None, None, None, None, False, {})
    assert security.metadata() == (("authorization", "Bearer first"),)
    file.write_text("second\n")
    assert security.metadata() == (("authorization", "Bearer second"),)
    file.unlink()
    assert security.metadata() == (("authorization", "Bearer first"),)
    assert "first" not in repr(security)
