"""From what masters and workers said to the exceptions of penstock.errors: their words stay, a next step is added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import grpc

from penstock import errors
from penstock._session.config import Config
from penstock._session.masters import MasterError

_TOKEN = "give the fleet's token (token=, token_file=) or certificate (tls_cert=, tls_key=)"


def doctor(config: Config) -> str:
    """The command that looks at each hop."""
    return f"`penstock doctor --master {','.join(config.masters)}` checks each hop from this machine"


def from_master(config: Config, e: MasterError, *, restoring: bool = False, opening: bool = False) -> errors.Error:
    """What an error of a master means to the training loop."""
    words = f"session {config.session!r}: {e}"
    code = grpc.StatusCode
    if e.no_handshake:
        return errors.MasterUnreachable(
            f"{words}\nno master speaks TLS as the loader does: leave tls= and tls_*= out for a fleet without TLS, or "
            f"give the tls_ca= that signed its certificate, and the tls_server_name= that it bears; {doctor(config)}"
        )
    if e.transient:
        return errors.MasterUnreachable(f"{words}\nno master answered; {doctor(config)}")
    if e.code in (code.UNAUTHENTICATED, code.PERMISSION_DENIED):
        return errors.PermissionDenied(f"{words}; {_TOKEN}")
    if e.code is code.INVALID_ARGUMENT and opening:
        return errors.SpecError(f"{words}\ncorrect the spec; `penstock validate` checks one without a training job")
    if e.code is code.ALREADY_EXISTS:
        return errors.SessionMismatch(f"{words}\ngive the loader a session= of its own, or the running session's spec")
    if e.code is code.ABORTED:
        return errors.Fenced(f"{words}; end this process, or start it anew if it is the right one")
    if e.code is code.FAILED_PRECONDITION and restoring:
        return errors.RestoreRefused(
            f"{words}; restore the states of all ranks of one step, with their own dataset and spec"
        )
    if e.code is code.FAILED_PRECONDITION and opening:
        return errors.SessionFailed(f"{words}; mend what the master names, then open the session again")
    if e.code is code.NOT_FOUND and opening:
        return errors.UsageError(f"{words}; give a spec, so that the session is made")
    return errors.SessionFailed(f"{words}; `penstock session show {config.session}` tells more")


def fleet_ended(config: Config) -> errors.LocalFleetError | None:
    """The end of the fleet that was started for the session; None while it runs, or if there was none."""
    reason = None if config.fleet is None else config.fleet.error()
    return None if reason is None else errors.LocalFleetError(reason)


def session_failed(config: Config, words: str, bad_data: bool) -> errors.Error:
    """The master gave the session up; what to do about bad data is among its words."""
    if bad_data:
        return errors.DataError(f"session {config.session!r} failed: {words}")
    step = "mend the cause, then start again from a checkpoint, or with another session="
    return errors.SessionFailed(f"session {config.session!r} failed: {words}; {step}")


@dataclass(frozen=True)
class Refusal:
    """A worker's word for a shard that every worker refuses."""

    words: str
    code: str  # gRPC's
    address: str
    stranger: bool  # it is no worker

    def __str__(self) -> str:
        return self.words


def refused_shard(config: Config, shard: str, file: str, last: Refusal) -> errors.Error:
    """Every worker refuses a shard for good."""
    words = f"session {config.session!r}: shard {shard} of {file}: every worker refuses it: {last}"
    if last.stranger:
        return errors.WorkersUnreachable(
            f"{words}\nwhat answers at {last.address} is no Penstock worker, or one of another release; "
            f"see the worker's --advertise; {doctor(config)}"
        )
    if last.code == "UNIMPLEMENTED":
        return errors.DataError(f"{words}; run the same release of penstock on all masters and workers")
    if last.code == "UNAUTHENTICATED":
        return errors.PermissionDenied(f"{words}; {_TOKEN}")
    if last.code == "ABORTED":
        return errors.DataError(
            f"{words}; storage does not let the workers read it, or they have a bug: see their logs"
        )
    return errors.DataError(f"{words}; mend or leave out what the message names, then start again from a checkpoint")


def workers_unreachable(
    config: Config, waited: float, fleet: int, asked: set[tuple[str, str]], seen: Mapping[str, object]
) -> errors.Error:
    """No worker sent a row for too long. asked: names and addresses; seen: the newest error by address."""
    lines = [f"session {config.session!r}: no row came for {waited:.0f} s (timeout={config.timeout:g}); masters answer"]
    for name, address in sorted(asked):
        lines.append(str(seen.get(address, f"worker {name} at {address}: no error; it sends nothing")))
    if fleet == 0:
        lines.append("the fleet has no workers: start some")
    lines.append(doctor(config))
    return errors.WorkersUnreachable("\n".join(lines))


def master_lost(config: Config, waited: float, words: str) -> errors.Error:
    """Rows wait for a master's answer for too long."""
    what = f"no row came for {waited:.0f} s (timeout={config.timeout:g}), and no master answers"
    return errors.MasterUnreachable(f"session {config.session!r}: {what}:\n{words}\n{doctor(config)}")
