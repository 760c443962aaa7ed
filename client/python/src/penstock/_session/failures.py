"""From what masters and workers said to the exceptions of penstock.errors: their words stay, a next step is added."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from penstock import errors
from penstock._session.config import Config

_TOKEN = "give a penstock.Connection with the fleet's token (token=, token_file=) or certificate (cert=, key=)"
_ONE_EACH = (
    'give two loaders of one job name="train" and name="validation" or, where session= is given, a session= each; '
    "training that begins anew needs another run id"
)
# Codes of gRPC that may go away by asking again, or asking another master.
_TRANSIENT = ("Unavailable", "DeadlineExceeded", "Canceled", "ResourceExhausted", "Unknown", "Internal")


def doctor(config: Config) -> str:
    """The command that looks at each hop."""
    return f"`penstock doctor --master {','.join(config.masters)}` checks each hop from this machine"


def of(config: Config, e: Mapping[str, Any], *, opening: bool = False) -> errors.Error:
    """What a session's end, or that it cannot be opened, means to the training loop."""
    session = f"session {config.session!r}"
    words = _arguments(e["words"])
    if e["kind"] == "usage":
        return errors.UsageError(f"{session}: {words}")
    if e["kind"] == "missing":
        return errors.RestoreRefused(
            f"{session}: {words}; every rank of the job must call load_state_dict(), with its own state or with a list "
            "of all ranks' states"
        )
    if e["kind"] == "absent":
        return errors.RanksAbsent(f"{session}: {words}. join_timeout= of penstock.Ranks is how long it is waited")
    if e["kind"] == "master":
        return _from_master(config, e, f"{session}: {words}", opening)
    if e["kind"] == "session":
        return session_failed(config, words, e.get("bad_data", False))
    if e["kind"] == "refused":
        return refused_shard(config, e)
    return errors.Error(f"{session}: {words}")


def _arguments(words: str) -> str:
    """The flags and fields that words name as the fields of a loader's groups."""
    words = words.replace("with accept_code_change", "with data=penstock.Data(accept_code_change=True)")
    return re.sub(r"--((?:tls|token)[a-z-]*)", lambda flag: f"penstock.Connection({_field(flag[1])}=...)", words)


def _field(flag: str) -> str:
    return flag.removeprefix("tls-").replace("-", "_")


def _from_master(config: Config, e: Mapping[str, Any], words: str, opening: bool) -> errors.Error:
    """What an error of a master means."""
    code = e["code"]
    if e.get("no_handshake"):
        return errors.MasterUnreachable(
            f"{words}\nno master speaks TLS as the loader does: for a fleet without TLS leave tls=, ca=, cert= and "
            "key= of penstock.Connection out, else give it the ca= that signed the fleet's certificate, and the "
            f"server_name= that this bears; {doctor(config)}"
        )
    if e.get("cannot_yet"):
        step = "see that storage answers where the master runs, or raise connect_timeout= of penstock.Connection"
        return errors.SessionFailed(f"{words}\nthe master answered, and could not open the session: {step}")
    if code in _TRANSIENT:
        return errors.MasterUnreachable(f"{words}\nno master that leads answered; {doctor(config)}")
    if code in ("Unauthenticated", "PermissionDenied"):
        return errors.PermissionDenied(f"{words}; {_TOKEN}")
    if code == "AlreadyExists":
        return errors.SessionMismatch(f"{words}\n{_ONE_EACH}")
    if code == "Aborted":
        return errors.Fenced(f"{words}; end this process, or start it anew if it is the right one")
    if opening:
        return _not_opened(config, e, words)
    return errors.SessionFailed(f"{words}; `penstock session show {config.session}` tells more")


def _not_opened(config: Config, e: Mapping[str, Any], words: str) -> errors.Error:
    """What the answer to the first calls means."""
    code = e["code"]
    if code == "InvalidArgument":
        return errors.SpecError(
            f"{words}\ncorrect what the message names; `penstock validate` checks a spec without a job"
        )
    if code == "FailedPrecondition" and e["op"] == "join" and config.restore is not None:
        differences = "; ".join(config.differences(e.get("spec", {})))
        before = f"the state's spec and this one differ: {differences}\n" if differences else ""
        return errors.RestoreRefused(
            f"{before}{words}; restore the states of all ranks of one step, with their own dataset and spec"
        )
    if code == "FailedPrecondition":
        return errors.SessionFailed(f"{words}; mend what the master names, then open the session again")
    if code == "DataLoss":
        return errors.DataError(f"{words}; mend the file, or leave it out of the dataset, and open the session again")
    if code == "NotFound":
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


def refused_shard(config: Config, e: Mapping[str, Any]) -> errors.Error:
    """Every worker refuses a shard for good."""
    words = f"session {config.session!r}: shard {e['shard']} of {e['file']}: every worker refuses it: {e['words']}"
    if e.get("stranger"):
        return errors.WorkersUnreachable(
            f"{words}\nwhat answers at {e['address']} is no Penstock worker, or one of another release; "
            f"see the worker's --advertise; {doctor(config)}"
        )
    if e["code"] == "Unimplemented" and "Python functions" in e["words"]:
        return errors.DataError(
            f"{words}\nworkers that may run functions need an interpreter (--python) that has what these import"
        )
    if e["code"] == "Unimplemented":
        return errors.DataError(f"{words}; run the same release of penstock on all masters and workers")
    if e["code"] == "Unauthenticated":
        return errors.PermissionDenied(f"{words}; {_TOKEN}")
    if e["code"] == "Aborted":
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
    what = f"no row came for {waited:.0f} s (timeout={config.timeout:g}), and no master takes reports"
    return errors.MasterUnreachable(f"session {config.session!r}: {what}:\n{words}\n{doctor(config)}")
