"""Streams and sessions whose batches come on links, and what they do where links fail."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import flight

from penstock._session import Session, links, stream
from penstock._session.blocks import Blocks
from penstock._session.config import Security
from penstock._session.links import Link, LinkError, Links
from penstock._session.messages import MOST_BODY
from penstock._session.stream import Connection, Granted, Stream
from tests.session_cases import all_places, configure, read_epoch, spec
from tests.test_package_page import certificate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Dataset, Fleet

from tests.link_cases import END, META, PREFIX, WHOLE, Port, accept, arrow, hang, line, record


class Worker(flight.FlightServerBase):  # type: ignore[misc]  # untyped
    """A DoGet that answers as it is told, beside a port for links."""

    def __init__(self, grants: bool, answer: Callable[[], Iterator[pa.RecordBatch]] | Exception) -> None:
        super().__init__("grpc://127.0.0.1:0", middleware={"links": _Grants(grants)})
        self._answer = answer
        self.named: list[bytes] = []

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        if isinstance(self._answer, Exception):
            raise self._answer
        answer = self._answer()
        return flight.GeneratorStream(record().schema, answer)


class _Grants(flight.ServerMiddlewareFactory):  # type: ignore[misc]  # untyped
    def __init__(self, grants: bool) -> None:
        self._grants = grants

    def start_call(self, info: flight.CallInfo, headers: dict[str, list[Any]]) -> flight.ServerMiddleware | None:
        return _Granting() if self._grants and "penstock-link-bin" in headers else None


class _Granting(flight.ServerMiddleware):  # type: ignore[misc]  # untyped
    def sending_headers(self) -> dict[str, str]:
        return {"penstock-link": "1"}


@contextmanager
def streamed(
    says: Callable[[socket.socket, bytes], None],
    answer: Callable[[], Iterator[pa.RecordBatch]] | Exception,
    grants: bool = True,
) -> Iterator[tuple[Stream, Connection, Port]]:
    """A stream from a worker whose links say one thing and whose DoGet another."""
    with closing(Port(says)) as port, Worker(grants, answer) as worker:
        client = flight.FlightClient(f"grpc://127.0.0.1:{worker.port}", middleware=[Granted()])
        connection = Connection(client, Links(port.address, Security()), Blocks(2))
        s = Stream(connection)
        try:
            yield s, connection, port
        finally:
            s.close()
            connection.links.close()
            client.close()


def ticket(narrow: bool) -> bytes:
    return b""


def asks(noted: list[bool]) -> Callable[[bool], bytes]:
    """Notes whether narrow values are asked for."""

    def request(narrow: bool) -> bytes:
        noted.append(narrow)
        return b""

    return request


def none() -> Iterator[pa.RecordBatch]:
    yield from ()


def sending(*parts: bytes) -> Callable[[socket.socket, bytes], None]:
    def says(conn: socket.socket, name: bytes) -> None:
        conn.sendall(b"K" + b"".join(parts))
        hang(conn)

    return says


@pytest.mark.pure
def test_a_stream_comes_on_its_link_which_is_kept() -> None:
    want, asked = record(), list[bool]()
    with streamed(sending(line(want), END), none) as (s, connection, port):
        assert s.open(asks(asked)) == want.schema
        assert asked == [True]
        got = s.next()
        assert got is not None
        assert arrow(got.rows).equals(want)
        assert got.meta == META
        assert s.next() is None
        (kept,) = connection.links._idle
        assert kept.known
        assert port.opened == 1


@pytest.mark.pure
def test_a_worker_that_takes_no_link_sends_by_grpc() -> None:
    want = record()
    with streamed(accept, lambda: iter([want]), grants=False) as (s, connection, port):
        assert s.open(ticket) == want.schema
        got = s.next()
        assert got is not None
        assert arrow(got.rows).equals(want)
        assert s.next() is None
        again, asked = Stream(connection), list[bool]()
        again.open(asks(asked))
        assert asked == [False]  # pyarrow reads what comes by gRPC
        again.close()
        assert port.opened == 1  # links lead elsewhere: the next stream tries none


@pytest.mark.pure
def test_a_busy_workers_link_is_kept() -> None:
    # This is how a busy worker's word reaches pyarrow.
    busy = pa.ArrowException("gRPC returned resource exhausted error, with message: busy")
    with streamed(accept, none, grants=False) as (_, connection, port):

        class Busy:
            def do_get(self, ticket: flight.Ticket, options: flight.FlightCallOptions) -> None:
                raise busy

        connection = Connection(Busy(), connection.links, connection.blocks)
        for _ in range(2):
            asked = Stream(connection)
            with pytest.raises(pa.ArrowException, match="busy"):
                asked.open(ticket)
            asked.close()
        assert port.opened == 1
        assert len(connection.links._idle) == 1


@pytest.mark.pure
@pytest.mark.parametrize("broken", [b"", PREFIX.pack(8, 8, MOST_BODY + 1, 0), WHOLE[:40]])
def test_the_status_tells_why_a_link_broke(broken: bytes) -> None:
    def says(conn: socket.socket, name: bytes) -> None:
        conn.sendall(b"K" + broken)

    def fails() -> Iterator[pa.RecordBatch]:
        yield from ()
        raise flight.FlightUnavailableError("storage is away")

    with streamed(says, fails) as (s, connection, _):
        s.open(ticket)
        with pytest.raises(flight.FlightUnavailableError, match="storage is away"):
            s.next()
        s.close()
        assert not connection.links._idle


@pytest.mark.pure
def test_a_link_that_breaks_without_a_word_is_an_error() -> None:
    def says(conn: socket.socket, name: bytes) -> None:
        conn.sendall(b"K" + WHOLE)

    with streamed(says, none) as (s, connection, _):
        s.open(ticket)
        assert s.next() is not None
        with pytest.raises(LinkError, match="ended before its batches did"):
            s.next()
        s.close()
        assert not connection.links._idle


@pytest.mark.pure
def test_a_batch_by_grpc_is_none_of_the_links() -> None:
    with streamed(sending(END), lambda: iter([record()])) as (s, _, _):
        s.open(ticket)
        with pytest.raises(LinkError, match="came by gRPC"):
            s.next()


@pytest.mark.pure
def test_what_comes_behind_the_status_is_waited_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "GRACE", 1)
    with streamed(sending(WHOLE), none) as (s, _, _):
        s.open(ticket)
        assert s.next() is not None
        with pytest.raises(LinkError, match="nothing for 1 s behind its status"):
            s.next()


@pytest.mark.pure
def test_cancel_ends_a_stream_that_waits() -> None:
    never = threading.Event()

    def waits() -> Iterator[pa.RecordBatch]:
        never.wait(60)
        yield from ()

    with streamed(sending(WHOLE), waits) as (s, connection, _):
        s.open(ticket)
        assert s.next() is not None
        threading.Thread(target=s.cancel).start()
        with pytest.raises((LinkError, pa.ArrowException)):
            s.next()
        never.set()
        s.close()
        assert not connection.links._idle
        assert s.open(ticket) is None


class Seen:
    """By which way batches came, and how many links were opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.linked = self.by_grpc = self.opened = 0
        receive, by_grpc, opens = Link.receive, stream._by_grpc, Link.open

        def counts_link(link: Link, blocks: Blocks) -> links.Message | None:
            message = receive(link, blocks)
            self.linked += message is not None
            return message

        def counts_grpc(reader: flight.FlightStreamReader) -> Any:
            got = by_grpc(reader)
            self.by_grpc += got is not None
            return got

        def counts_open(link: Link, address: str, security: Security) -> None:
            opens(link, address, security)
            self.opened += 1

        monkeypatch.setattr(Link, "receive", counts_link)
        monkeypatch.setattr(stream, "_by_grpc", counts_grpc)
        monkeypatch.setattr(Link, "open", counts_open)


@pytest.mark.parametrize("compression", [0, 1, 2])
def test_a_fleets_batches_come_on_links_which_serve_stream_after_stream(
    shared_fleet: Fleet, dataset: Dataset, monkeypatch: pytest.MonkeyPatch, compression: int
) -> None:
    seen = Seen(monkeypatch)
    text = spec(dataset, epochs=3)
    with Session(configure(shared_fleet, text, compression=compression)) as session:
        for _ in range(3):
            assert all_places(read_epoch(session)) == sorted(dataset.places())
    assert seen.linked > 0
    assert seen.by_grpc == 0
    assert seen.opened < seen.linked


def test_links_speak_tls_with_certificates(
    fleet: Fleet, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen(monkeypatch)
    certificate(tmp_path, "DNS:penstock")
    pem, key = tmp_path / "ca.pem", tmp_path / "key.pem"
    ports = [
        f"--tls-cert={pem}",
        f"--tls-key={key}",
        f"--tls-ca={pem}",
        f"--tls-client-ca={pem}",
        "--tls-server-name=penstock",
    ]
    fleet.start(workers=1, master_flags=ports, worker_flags=ports)
    security = Security(ca=pem.read_bytes(), cert=pem.read_bytes(), key=key.read_bytes(), server_name="penstock")
    with Session(configure(fleet, spec(dataset), security=security)) as session:
        assert all_places(read_epoch(session)) == sorted(dataset.places())
    assert seen.linked > 0
    assert seen.by_grpc == 0


def test_a_fork_takes_no_batches(shared_fleet: Fleet, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the links' files, too: closing its own does not end the stream of the process that opened them."""
    seen = Seen(monkeypatch)
    with Session(configure(shared_fleet, spec(dataset), budget=1 << 16)) as session:
        batches = read_epoch(session, 2)
        child = os.fork()
        if child == 0:
            session.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        batches += read_epoch(session)
        assert all_places(batches) == sorted(dataset.places())
    assert seen.by_grpc == 0
