"""Links: connections to a worker beside gRPC's, which carry batches (worker/serve/README.md).

HTTP/2's frames and the copies out of them take more CPU time than the batches' own way through the kernel. On a link a
batch is read straight into the memory where it stays. The twin of internal/wire's links.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

from penstock._session.blocks import ALIGNMENT, Block, Blocks, held
from penstock._session.config import Security
from penstock._session.messages import LIKELY_BODY, MOST_BODY

ASKS, GRANTS = b"penstock-link-bin", "penstock-link"  # gRPC metadata: a stream's link, and that the worker uses it
PREFACE, ACCEPTED = b"PLNK", b"K"
NAME_BYTES = 16
DIAL_TIMEOUT = 5.0
KEPT_IDLE = 30.0  # less than a worker lets a link wait
WITHOUT_FOR = 30.0  # how long no link is tried after one could not be opened, as where a proxy knows HTTP/2 alone
GRACE = 5.0  # how long the rest of a stream's batches, or a part of it, may take once its status has come

_PREFIX = struct.Struct("<IIII")  # lengths; the last one is of what was written at once behind the message
_MOST_HEADER, _MOST_META = 16 << 20, 64 << 10
_GROWTH = 4  # how many times what has come is set aside for more
_LEAST_HEAD = 64 << 10
_ENVELOPE = struct.Struct("<Ii")  # before a message's header in memory, as Arrow's IPC has it
_CONTINUES = 0xFFFFFFFF


class LinkError(Exception):
    """Nothing more comes on a link."""


class Message(NamedTuple):
    """One as it came. memory has header and body, as Arrow's IPC puts them."""

    memory: pa.Buffer
    meta: bytes
    bytes: int  # that the memory keeps


class Link:
    """A connection that brings the batches of one stream at a time. Other threads may call cancel and hurry."""

    def __init__(self) -> None:
        self.name = os.urandom(NAME_BYTES)
        self.known = False  # a stream has named it
        self.used = 0.0  # when, last
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._over = False
        self._ending = False
        self._head = bytearray(_PREFIX.size)  # prefix, header and app_metadata of a message
        self._likely = _PREFIX.size  # how much of it is read at first
        self._ahead = b""  # came behind it

    def open(self, address: str, security: Security) -> None:
        """Connects. Raises OSError."""
        deadline = time.monotonic() + DIAL_TIMEOUT
        host = "localhost"
        if address.startswith("unix:"):
            self._dial(socket.AF_UNIX, address.removeprefix("unix:").removeprefix("//"), deadline)
        else:
            host = self._connect(address, deadline)
        if security.encrypted:
            self._encrypt(security, host, deadline)
        s = self._hold(None, deadline)
        s.sendall(PREFACE + self.name)
        if s.recv(1) != ACCEPTED:
            raise ConnectionError("what answers has no links")
        self._patient(s)

    def _connect(self, address: str, deadline: float) -> str:
        """Connects to the first of a host's addresses that answers; returns the host."""
        host, _, port = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        error: OSError | None = None
        for family, _, _, _, to in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            try:
                self._dial(family, to, deadline)
            except OSError as e:
                error = e
            else:
                return host
        raise error or ConnectionError(f"{host} has no address")

    def _dial(self, family: int, to: str | tuple[object, ...], deadline: float) -> None:
        s = self._hold(socket.socket(family, socket.SOCK_STREAM), deadline)
        s.connect(to)

    def _encrypt(self, security: Security, host: str, deadline: float) -> None:
        raw = self._hold(None, deadline)
        s = _context(security).wrap_socket(
            raw, server_hostname=security.server_name or host, do_handshake_on_connect=False
        )
        self._hold(s, deadline)
        s.do_handshake()

    def _hold(self, s: socket.socket | None, deadline: float) -> socket.socket:
        """Makes a connection the link's, so that cancel ends what it waits for; None: goes on with the one it has."""
        with self._lock:
            if s is not None:
                if self._socket is not None:
                    self._socket.close()
                self._socket = s
            elif self._socket is None:
                raise ConnectionError("closed")
            if self._over:
                raise ConnectionAbortedError("cancelled")
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            return self._socket

    def _patient(self, s: socket.socket) -> None:
        """Has reads look every few seconds whether the stream is at its end, and all of it in one call between."""
        if isinstance(s, ssl.SSLSocket):
            s.settimeout(GRACE)
        else:
            s.settimeout(None)  # else there are no calls that read all
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", int(GRACE), 0))

    def clean(self) -> bool:
        """Whether an idle link may be used: its worker has neither closed it nor sent anything."""
        s = self._socket
        try:
            if s is None or self._ahead or (isinstance(s, ssl.SSLSocket) and s.pending()):
                return False
            socket.socket.recv(s, 1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    @property
    def cancelled(self) -> bool:
        """Whether nobody wants it any more."""
        return self._over

    def hurry(self) -> None:
        """Has the rest of a stream's batches come soon: its status has."""
        self._ending = True

    def rest(self) -> None:
        """Has the next stream's batches take as long as they like."""
        self._ending, self.used = False, time.monotonic()

    def cancel(self) -> None:
        """Ends what the link waits for, for good. Never blocks."""
        with self._lock, contextlib.suppress(OSError):
            self._over = True
            if self._socket is not None:
                # Of the connection itself: SSLSocket's own would take the encryption away from a read that goes on.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends the connection, even where a fork has it, too."""
        self.cancel()
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def receive(self, blocks: Blocks) -> Message | None:
        """The next message; None: the stream's batches have all come. Raises LinkError."""
        # In one call with its prefix comes as much of a message as the one before had before its body.
        with memoryview(self._head) as head:
            came = self._fill(head[: self._likely], _PREFIX.size)
        header, meta, body, follows = _PREFIX.unpack_from(self._head)
        size = _PREFIX.size + header + meta
        if header == meta == body == follows == 0:
            self._keep(size, came)
            return None
        if header > _MOST_HEADER or meta > _MOST_META or body > MOST_BODY or follows > MOST_BODY:
            raise LinkError(
                f"a message has header, app_metadata and body of {header}, {meta} and {body} bytes, {follows} behind it"
            )
        self._receive_head(size, came)
        self._likely = min(size, _LEAST_HEAD)
        begin = -(-(_ENVELOPE.size + header) // ALIGNMENT) * ALIGNMENT  # of the body
        memory = self._receive_body(begin, begin + body, blocks)
        padded = -(-header // 8) * 8
        at = begin - padded
        with memory.data as m, memoryview(self._head) as head:
            _ENVELOPE.pack_into(m, at - _ENVELOPE.size, _CONTINUES, padded)
            m[at : at + header] = head[_PREFIX.size : _PREFIX.size + header]
            m[at + header : begin] = bytes(padded - header)
        message = pa.py_buffer(memory).slice(at - _ENVELOPE.size)
        return Message(message, bytes(self._head[_PREFIX.size + header : size]), held(memory))

    def _receive_head(self, size: int, came: int) -> None:
        """Reads up to the app_metadata's end, into memory that grows with what comes."""
        self._keep(size, came)
        while came < size:
            part = min(size, max(_LEAST_HEAD, _GROWTH * came))
            if len(self._head) < part:
                self._head.extend(bytes(part - len(self._head)))
            with memoryview(self._head) as head:
                self._fill(head[came:part])
            came = part

    def _keep(self, size: int, came: int) -> None:
        """Keeps what came behind a message's head for what is read next."""
        if came > size:
            self._ahead = bytes(self._head[size:came]) + self._ahead

    def _receive_body(self, begin: int, end: int, blocks: Blocks) -> Block:
        """Reads a body into a block, behind room for its header."""
        memory = blocks.take(min(end, begin + LIKELY_BODY))
        self._fill(memory.data[begin:])
        while len(memory) < end:
            came = len(memory)
            larger = blocks.take(min(end, _GROWTH * came))
            larger[begin:came] = memory[begin:]
            memory = larger
            self._fill(memory.data[came:])
        return memory

    def _fill(self, view: memoryview, least: int | None = None) -> int:
        """Reads until memory is full, or has so much at least; returns how much it has."""
        s, came = self._socket, 0
        if s is None:
            raise LinkError("the stream's link was closed")
        least = len(view) if least is None else least
        if self._ahead:
            came = min(len(view), len(self._ahead))
            view[:came] = self._ahead[:came]
            self._ahead = self._ahead[came:]
        # TLS has no call that reads all.
        flags = socket.MSG_WAITALL if least == len(view) and not isinstance(s, ssl.SSLSocket) else 0
        while came < least:
            try:
                n = s.recv_into(view[came:], 0, flags)
            except (BlockingIOError, TimeoutError):
                if self._ending:
                    raise LinkError(f"the stream's link brought nothing for {GRACE:g} s behind its status") from None
                continue
            except (OSError, ValueError) as e:
                raise LinkError(f"the stream's link broke: {e}") from e
            if n == 0:
                raise LinkError("the stream's link ended before its batches did")
            came += n
        return came


def _context(security: Security) -> ssl.SSLContext:
    """TLS as the worker's calls have it. Raises OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])  # without it a worker's port refuses
    if security.ca is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cadata=security.ca.decode())
    if security.cert is None or security.key is None:
        return context
    if not hasattr(os, "memfd_create"):
        raise OSError("a link's certificate would have to be written to a disk")
    with os.fdopen(os.memfd_create("penstock"), "wb") as f:  # ssl reads files alone
        f.write(security.cert + b"\n" + security.key)
        f.flush()
        context.load_cert_chain(f"/proc/self/fd/{f.fileno()}")
    return context


class Links:
    """Links to one worker. Any thread may call."""

    def __init__(self, address: str, security: Security) -> None:
        self._address, self._security = address, security
        self._lock = threading.Lock()
        self._idle: list[Link] = []
        self._without: float | None = None  # until then
        self._closed = False

    def take(self, note: Callable[[Link], None]) -> Link | None:
        """An idle link, or a new one; None if there is none to be had. note is told of it before it is opened."""
        now = time.monotonic()
        with self._lock:
            free = self._find(now)
            if free is None and (self._closed or (self._without is not None and now < self._without)):
                return None
            if free is None and self._without is not None:
                self._without = now + WITHOUT_FOR  # other streams need not wait for this attempt
        if free is not None:
            note(free)
            return free
        link = Link()
        note(link)
        try:
            link.open(self._address, self._security.newest())
        except (OSError, ValueError):
            if not link.cancelled:
                self.fail()
            link.close()
            return None
        with self._lock:
            self._without = None
        return link

    def _find(self, now: float) -> Link | None:
        """An idle link that can be used. Closes those that cannot."""
        while self._idle and now - self._idle[0].used > KEPT_IDLE:
            self._idle.pop(0).close()
        while self._idle:
            link = self._idle.pop()
            if link.clean():
                return link
            link.close()
        return None

    def fail(self) -> None:
        """Notes that links lead nowhere at present."""
        with self._lock:
            self._without = time.monotonic() + WITHOUT_FOR

    def put(self, link: Link) -> None:
        """Takes back a link that its worker has waiting."""
        link.rest()
        with self._lock:
            if not self._closed:
                self._idle.append(link)
                return
        link.close()

    def close(self) -> None:
        """Closes the idle links; those in use are closed when their streams end."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()
