"""What a session is told at its start. Everything is immutable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from penstock import errors
from penstock._pb import control_pb2, spec_pb2, stream_pb2
from penstock._session.feeder import Connection
from penstock.monitor import Event


@dataclass(frozen=True)
class Security:
    """How ports are reached. Certificates and keys are PEM; tls alone trusts the system's authorities.

    What was read from files may be renewed in them while the job runs.
    """

    token: str | None = field(default=None, repr=False)
    ca: bytes | None = field(default=None, repr=False)
    cert: bytes | None = field(default=None, repr=False)
    key: bytes | None = field(default=None, repr=False)
    tls: bool = False
    server_name: str | None = None
    token_file: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    namespace: str | None = None  # that calls are about, where the token is for several

    @property
    def encrypted(self) -> bool:
        """Whether calls use TLS."""
        return self.tls or self.ca is not None or self.cert is not None

    def check(self, address: str) -> None:
        """Refuses to send a token in clear text beyond this machine."""
        if self.server_name is not None and not self.encrypted:
            raise errors.UsageError("a server name is of TLS; set tls_ca or tls=True, or leave tls_server_name out")
        if (self.cert is None) != (self.key is None):
            raise errors.UsageError("a certificate and its key go together; set both tls_cert and tls_key, or neither")
        if self.token is not None and not self.encrypted and not is_local(address):
            raise errors.UsageError(
                f"{address}: a token is sent over TLS only, except on this machine; set tls_ca or tls=True"
            )

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The headers of a call to a master. Workers are shown tickets, and no token."""
        token = self._newest_token()
        headers = (("authorization", token and f"Bearer {token}"), ("penstock-namespace", self.namespace))
        return tuple((key, value) for key, value in headers if value)

    def newest(self) -> Security:
        """What the files of certificates say now, for a connection to be made."""
        if self.ca_file is None and self.cert_file is None:
            return self
        cert, key = _read(self.cert_file), _read(self.key_file)
        if not (cert and key):
            cert, key = self.cert, self.key
        return replace(self, ca=_read(self.ca_file) or self.ca, cert=cert, key=key)

    def _newest_token(self) -> str | None:
        """The token as its file has it now: those of service accounts are renewed each hour or so."""
        try:
            return read_token(_read(self.token_file) or b"") or self.token
        except UnicodeDecodeError:  # it is being replaced
            return self.token


def _read(path: str | None) -> bytes | None:
    """What a file says, None while it is being replaced."""
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError:
        return None


def read_token(text: bytes) -> str | None:
    """The token that a file shows: of several, one a line, the first."""
    return next(iter(text.decode().split()), None)


def is_local(address: str) -> bool:
    """Whether an address is of this machine's loopback, or a socket file."""
    if address.startswith("unix:"):
        return True
    host, colon, _ = address.rpartition(":")
    octets = host.split(".")
    loopback = len(octets) == 4 and octets[0] == "127" and all(o.isdecimal() for o in octets)
    return bool(colon) and (host in ("localhost", "[::1]") or loopback)


# What a master takes in one request, less what stands around the states.
_MAX_RESTORED = (16 << 20) - (64 << 10)


def _ignore(event: Event) -> None:
    """Where nobody listens."""


class Fleet(Protocol):
    """One that was started for a session on this machine. Any thread may call."""

    def connect(self) -> Connection:
        """A connection to the process that makes its batches."""

    def error(self) -> str | None:
        """Why it has ended; None while it runs."""


@dataclass(frozen=True)
class Config:
    """Which session to read, and as whom. Times are in seconds.

    masters: addresses of masters, any of which leads to the leader.
    session: its id, made from the job (run id and loader name).
    spec, spec_text: what to read. With neither, the session must exist.
    working_dir: the directory that relative paths in spec_text begin at; without it they are refused.
    restore: checkpoints of ranks; each in exactly one Session of the collective restore. A rank that takes part
        without bringing any gives an empty tuple, which is not None.
    start_epoch: the epoch that the restored states are in, for a rank that brings none of them.
    differences: says what the session's spec has otherwise than that of the restored states, for RestoreRefused.
    budget: bytes that may be received and not yet in a batch. Each stream has an equal share, but may always hold one
        message, even one larger than its share.
    sync_every: the longest time between two Syncs.
    stream_timeout: how long a worker may send nothing while there is room, before the stream moves on to the next. It
        doubles with each fruitless round over the candidates in which one was silent, to 16 times as much.
    hedge_after: the least time that a worker may send nothing while there is room, before the next one is asked for the
        same rows besides. It is longer where streams usually are. Few streams are opened twice at once.
    connect_timeout: until a master must have answered when the session opens.
    timeout: how long next() waits without a row that was there to come, and a restore for its other ranks.
    on_event: called while the session opens or receives, in the caller's thread. It must not block, nor ask the session
        for anything but close().
    fleet: that was started for this session.
    """

    masters: tuple[str, ...]
    session: str
    spec: spec_pb2.Spec | None = None
    spec_text: str = ""
    working_dir: str = ""
    rank: int = 0
    world_size: int = 1
    share: control_pb2.Share | None = None  # of the workers, set when the session is opened for the first time
    zone: str = ""
    compression: stream_pb2.Compression = stream_pb2.COMPRESSION_UNSPECIFIED  # of batches on their way
    restore: tuple[control_pb2.State, ...] | None = None
    start_epoch: int = 0
    differences: Callable[[spec_pb2.Spec], Sequence[str]] = lambda spec: ()
    budget: int = 256 << 20
    sync_every: float = 1.0
    stream_timeout: float = 60.0
    hedge_after: float = 0.5
    connect_timeout: float = 30.0
    timeout: float = 300.0
    security: Security = field(default_factory=Security)
    on_event: Callable[[Event], None] = _ignore
    fleet: Fleet | None = None

    def check(self) -> None:
        """Raises UsageError with all that is wrong, one mistake a line."""
        positive = ("budget", "sync_every", "stream_timeout", "hedge_after", "connect_timeout", "timeout", "world_size")
        wrong = [f"{n} is {getattr(self, n)}; it must be positive" for n in positive if getattr(self, n) <= 0]
        if not self.masters:
            wrong.append("masters is empty; give the address of at least one master")
        if not self.session:
            wrong.append("session is empty; name it after the job, such as its run id and the loader's name")
        if not 0 <= self.rank < max(self.world_size, 1):
            wrong.append(f"rank {self.rank} is not below world_size {self.world_size}")
        restored = sum(state.ByteSize() for state in self.restore or ())
        if restored > _MAX_RESTORED:
            wrong.append(
                f"restore has {restored} bytes; one rank may bring {_MAX_RESTORED}, so have each bring its own"
            )
        if wrong:
            raise errors.UsageError("\n".join(wrong))
        for address in self.masters:
            self.security.check(address)
