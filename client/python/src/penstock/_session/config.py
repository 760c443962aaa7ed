"""What a session is told at its start. Everything is immutable."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from penstock import errors
from penstock._session.feeder import Connection
from penstock._session.state import State
from penstock.monitor import Event


@dataclass(frozen=True)
class Security:
    """How ports are reached. Certificates and keys are PEM files; tls alone trusts the system's authorities.

    Files are read anew when they change, so that they may be renewed while the job runs.
    """

    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    server_name: str | None = None
    tls: bool = False
    namespace: str | None = None  # that calls are about, where the token is for several

    def message(self) -> dict[str, Any]:
        """As the process that makes the batches is told, which may have another working directory."""
        paths = {name: getattr(self, name) for name in ("token_file", "ca", "cert", "key")}
        return {name: str(Path(path).absolute()) for name, path in paths.items() if path} | {
            "token": "" if self.token_file else self.token or "", "server_name": self.server_name or "",
            "tls": self.tls, "namespace": self.namespace or "",
        }  # fmt: skip


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
    spec: a message Spec of api/pb/spec.proto, in protobuf's JSON.
    code: what the functions are made of that the spec's `code` identifies.
    restore: checkpoints of ranks; each in exactly one Session of the collective restore. A rank that takes part
        without bringing any gives an empty tuple, which is not None.
    accept_code_change: restore states though the functions were others when they were taken.
    restored_like: one of the states that are restored, for a rank that brings none of them.
    begins_in: the epoch that the restored states are in, for a rank that brings none of them.
    differences: says what a spec's fingerprint has otherwise than those of the restored states, for RestoreRefused.
    peek: rows. The session is one rank's look at so many of the spec's, in place of its epochs, and deleted at its end.
    budget: bytes that may be received and not yet in a batch. Each stream has an equal share, but may always hold one
        message, even one larger than its share.
    sync_every: the longest time between two Syncs.
    stream_timeout: how long a worker may send nothing while there is room, before the stream moves on to the next. It
        doubles with each fruitless round over the candidates in which one was silent, to 16 times as much.
    hedge_after: the least time that a worker may send nothing while there is room, before the next one is asked for the
        same rows besides. It is longer where streams usually are. Few streams are opened twice at once.
    connect_timeout: until a master must have answered when the session opens.
    timeout: how long next() waits without a row that was there to come, and a restore for its other ranks.
    join_timeout: how long next() waits for ranks that do not join, where all make equally many steps.
    on_event: called while the session opens or receives, in the caller's thread. It must not block.
    fleet: that was started for this session.
    """

    masters: tuple[str, ...]
    session: str
    spec: Mapping[str, Any] | None = None
    spec_text: str = ""
    working_dir: str = ""
    rank: int = 0
    world_size: int = 1
    share: Mapping[str, float] | None = None  # of the workers, set when the session is opened for the first time
    zone: str = ""
    compression: str = "none"  # of batches on their way
    code: bytes | None = field(default=None, repr=False)
    restore: tuple[State, ...] | None = None
    accept_code_change: bool = False
    restored_like: State | None = None
    begins_in: int = 0
    differences: Callable[[Mapping[str, Any]], Sequence[str]] = lambda spec: ()
    peek: int = 0
    budget: int = 256 << 20
    sync_every: float = 1.0
    stream_timeout: float = 60.0
    hedge_after: float = 0.5
    connect_timeout: float = 30.0
    timeout: float = 300.0
    join_timeout: float = 600.0
    security: Security = field(default_factory=Security)
    on_event: Callable[[Event], None] = _ignore
    fleet: Fleet | None = None

    def check(self) -> None:
        """Raises UsageError with all that is wrong, one mistake a line."""
        times = ("sync_every", "stream_timeout", "hedge_after", "connect_timeout", "timeout", "join_timeout")
        positive = ("budget", *times, "world_size")
        wrong = [f"{n} is {getattr(self, n)}; it must be positive" for n in positive if getattr(self, n) <= 0]
        if not self.masters:
            wrong.append("masters is empty; give the address of at least one master")
        if not self.session:
            wrong.append("session is empty; name it after the job, such as its run id and the loader's name")
        if not 0 <= self.rank < max(self.world_size, 1):
            wrong.append(f"rank {self.rank} is not below world_size {self.world_size}")
        restored = sum(len(state.data) * 3 // 4 for state in self.restore or ())
        if restored > _MAX_RESTORED:
            wrong.append(
                f"restore has {restored} bytes; one rank may bring {_MAX_RESTORED}, so have each bring its own"
            )
        if wrong:
            raise errors.UsageError("\n".join(wrong))

    def message(self) -> dict[str, Any]:
        """The request to open the session."""
        said = {
            "masters": list(self.masters), "security": self.security.message(), "session": self.session,
            "spec": self.spec, "spec_text": self.spec_text, "working_dir": self.working_dir, "rank": self.rank,
            "world_size": self.world_size, "share": self.share, "zone": self.zone,
            "compression": "" if self.compression == "none" else self.compression, "budget": self.budget,
            "code": None if self.code is None else base64.b64encode(self.code).decode(),
            "accept_code_change": self.accept_code_change or None,
            "restore": None if self.restore is None else [state.data for state in self.restore],
            "restored_like": None if self.restored_like is None else self.restored_like.data,
            "begins_in": self.begins_in, "connect_timeout": self.connect_timeout,
            "restore_timeout": self.timeout, "sync_every": self.sync_every, "stream_timeout": self.stream_timeout,
            "hedge_after": self.hedge_after, "join_timeout": self.join_timeout, "peek": self.peek or None,
        }  # fmt: skip
        return {name: value for name, value in said.items() if value is not None}
