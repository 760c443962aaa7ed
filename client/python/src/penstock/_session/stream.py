"""A DoGet of a worker, whose batches come on a link where one is to be had, and by gRPC otherwise.

The twin of internal/wire's Stream. Ticket, schema, status and the end of a stream that either side wants to end go by
gRPC; a thread waits for the status meanwhile, so that a stream whose gRPC connection breaks does so, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import flight

from penstock._flat import Flat, Form
from penstock._session.blocks import Blocks
from penstock._session.links import ASKS, GRACE, GRANTS, Link, LinkError, Links
from penstock._session.messages import Incoming, read


class _Answer(threading.local):
    """What the worker said to the call that this thread makes."""

    granted = False


_answer = _Answer()


class _Headers(flight.ClientMiddleware):  # type: ignore[misc]  # untyped
    def received_headers(self, headers: dict[str, list[str]]) -> None:
        if GRANTS in headers:  # they come within do_get, to its thread
            _answer.granted = True


class Granted(flight.ClientMiddlewareFactory):  # type: ignore[misc]  # untyped
    """Of clients whose streams may go by links: it sees what workers say to that."""

    def start_call(self, info: flight.CallInfo) -> flight.ClientMiddleware:
        """A call begins in this thread."""
        _answer.granted = False
        return _Headers()


@dataclass(frozen=True)
class Connection:
    """How a worker is reached. Any thread may use it."""

    client: flight.FlightClient
    links: Links
    blocks: Blocks  # for what comes on links


class Stream:
    """One stream, of the thread that opens it. cancel may be called from any."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._reader: flight.FlightStreamReader | None = None
        self._form: Form | None = None  # of its schema, which was found to be one of tensors
        self._link: Link | None = None
        self._watch: _Watch | None = None
        self._cancelled = False

    def open(self, request: Callable[[bool], bytes]) -> pa.Schema | None:
        """Asks for the stream; returns its schema, or None if it was cancelled. Raises what pyarrow raises.

        request makes the ticket, and is told whether values may be narrow: what comes by gRPC, pyarrow reads.
        """
        link = self._connection.links.take(self._note)
        if self._cancelled:
            return None
        self._reader = reader = self._ask(request(link is not None), link)
        if self._cancelled:  # cancel may have been called before there was a reader
            return None
        schema = reader.schema
        if self._link is not None:
            self._watch = _Watch(reader, self._link)
        return schema

    def _note(self, link: Link) -> None:
        self._link = link
        if self._cancelled:  # by a thread that did not see it
            link.cancel()

    def _ask(self, ticket: bytes, link: Link | None) -> flight.FlightStreamReader:
        """Makes the call. Afterwards there is a link only if the batches come on it."""
        # A ticket opens a stream: a token is not for workers to see.
        headers = [] if link is None else [(ASKS, link.name)]
        first = link is not None and not link.known
        try:
            reader = self._connection.client.do_get(flight.Ticket(ticket), flight.FlightCallOptions(headers=headers))
        except pa.ArrowException as e:
            self._drop(link, waits="resource exhausted" in str(e).lower() and not _answer.granted)
            raise
        if link is None:
            return reader
        link.known = True
        if not _answer.granted:
            if first:
                self._connection.links.fail()  # it leads elsewhere than the call
            self._drop(link, waits=False)
        return reader

    def _drop(self, link: Link | None, waits: bool) -> None:
        """Gives up a link; a busy worker took none, and has it waiting."""
        if link is None:
            return
        self._link = None
        if waits and not self._cancelled:
            link.known = True
            self._connection.links.put(link)
        else:
            link.close()

    def next(self) -> Incoming | None:
        """What comes next; None at a good end. Raises what pyarrow raises, LinkError, MessageError, or LayoutError."""
        assert self._reader is not None
        link, watch = self._link, self._watch
        if link is None or watch is None:
            return _by_grpc(self._reader)
        try:
            message = link.receive(self._connection.blocks)
        except LinkError:
            link.cancel()
            watch.wait(GRACE)  # the status says more, if it comes
            raise
        if message is None:
            watch.wait(None)
            self._link = None
            self._connection.links.put(link)
            return None
        if self._form is None:
            self._form = Form(self._reader.schema)
        rows = read(message.memory, self._form)
        size = message.bytes if isinstance(rows, Flat) else rows.get_total_buffer_size()
        return Incoming(rows, message.meta, size)

    def cancel(self) -> None:
        """Ends the stream, whatever it waits for. Never blocks."""
        self._cancelled = True
        reader, link = self._reader, self._link
        if reader is not None:
            reader.cancel()
        if link is not None:
            link.cancel()

    def close(self) -> None:
        """Ends the stream, and what belongs to it."""
        self.cancel()
        link, self._link = self._link, None
        if link is not None:
            link.close()
        if self._watch is not None:
            self._watch.join()
        self._reader = self._watch = None


class _Watch:
    """Waits for a stream's status while its batches come on a link."""

    def __init__(self, reader: flight.FlightStreamReader, link: Link) -> None:
        self._reader, self._link = reader, link
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="penstock-status", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._reader.read_chunk()
        except StopIteration:
            pass
        except Exception as e:  # it is raised where the batches are read
            self._error = e
        else:
            self._error = LinkError("a batch came by gRPC; the stream's come on its link")
        self._link.hurry()

    def wait(self, patience: float | None) -> None:
        """Waits for the status, and raises it unless it is good."""
        self._thread.join(patience)
        error, self._error = self._error, None
        if error is not None:
            raise error

    def join(self) -> None:
        """Waits for the thread, whose stream was cancelled."""
        self._thread.join()


def _by_grpc(reader: flight.FlightStreamReader) -> Incoming | None:
    try:
        chunk = reader.read_chunk()
    except StopIteration:
        return None
    record, meta = chunk.data, chunk.app_metadata
    size = 0 if record is None else record.get_total_buffer_size()
    return Incoming(record, None if meta is None else meta.to_pybytes(), size)
