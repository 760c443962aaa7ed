"""Bad input and missing hops: the right exception, at once, with the words of who said it."""

from __future__ import annotations

import dataclasses
import socket
import time
from concurrent import futures
from typing import TYPE_CHECKING

import grpc
import pytest

from penstock import _opening, errors
from penstock._pb import control_pb2 as pb
from penstock._session import Config, Security, Session
from penstock._session.config import is_local
from penstock._session.failures import Refusal, refused_shard
from penstock._session.masters import CHANNEL_OPTIONS, MasterError, Masters
from penstock._session.rarely import Rarely
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


def test_a_session_lies_in_the_namespace_that_is_asked_for(fleet: Fleet, dataset: Dataset) -> None:
    fleet.start(workers=1, token="open-sesame")
    default, vision = Security(token="open-sesame"), Security(token="open-sesame", namespace="vision")
    config = configure(fleet, spec(dataset), security=vision)
    with Session(config) as session:
        assert sum(b.record.num_rows for b in read_epoch(session)) == dataset.rows
    with pytest.raises(errors.UsageError, match="does not exist"):
        Session(dataclasses.replace(config, spec_text="", security=default))


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
    ("refusal", "kind", "step"),
    [
        (
            Refusal("Received http2 header with status: 404", "UNIMPLEMENTED", "h:1", True),
            errors.WorkersUnreachable,
            "--advertise",
        ),
        (
            Refusal('this worker cannot run the program: op "x"', "UNIMPLEMENTED", "h:1", False),
            errors.DataError,
            "the same release",
        ),
        (Refusal("row group 3", "DATA_LOSS", "h:1", False), errors.DataError, "mend or leave out"),
        (Refusal("no token", "UNAUTHENTICATED", "h:1", False), errors.PermissionDenied, "token="),
    ],
)
def test_what_a_refusal_means(refusal: Refusal, kind: type[errors.Error], step: str) -> None:
    refused = refused_shard(Config(("m:1",), "s"), "0/1/2/0+0", "f.parquet", refusal)
    assert type(refused) is kind
    assert refusal.words in str(refused)
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


def test_a_listener_that_asks_and_closes(shared_fleet: Fleet, dataset: Dataset) -> None:
    """It is called while the session receives, and so is told to leave questions to the loop; close it may."""
    said: list[str] = []

    def listen(event: Event) -> None:
        if event.type == "penstock.rows_dropped":
            for ask in (session.state, session.next):
                try:
                    ask()
                except errors.UsageError as err:
                    said.append(str(err))
            session.close()

    text = spec(dataset, batch_size=4000, last_batch="drop", epochs=2)
    session = Session(configure(shared_fleet, text, on_event=listen))
    assert len(read_epoch(session, 4)) == 4
    with pytest.raises(errors.Closed):
        session.next()
    session.close()
    assert len(said) == 2
    assert all("do it in the loop" in words for words in said)


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


def follower_of(leader: str, calls: list[str]) -> Handler:
    """A master that does not lead, and names who does."""

    def follows(method: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        calls.append("follower")
        detail = pb.NotLeader(leader=leader).SerializeToString()
        kind = b"type.googleapis.com/penstock.v1.NotLeader"
        any_ = b"\x0a" + bytes([len(kind)]) + kind + b"\x12" + bytes([len(detail)]) + detail
        status = b"\x08\x0e\x12\x02no\x1a" + bytes([len(any_)]) + any_
        context.set_trailing_metadata((("grpc-status-details-bin", status),))
        context.abort(grpc.StatusCode.UNAVAILABLE, "no leader here")
        raise AssertionError

    return Handler(follows, stream=False)


@pytest.mark.pure
def test_the_leader_is_found() -> None:
    """A master that does not lead names who does; that one is asked first from then on."""
    calls: list[str] = []

    def leads(method: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        calls.append("leader")
        return pb.SyncReply(revision=7).SerializeToString()

    leader, leader_address = serve(Handler(leads, stream=False))

    follower, follower_address = serve(follower_of(leader_address, calls))
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
def test_a_leader_elsewhere_gets_no_token_in_clear() -> None:
    follower, address = serve(follower_of("192.0.2.1:7070", []))
    masters = Masters((address,), Security(token="open-sesame"))
    try:
        with pytest.raises(errors.UsageError, match=r"^192\.0\.2\.1:7070: a token is sent over TLS only") as caught:
            masters.call("Sync", pb.SyncRequest(), pb.SyncReply, 1.0)
        assert "sesame" not in str(caught.value)
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
    """As of a master that is frozen: its kernel goes on taking bytes."""
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


@pytest.mark.pure
def test_token_file_is_renewed(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\nolder\n")
    security = _opening.security(None, file, None, None, None, None, False, None, {})
    assert security.metadata() == (("authorization", "Bearer first"),)
    file.write_text("second\n")
    assert security.metadata() == (("authorization", "Bearer second"),)
    file.unlink()
    assert security.metadata() == (("authorization", "Bearer first"),)
    assert "first" not in repr(security)
