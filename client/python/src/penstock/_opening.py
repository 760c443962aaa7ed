"""Opens a loader's session: finds the master, the rank, the session's id and the states to go on from.

It stands between the loader, which knows what the user asked for, and the readers. Everything belongs to the thread of
the training loop; what is opened is closed with its Stream, or when the process ends.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import re
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock import _claims, _job, _replica, _trial
from penstock._checkpoint import differences, flatten, from_dict
from penstock._onbox import LocalFleet
from penstock._reader import Reader, SessionReader
from penstock._session import Config, Security, Session, State
from penstock.errors import UsageError
from penstock.groups import Connection, Ranks, check_positive, counts, share
from penstock.monitor import log_event

_PEEK_BUDGET = 16 << 20
_ADDRESS = re.compile(r"unix:.+|(?:\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[^][:/\s]+):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True)
class Restore:
    """States to go on from: this rank's own (shared is False), or those of all ranks, the same on each."""

    states: tuple[State, ...]
    batch_sizes: tuple[int, ...]  # of the loaders that they are of
    shared: bool
    specs: tuple[Mapping[str, Any], ...] = ()  # fingerprints of those that the states belong to

    @classmethod
    def of(cls, given: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Restore:
        """What load_state_dict() is given."""
        dicts, shared = flatten(given)
        # Ranks of one replica have the same state.
        states = tuple({state.data: state for state in map(from_dict, dicts)}.values())
        sizes = tuple(int(d.get("batch_size", 0)) for d in dicts)
        specs = tuple(d["spec"] for d in dicts if isinstance(d.get("spec"), Mapping))
        return cls(states, sizes, shared, specs)

    def is_even(self, batch_size: int) -> bool:
        """Whether batches go on as if the reading had never been interrupted."""
        return all(s.world_size == 1 for s in self.states) and set(self.batch_sizes) <= {batch_size}

    @property
    def epoch(self) -> int:
        """The epoch to go on with."""
        return max((s.epoch for s in self.states), default=0)

    def brought_by(self, at: _replica.Place) -> tuple[State, ...]:
        """The states that this rank brings: all ranks together bring each once."""
        return self.states[at.rank :: at.world_size] if self.shared else self.states


class Stream:
    """An open session and all that was started for it."""

    def __init__(self, place: _replica.Place, session: str, world: _replica.World | None) -> None:
        self.place, self.session, self.world = place, session, world
        self.pid = os.getpid()
        self.reading = object()  # stands for it where it must not be kept
        self._resources: list[Any] = []  # in the order in which they were opened
        weakref.finalize(self, _close_forgotten, self._resources, self.pid).atexit = False
        _streams.add(self)
        if world is not None:
            self.owns(world)
        self.reader: Reader

    @property
    def speaks(self) -> bool:
        """Whether this process says what all ranks would."""
        members = self.place.members
        return self.place.rank == 0 and (self.world is None or not members or self.world.rank == min(members))

    def owns(self, resource: Any) -> None:
        """Has a resource closed with the stream."""
        self._resources.append(resource)

    def close(self) -> None:
        """Gives back what is held. A second call does nothing."""
        _close_all(self._resources, self.pid)


def _copied(record: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in memory of their own."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, record.schema) as stream:
        stream.write_batch(record)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


def _close_all(resources: list[Any], pid: int) -> None:
    if os.getpid() != pid:
        return  # they are the parent's
    failure: BaseException | None = None
    while resources:
        try:
            resources.pop().close()
        except BaseException as err:  # such as a second interrupt: nobody closes the others then
            failure = failure or err
    if failure is not None:
        raise failure


def _close_forgotten(resources: list[Any], pid: int) -> None:
    """Closes what a stream had that is gone.

    The garbage collector may be who calls, in any thread, which may hold the very locks that closing takes.
    """
    if resources and os.getpid() == pid:
        threading.Thread(target=_close_all, args=(resources, pid), name="penstock-close").start()


_streams: weakref.WeakSet[Stream] = weakref.WeakSet()


@atexit.register
def _close_at_exit() -> None:
    with contextlib.ExitStack() as streams:
        for stream in list(_streams):
            streams.callback(stream.close)


@dataclass(frozen=True)
class Opening:
    """What is needed to open a session, as often as the loader has to."""

    spec: str | None  # in JSON, which stays as it is
    spec_text: str
    working_dir: str
    masters: tuple[str, ...]  # none: a fleet on this machine
    session: str | None
    name: str
    rank: int | None
    world_size: int | None
    ranks: Ranks
    connection: Connection
    security: Security  # of the connection and the environment
    workers: int | None
    budget: int
    timeout: float
    code: bytes | None = None  # of the spec's Python functions
    accept_code_change: bool = False
    try_functions: bool = True

    def __post_init__(self) -> None:
        for name, value in {"workers": self.workers, "memory": self.connection.memory}.items():
            if self.masters and value is not None:
                raise UsageError(f"{name}= is of the fleet that a loader without master= starts; leave one of them out")
        if self.workers is not None and not counts(self.workers, 0):
            raise UsageError(f"workers={self.workers!r}: give a number of worker processes, such as 2, or leave it out")
        check_positive("budget", self.budget, "bytes")
        check_positive("timeout", self.timeout, "seconds")

    @property
    def given_session(self) -> str | None:
        """The session's id, if the user or the job's launcher gives one: who comes again under it finds it again."""
        return _job.session_id(self.session, self.name)

    def open(self, owner: object, restore: Restore | None) -> Stream:
        """Opens and joins. owner is the loader."""
        at = _replica.place(self.rank, self.world_size, self.ranks.process_group, self.ranks.mesh) or self._alone()
        session = self.given_session
        dist = _replica.distributed()
        shared = self.ranks.process_group is not None or self.ranks.mesh is not None
        collective = shared or (session is None and at.world_size > 1)  # else the other ranks may have no such loader
        world = _replica.World(dist) if collective and dist is not None and dist.get_world_size() > 1 else None
        if session is None:
            session = self._unique(at, world)
        stream = Stream(at, session, world)
        try:
            if shared and world is not None:
                stream.place = _replica.with_members(at, world)
            self._read(stream, owner, restore)
        except BaseException:
            stream.close()
            raise
        return stream

    def look(self, rows: int) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        """The schema of the loader's batches, and so many first rows, by a session of its own that is deleted then."""
        with contextlib.ExitStack() as resources:
            masters, security, fleet = self._fleet(lambda resource: resources.callback(resource.close))
            config = Config(
                masters=masters, session=_job.unique_id("peek"),
                spec=None if self.spec is None else json.loads(self.spec),
                spec_text=self.spec_text, working_dir=self.working_dir, code=self.code, zone=self.connection.zone,
                peek=max(1, rows),
                budget=min(int(self.budget), _PEEK_BUDGET), timeout=float(self.timeout),
                connect_timeout=float(self.connection.connect_timeout), security=security, fleet=fleet,
            )  # fmt: skip
            session = Session(config)
            resources.callback(session.close)
            found = session.next() if rows > 0 else None
            return session.info.schema, [] if found is None else [_copied(found.record)]

    def _trial(self, at: _replica.Place) -> _trial.Trial | None:
        """A trial of the spec's functions: where one fails, nobody else need. One rank tries them for all."""
        if self.spec is None or at.rank != 0 or not self.try_functions:
            return None
        spec, here = json.loads(self.spec), not self.masters
        if self.code is None and (not here or not any("python" in each for each in spec.get("transforms", ()))):
            return None  # by name, those of the workers count, not what is here
        return _trial.Trial(spec, self.code, here=here)

    def _fleet(self, owns: Callable[[Any], object]) -> tuple[tuple[str, ...], Security, LocalFleet | None]:
        """The masters and how they are reached, of a fleet on this machine where none is named."""
        if self.masters:
            return self.masters, self.security, None
        fleet = LocalFleet(workers=self.workers or 0, memory=self.connection.memory)
        owns(fleet)
        return (fleet.address,), Security(token=fleet.token), fleet

    def _alone(self) -> _replica.Place:
        """The one rank of a job that tells of none."""
        job = None if self.session else _job.indexed_job()
        if job is not None and job == _job.run_id():
            raise UsageError(
                f"the pods of the Kubernetes Job {job!r} are ranks of one session, and nothing says of how many; give "
                'rank=int(os.environ["JOB_COMPLETION_INDEX"]) and world_size=, or set RANK and WORLD_SIZE'
            )
        return _replica.Place(0, 1)

    def _unique(self, at: _replica.Place, world: _replica.World | None) -> str:
        mine = _job.unique_id(self.name)
        if world is not None:
            return str(world.gather(mine)[0])
        if at.world_size > 1:
            raise UsageError(
                f"{at.world_size} ranks need one id for their session, and neither a launcher nor torch.distributed "
                f'gives one; give each rank the same session=, such as session="job-17/{self.name}", or set '
                "PENSTOCK_RUN_ID"
            )
        return mine

    def _read(self, stream: Stream, owner: object, restore: Restore | None) -> None:
        members = stream.place.members
        if not members or stream.world is None:
            stream.reader = self._session_reader(stream, owner, restore)
        else:
            channel = stream.world.channel(members)
            if channel.leads:
                stream.reader = _replica.Leader(channel, lambda: self._session_reader(stream, owner, restore))
            else:
                stream.reader = _replica.Follower(channel)

    def _session_reader(self, stream: Stream, owner: object, restore: Restore | None) -> Reader:
        at = stream.place
        if not self.masters and at.world_size > 1:
            raise UsageError(
                f"{at.world_size} ranks need one master, but without master= each would start a fleet of its own; "
                "start one in another terminal:\n"
                "    penstock local\n"
                "and give all ranks the address and the file that it prints:\n"
                '    master="127.0.0.1:PORT", connection=penstock.Connection(token_file="/tmp/.../token")'
            )
        trial = self._trial(at)
        if trial is not None:
            stream.owns(trial)
        masters, security, fleet = self._fleet(stream.owns)  # meanwhile
        if trial is not None:
            trial.check()
        claim = _claims.Claim(stream.session, at.rank)
        stream.owns(claim)
        if restore is None and claim.restore is not None and at.world_size == 1:  # others would have to restore, too
            restore = Restore((claim.restore,), (), shared=False)
        config = Config(
            masters=masters,
            session=stream.session,
            spec=None if self.spec is None else json.loads(self.spec),
            spec_text=self.spec_text,
            working_dir=self.working_dir,
            code=self.code,
            accept_code_change=self.accept_code_change,
            rank=at.rank,
            world_size=at.world_size,
            share=share(self.ranks.share),
            zone=self.connection.zone,
            compression=self.connection.compression,
            restore=None if restore is None else restore.brought_by(at),
            restored_like=None if restore is None or not restore.states else restore.states[0],
            begins_in=0 if restore is None else restore.epoch,
            differences=functools.partial(differences, () if restore is None else restore.specs),
            budget=int(self.budget),
            timeout=float(self.timeout),
            connect_timeout=float(self.connection.connect_timeout),
            join_timeout=float(self.ranks.join_timeout),
            security=security,
            on_event=log_event,
            fleet=fleet,
        )
        session = Session(config)
        stream.owns(session)
        claim.reads(session)
        reader = SessionReader(session)
        stream.owns(reader)
        return reader


def addresses(master: str | Sequence[str] | None) -> tuple[str, ...]:
    """The masters' addresses; none for a fleet on this machine."""
    if master is None:
        return ()
    given = [master] if isinstance(master, str) or not isinstance(master, Sequence) else list(master)
    wrong = [a for a in given if not _is_address(a)]
    if wrong or not given:
        raise UsageError(
            f"master={master!r}: {_why_no_address(wrong[0]) if wrong else 'it is empty'}; "
            'give "host:port" of any master, or a list of those; without master= a fleet starts on this machine'
        )
    return tuple(given)


def _is_address(a: object) -> bool:
    found = _ADDRESS.fullmatch(a) if isinstance(a, str) else None
    return found is not None and 0 < int(found["port"] or 1) < 1 << 16


def _why_no_address(a: object) -> str:
    if not isinstance(a, str):
        return f"{a!r} is no text"
    if "://" in a:
        return f"{a!r} has a scheme; leave it out (connection=penstock.Connection(tls=True) is for a fleet with TLS)"
    if a.count(":") > 1 and "[" not in a:
        return f"{a!r}: an IPv6 address stands in brackets, as in [::1]:7070"
    if re.search(r":[0-9]+$", a):
        return f"{a!r} has no host, or a port outside 1 to 65535"
    return f"{a!r} has no port (penstock master listens on 7070 unless told otherwise)"


def security(given: Connection, environ: Mapping[str, str] = os.environ) -> Security:
    """How ports are reached. What is not given may stand in PENSTOCK_TOKEN_FILE and PENSTOCK_TLS_..."""
    files = {
        "token_file": given.token_file or (environ.get("PENSTOCK_TOKEN_FILE") if given.token is None else None),
        "ca": given.ca or environ.get("PENSTOCK_TLS_CA") or None,
        "cert": given.cert,
        "key": given.key,
    }
    for name, file in files.items():
        _check_readable(name, file)
    return Security(
        token=given.token or None, tls=given.tls, namespace=given.namespace,
        server_name=given.server_name or environ.get("PENSTOCK_TLS_SERVER_NAME") or None,
        **{name: os.fspath(file) if file else None for name, file in files.items()},
    )  # fmt: skip


def _check_readable(name: str, path: str | os.PathLike[str] | None) -> None:
    try:
        if path:
            Path(path).read_bytes()
    except OSError as err:
        raise UsageError(f"{name}: {err}; give a file that this process can read") from err
