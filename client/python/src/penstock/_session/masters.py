"""Calls of the leader among the masters, over grpcio: the control path's wire. One thread at a time makes calls."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from penstock._pb import control_pb2 as pb
from penstock._session.config import Security

Reply = TypeVar("Reply", bound=Message)

# How channels behave: a process that came back at its address is found within seconds, a
# silent machine or a frozen process is noticed within keepalive's 15 seconds, and a proxy of the environment is for
# other traffic.
CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),  # the one that gRPC C++ goes by; a minute otherwise
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),  # no bound: who waits for an answer has nothing to send
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5_000),  # also how long a connection may take to be made
    ("grpc.max_reconnect_backoff_ms", 3_000),
    ("grpc.use_local_subchannel_pool", 1),  # a new channel does not inherit an old one's backoff
    ("grpc.enable_http_proxy", 0),
)
MAX_MESSAGE = 256 << 20

_TRANSIENT = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
}


# How gRPC words a connection that was made and then failed as TLS: by a port without it, a certificate, or its name.
_HANDSHAKE_FAILED = ("handshake failed (TSI_PROTOCOL_FAILURE)", "Hostname Verification Check failed")


class MasterError(Exception):
    """What masters said to a call: one line for each that was asked. The code is the last one's."""

    def __init__(self, lines: list[str], code: grpc.StatusCode) -> None:
        super().__init__("\n".join(lines))
        self.code = code
        self.no_handshake = bool(lines) and all(any(words in line for words in _HANDSHAKE_FAILED) for line in lines)

    @property
    def transient(self) -> bool:
        """Whether it may go away by asking again, or asking another master."""
        return self.code in _TRANSIENT


def backoff(round_: int, limit: float) -> float:
    """Seconds to wait after a failed round: 0.1 doubled each round up to limit, half of it random."""
    d: float = min(0.1 * 2 ** min(round_, 16), limit)
    return d / 2 + random.random() * d / 2


class Masters:
    """The masters at some addresses."""

    def __init__(self, addresses: tuple[str, ...], security: Security) -> None:
        self._addresses, self._security = addresses, security
        self._leader = ""  # who answered last, or was named leader
        self._channels: dict[str, grpc.Channel] = {}

    def call(self, method: str, request: Message, reply: type[Reply], timeout: float) -> tuple[Reply, float]:
        """Asks the leader: first whom it takes for it, then whom a master names, then each of the others.

        Each attempt may take up to timeout seconds. Returns the answer and when (time.monotonic) its request was
        sent. Raises MasterError, or UsageError rather than show a leader the token in clear text.
        """
        todo = [a for a in (self._leader, *self._addresses) if a]
        tried: set[str] = set()
        lines: list[str] = []
        code = grpc.StatusCode.UNAVAILABLE
        while todo:
            address = todo.pop(0)
            if address in tried:
                continue
            tried.add(address)
            sent = time.monotonic()
            try:
                answer = self._attempt(address, method, request, reply, timeout)
            except grpc.RpcError as e:
                code = e.code()
                lines.append(f"{method} at master {address}: {e.details()} ({code.name})")
                if code not in _TRANSIENT:
                    raise MasterError(lines[-1:], code) from e
                todo[:0] = [a for a in (leader_of(e),) if a]
            else:
                self._leader = address
                return answer, sent
        self._leader = ""
        raise MasterError(lines, code)

    def _attempt(self, address: str, method: str, request: Message, reply: type[Reply], timeout: float) -> Reply:
        stub = self._channel(address).unary_unary(
            f"/penstock.v1.Master/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=reply.FromString,
        )
        call = stub.future(request, timeout=timeout, metadata=self._security.metadata())
        try:
            answer: Reply = call.result()
        except grpc.RpcError as e:
            if e.code() is grpc.StatusCode.UNAVAILABLE:
                # The next attempt connects anew at once, without this channel's backoff.
                self._channels.pop(address).close()
            raise
        return answer

    def _channel(self, address: str) -> grpc.Channel:
        channel = self._channels.get(address)
        if channel is None:
            self._security.check(address)  # of leaders, too, which masters name
            options: list[tuple[str, int | str]] = [*CHANNEL_OPTIONS, ("grpc.max_receive_message_length", MAX_MESSAGE)]
            s = self._security.newest()
            if s.encrypted:
                if s.server_name is not None:
                    options.append(("grpc.ssl_target_name_override", s.server_name))
                credentials = grpc.ssl_channel_credentials(s.ca, s.key, s.cert)
                channel = grpc.secure_channel(address, credentials, options)
            else:
                channel = grpc.insecure_channel(address, options)
            self._channels[address] = channel
        return channel

    def persist(
        self,
        method: str,
        request: Message,
        reply: type[Reply],
        *,
        timeout: float,
        patience: float,
        pause: Callable[[float], object],
        warn: Callable[[MasterError], None],
    ) -> tuple[Reply, float]:
        """Repeats call with backoff until it succeeds, fails for good, or was transient for `patience` seconds.

        Tells warn of each failed round, and waits with pause.
        """
        begin = time.monotonic()
        round_ = 0
        while True:
            try:
                return self.call(method, request, reply, timeout)
            except MasterError as e:
                if not e.transient or time.monotonic() - begin >= patience:
                    raise
                warn(e)
            left = begin + patience - time.monotonic()
            pause(max(0.0, min(backoff(round_, 5.0), left)))
            round_ += 1

    def close(self) -> None:
        """Closes the connections."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()


def leader_of(e: grpc.RpcError) -> str:
    """The leader's address in the answer of a master that does not lead, or ""."""
    for key, value in e.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            try:
                return _not_leader(value)
            except (DecodeError, IndexError):
                return ""
    return ""


def _not_leader(status: bytes) -> str:
    """Reads google.rpc.Status: its field 3 holds Any messages (1: type, 2: value)."""
    for number, detail in _fields(status):
        if number == 3:
            fields = dict(_fields(detail))
            if fields.get(1, b"").endswith(b"/penstock.v1.NotLeader"):
                return pb.NotLeader.FromString(fields.get(2, b"")).leader
    return ""


def _fields(message: bytes) -> list[tuple[int, bytes]]:
    """The length-delimited fields of a message; numbers are skipped."""
    out, at = [], 0
    while at < len(message):
        tag, at = _varint(message, at)
        size, at = _varint(message, at)
        if tag & 7 == 2:
            out.append((tag >> 3, message[at : at + size]))
            at += size
        elif tag & 7 != 0:
            raise DecodeError(f"wire type {tag & 7}")
    return out


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of base 128, and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
