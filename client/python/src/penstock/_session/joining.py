"""How a session begins: Open and Join, in the trainer's thread.

A master that does not answer is waited for, for Config.connect_timeout; the ranks of a collective restore wait for
each other.
"""

from __future__ import annotations

import logging
import time
import uuid
from typing import NamedTuple, TypeVar

from google.protobuf.message import Message

from penstock import errors
from penstock._pb import control_pb2 as pb
from penstock._session.config import Config
from penstock._session.failures import fleet_ended, from_master, session_failed
from penstock._session.masters import MasterError, Masters, backoff
from penstock._session.rarely import Rarely

WARN_EVERY = 10.0
OPEN_TIMEOUT = 120.0  # of one Open or Join call: the master may have to list a large dataset

Reply = TypeVar("Reply", bound=Message)
_log = logging.getLogger("penstock")


class Joined(NamedTuple):
    """What a master answered."""

    info: pb.Session
    reply: pb.JoinReply
    nonce: str
    lease_ends: float  # time.monotonic

    @property
    def kind(self) -> str:
        """As a word."""
        return pb.JoinKind.Name(self.reply.kind).lower()

    def describe(self) -> tuple[str, dict[str, int | float | bool | str]]:
        """A message for the log, and an event's metadata."""
        r = self.reply
        about: dict[str, int | float | bool | str] = {
            "kind": self.kind, "generation": r.generation, "incarnation": r.incarnation, "epoch": r.closed_epochs,
        }  # fmt: skip
        return f"joined ({self.kind}), generation {r.generation}, incarnation {r.incarnation}", about


def open_session(config: Config, masters: Masters) -> Joined:
    """Opens the session (or finds it) and joins it as the configured rank."""
    if config.spec is None and not config.spec_text:
        found = pb.GetSessionRequest(session=config.session)
        info, _ = _call(config, masters, "GetSession", found, pb.Session)
    else:
        opened = pb.OpenRequest(
            session=config.session, spec=config.spec, spec_text=config.spec_text, working_dir=config.working_dir,
            world_size=config.world_size, share=config.share,
        )  # fmt: skip
        info, _ = _call(config, masters, "Open", opened, pb.Session)
    nonce = uuid.uuid4().hex
    try:
        joined, sent = _join(config, masters, nonce)
    except errors.RestoreRefused as err:
        differences = "; ".join(config.differences(info.spec))
        if not differences:
            raise
        raise errors.RestoreRefused(f"the state's spec and this one differ: {differences}\n{err}") from None
    if joined.HasField("session"):
        info = joined.session
    if info.state == pb.FAILED:
        raise session_failed(config, info.failure, info.bad_data)
    if info.batch_size < 1 or joined.lease_ms < 1:
        raise errors.SessionFailed(
            f"session {config.session!r}: the master gave batch_size {info.batch_size} and a lease of "
            f"{joined.lease_ms} ms; both must be positive: does it run the same version?"
        )
    return Joined(info, joined, nonce, sent + joined.lease_ms / 1000)


def _join(config: Config, masters: Masters, nonce: str) -> tuple[pb.JoinReply, float]:
    """Joins, waiting for the other ranks of a collective restore; also when the answered Join was sent."""
    restoring = config.restore is not None
    request = pb.JoinRequest(
        session=config.session, rank=config.rank, world_size=config.world_size, nonce=nonce,
        restore=config.restore or (), restoring=restoring,
    )  # fmt: skip
    begin, round_ = time.monotonic(), 0
    while True:
        joined, sent = _call(config, masters, "Join", request, pb.JoinReply, restoring=restoring)
        if joined.kind != pb.JOIN_KIND_UNSPECIFIED:
            return joined, sent
        missing = list(joined.waiting_for)
        if round_ == 0:
            _log.info("session %s: the restore waits for ranks %s", config.session, missing)
        if time.monotonic() - begin > config.timeout:
            raise errors.RestoreRefused(
                f"session {config.session!r}: restore: ranks {missing} have not called for {config.timeout:g} s; "
                "every rank of the job must load its state, or an empty list of states"
            )
        time.sleep(backoff(round_, 1.0))
        round_ += 1


def _call(
    config: Config, masters: Masters, method: str, request: Message, reply: type[Reply], *, restoring: bool = False
) -> tuple[Reply, float]:
    told = Rarely(WARN_EVERY)

    def warn(e: MasterError) -> None:
        ended = fleet_ended(config)
        if ended is not None:
            raise ended from e
        if e.no_handshake:
            raise e
        if told.due():
            _log.warning("session %s: no master answers; trying on: %s", config.session, e)

    try:
        return masters.persist(
            method, request, reply, timeout=OPEN_TIMEOUT, patience=config.connect_timeout, pause=time.sleep, warn=warn
        )
    except MasterError as e:
        raise from_master(config, e, restoring=restoring, opening=True) from e


def first_epoch(config: Config, joined: pb.JoinReply) -> int:
    """The epoch that the training loop is in at its start.

    It may be closed already, where this rank was late and the others have read all of it: the loop then gets no batch
    of it, and is in step with theirs. A rank that comes back cannot know where its loop was, and goes on with the open
    epoch.
    """
    if joined.kind == pb.FRESH and joined.incarnation == 1:  # later ones left before
        return joined.session.restored_from.epoch
    if joined.kind == pb.RESTORED:
        return max((s.closed_epochs for s in config.restore or ()), default=config.start_epoch)
    return joined.closed_epochs
