"""Which data-parallel rank a process is, and batches for the ranks that share one.

Ranks of one replica (of tensor, pipeline or context parallelism) need the same batches. The lowest of them reads a
session, and broadcasts what it gets to the others over gloo: rows, ends of epochs and errors alike, so that all of them
see the same. All ranks of a replica iterate in lock-step, as they train.

Everything belongs to the thread of the training loop. The calls that make groups are collective.
"""

from __future__ import annotations

import datetime
import json
import math
import numbers
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from penstock import errors
from penstock._flat import Flat
from penstock._reader import Read, Reader
from penstock._session import Cause, Info, SessionStats, State
from penstock.position import Checkpoint

_T = TypeVar("_T")

_DATA_DIMENSIONS = ("dp", "data", "fsdp", "hsdp")  # what names of mesh dimensions begin with
# Of launchers' rank and world size. SLURM_NTASKS would be the job's, also where srun has not started them.
_LAUNCHERS = (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"))
_WHOLE = _LAUNCHERS[:1]  # of which both are set or none; a batch script of Slurm's has a SLURM_PROCID, too
_FOLLOW_TIMEOUT = datetime.timedelta(hours=1)  # for a rank of the replica to come to the next batch, too


@dataclass(frozen=True)
class Place:
    """A data-parallel rank. members are the global ranks that share it, if there are several."""

    rank: int
    world_size: int
    members: tuple[int, ...] = ()


def distributed() -> Any:
    """The module torch.distributed, if the program has initialised it; else None."""
    module = sys.modules.get("torch.distributed")
    return module if module is not None and module.is_available() and module.is_initialized() else None


class World:
    """All processes of the job, which talk over gloo, whatever they compute with."""

    def __init__(self, dist: Any) -> None:
        self._dist = dist
        self.rank: int = dist.get_rank()
        self.size: int = dist.get_world_size()
        self._groups: list[Any] = []
        # The default group may be NCCL's, which takes tensors of devices only.
        self._all = None if dist.get_backend() == "gloo" else self._made(dist.new_group(backend="gloo"))

    def gather(self, mine: Any) -> list[Any]:
        """What each rank gives, by rank. Collective."""
        gathered: list[Any] = [None] * self.size
        self._dist.all_gather_object(gathered, mine, group=self._all)
        return gathered

    def channel(self, members: Sequence[int]) -> Channel:
        """A channel from the lowest of some ranks to the others. Collective among them."""
        made = self._dist.new_group(
            list(members), backend="gloo", timeout=_FOLLOW_TIMEOUT, use_local_synchronization=True
        )
        return Channel(self._dist, self._made(made), min(members), self.rank)

    def _made(self, group: Any) -> Any:
        self._groups.append(group)
        return group

    def close(self) -> None:
        """Ends the groups that were made here."""
        while self._groups:
            group = self._groups.pop()
            if self._dist.is_initialized():
                self._dist.destroy_process_group(group)


def place(
    rank: int | None,
    world_size: int | None,
    process_group: Any,
    mesh: Any,
    environ: Mapping[str, str] = os.environ,
) -> Place | None:
    """The data-parallel rank: as given, else that of torch.distributed, else the environment's, if it has one."""
    if (rank is None) != (world_size is None):
        raise errors.UsageError("rank= and world_size= go together; give both or neither")
    given = [rank is not None, process_group is not None, mesh is not None]
    if sum(given) > 1:
        raise errors.UsageError("rank= with world_size=, process_group= and mesh= exclude each other; give one of them")
    if rank is not None and world_size is not None:
        return _checked(rank, world_size)
    dist = distributed()
    if dist is None:
        if process_group is not None or mesh is not None:
            raise errors.UsageError(
                "process_group= and mesh= need torch.distributed; call torch.distributed.init_process_group() first"
            )
        return _from_environment(environ)
    if process_group is not None:
        at = Place(dist.get_rank(process_group), dist.get_world_size(process_group))
        if at.rank < 0:
            raise errors.UsageError(
                "this process is not in process_group=; give each rank the data-parallel group that it belongs to"
            )
        return at
    if mesh is not None:
        return _from_mesh(mesh)
    return Place(dist.get_rank(), dist.get_world_size())


def _checked(rank: int, world_size: int) -> Place:
    if not isinstance(rank, numbers.Integral) or not isinstance(world_size, numbers.Integral):
        raise errors.UsageError(f"rank={rank!r}, world_size={world_size!r}: give integers")
    if not 0 <= rank < world_size:
        raise errors.UsageError(f"rank {rank} is not in [0, world_size), world_size being {world_size}; count from 0")
    return Place(int(rank), int(world_size))


def _from_environment(environ: Mapping[str, str]) -> Place | None:
    for names in _LAUNCHERS:
        rank, world_size = map(environ.get, names)
        if (rank or world_size) and names in _WHOLE and not (rank and world_size):
            there, missing = names if rank else reversed(names)
            raise errors.UsageError(
                f"the environment has {there}={rank or world_size!r} and no {missing}; set both, or give rank= and "
                "world_size="
            )
        if rank or world_size:
            return _of_launcher(*names, rank or "0", world_size or "1")
    return None


def _of_launcher(of_rank: str, of_size: str, rank: str, world_size: str) -> Place:
    try:
        return _checked(int(rank), int(world_size))
    except ValueError:
        raise errors.UsageError(
            f"the environment has {of_rank}={rank!r} and {of_size}={world_size!r}; set both to numbers, or give rank= "
            "and world_size="
        ) from None


def _from_mesh(mesh: Any) -> Place:
    """The coordinates along the mesh's data-parallel dimensions, the last one running fastest."""
    if not hasattr(mesh, "mesh_dim_names"):
        raise errors.UsageError(f"mesh={mesh!r:.80}: give a torch.distributed.device_mesh.DeviceMesh")
    names = mesh.mesh_dim_names or ()
    chosen = [i for i, name in enumerate(names) if name.startswith(_DATA_DIMENSIONS)]
    if mesh.ndim == 1:
        chosen = [0]
    coordinates = mesh.get_coordinate()
    if not chosen:
        raise errors.UsageError(
            f"none of the mesh's dimensions {tuple(names)} is data-parallel by its name (dp..., data..., fsdp...); "
            'give a slice of it, such as penstock.Ranks(mesh=mesh["replica"])'
        )
    if coordinates is None:
        raise errors.UsageError("this process is not part of the mesh; make the loader only on ranks that are")
    rank = 0
    for i in chosen:
        rank = rank * mesh.size(i) + coordinates[i]
    return Place(rank, math.prod(mesh.size(i) for i in chosen))


def with_members(at: Place, world: World) -> Place:
    """The place with all global ranks that share it. Collective."""
    places = world.gather((at.rank, at.world_size))
    if len({size for _, size in places}) > 1:
        raise errors.UsageError(
            f"the ranks' data-parallel groups have different sizes: {sorted({size for _, size in places})}; "
            "give each rank its own data-parallel group of one mesh"
        )
    members = tuple(i for i, (rank, _) in enumerate(places) if rank == at.rank)
    return replace(at, members=members) if len(members) > 1 else at


class Channel:
    """Messages from one rank of a group to all others of it, in order."""

    def __init__(self, dist: Any, group: Any, source: int, rank: int) -> None:
        import torch

        self._torch, self._dist, self._group, self._source = torch, dist, group, source
        self.leads = rank == source
        self._newest: Any = None

    def send(self, parts: Sequence[Any]) -> None:
        """Sends byte strings, or other objects that show their memory."""
        views = [np.frombuffer(part, np.uint8) if len(part) else np.empty(0, np.uint8) for part in parts]
        self._broadcast(np.array([len(view) for view in views], np.int64))
        for view in views:
            if len(view):
                self._broadcast(view if view.flags.writeable else view.copy())

    def receive(self, parts: int) -> list[np.ndarray[Any, np.dtype[np.uint8]]]:
        """What send() sent, as many byte strings."""
        sizes = np.empty(parts, np.int64)
        self._broadcast(sizes)
        received = [np.empty(size, np.uint8) for size in sizes]
        for part in received:
            if len(part):
                self._broadcast(part)
        return received

    def _broadcast(self, array: np.ndarray[Any, Any]) -> None:
        # gloo's thread lets go of a tensor some time after the call. Were it the last to hold it, freeing the array
        # would need the interpreter, which may be ending by then: the process would abort.
        self._newest = self._torch.from_numpy(array)
        try:
            self._dist.broadcast(self._newest, self._source, group=self._group)
        except RuntimeError as err:
            raise errors.Error(
                f"a rank of this replica is gone or does not iterate in step with rank {self._source}, which reads for "
                f"it: {err}; see the other ranks' errors"
            ) from err


_PARTS = 2  # of a message: facts (JSON), and rows (an Arrow IPC stream)


class Leader:
    """Reads for its replica, and tells the others all that it gets."""

    def __init__(self, channel: Channel, open_reader: Callable[[], Reader]) -> None:
        self._channel = channel
        self._got: list[Read | None] = []  # what a call of next that was interrupted has read and not returned
        self._sent = False  # the others know of it
        self._rows: int | None = None  # as the others know them
        self._batches: int | None = None
        self._reader: Reader = self._told(open_reader)
        channel.send(self._told(lambda: self._message("opened", self.state(), json.dumps(self.info.message).encode())))

    @property
    def epoch(self) -> int:
        """The epoch that next() reads."""
        return self._reader.epoch - (self._got == [None])  # an end that is still to be told

    @property
    def info(self) -> Info:
        """The session as it was when this rank joined."""
        return self._reader.info

    def next(self) -> Read | None:
        """The next batch of the epoch; None once at its end. All ranks of the replica must call it.

        An interrupt loses nothing of the leader's, as in SessionReader.next, but ends the others' reading: go on from a
        checkpoint then.
        """
        if not self._got:
            self._got.append(self._told(self._reader.next))
        read = self._got[0]
        if not self._sent:
            message = self._told(lambda: self._tells(read))
            self._sent = True  # an interrupt in send() comes behind its broadcast
            self._channel.send(message)
        self._got, self._sent = [], False
        return read

    def leave(self, epoch: int) -> None:
        """Ends an epoch before its end, if next() reads it still. All ranks of the replica must call it."""
        self._told(lambda: self._reader.leave(epoch))
        self._got, self._sent = [], False
        self._channel.send(self._told(lambda: self._message("left", self.state(), b"")))

    def _tells(self, read: Read | None) -> list[Any]:
        """The message of what next() returns."""
        if read is None:
            return self._message("end", self.state(), b"")
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, read.tensors.schema) as stream:
            stream.write_batch(read.tensors.to_arrow())
        return self._message("rows", read.state(), sink.getvalue(), read.valid, read.checkpoint)

    def state(self) -> State:
        """The checkpoint as of what next() returned last."""
        return self._reader.state()

    def rows_per_epoch(self) -> int | None:
        """How many rows this replica gets in each epoch, where all its ranks know that."""
        return self._rows

    def batches(self) -> int | None:
        """How many batches this replica gets of the epoch that next() reads, where all its ranks know that."""
        return self._batches

    def stats(self) -> SessionStats:
        """Cumulative figures."""
        return self._reader.stats()

    def _told(self, call: Callable[[], _T]) -> _T:
        """A call's result; the others learn of its failure."""
        try:
            return call()
        except BaseException as err:
            text = str(err) if isinstance(err, errors.Error) else f"{type(err).__name__}: {err}"
            facts = {"kind": "failed", "error": type(err).__name__, "text": text}
            self._channel.send([json.dumps(facts).encode(), b""])
            raise

    def _message(
        self, kind: str, state: State, payload: Any, valid: int = 0, checkpoint: Checkpoint | None = None
    ) -> list[Any]:
        stats = self.stats()
        self._rows, self._batches = self._reader.rows_per_epoch(), self._reader.batches()
        facts = {
            "kind": kind, "valid": valid, "epoch": self._reader.epoch, "rows": self._rows, "batches": self._batches,
            "checkpoint": checkpoint,
            "workers": stats.workers, "streams": stats.streams, "failovers": stats.failovers,
            "hedges": stats.hedges, "state": state.message(), "cause": stats.cause,
        }  # fmt: skip
        return [json.dumps(facts).encode(), payload]


class Follower:
    """Gets what the leader of its replica reads."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._stats = SessionStats()  # its own figures, and what the leader last said of the fleet
        self._facts = dict[str, Any]()
        self._returned = math.inf
        self._state: State
        self.info = Info.of(json.loads(self._receive().tobytes()))

    @property
    def epoch(self) -> int:
        """The epoch that next() reads."""
        return int(self._facts["epoch"])

    def next(self) -> Read | None:
        """The next batch of the epoch; None once at its end. All ranks of the replica must call it."""
        asked = time.monotonic()
        payload = self._receive()
        now = time.monotonic()
        rows = None
        if self._facts["kind"] == "rows":
            rows = Flat.of(pa.ipc.open_stream(pa.py_buffer(payload)).read_next_batch())
        self._count(rows is not None, len(payload), now - asked, max(asked - self._returned, 0.0))
        self._returned = now
        if rows is None:
            return None
        state = self._state
        at = self._facts["checkpoint"]
        return Read(rows, self.epoch, int(self._facts["valid"]), lambda: state, at and Checkpoint(*at))

    def leave(self, epoch: int) -> None:
        """Ends an epoch before its end, as the leader does. All ranks of the replica must call it."""
        self._receive()

    def state(self) -> State:
        """The checkpoint as of what next() returned last."""
        return self._state

    def rows_per_epoch(self) -> int | None:
        """How many rows this replica gets in each epoch, where that is known."""
        rows = self._facts["rows"]
        return None if rows is None else int(rows)

    def batches(self) -> int | None:
        """How many batches this replica gets of the epoch that next() reads, as of what came last."""
        batches = self._facts["batches"]
        return None if batches is None else int(batches)

    def stats(self) -> SessionStats:
        """Cumulative figures."""
        return self._stats

    def _receive(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        said, payload = self._channel.receive(_PARTS)
        facts = json.loads(said.tobytes())
        if facts["kind"] == "failed":
            known = getattr(errors, facts["error"], None)
            raise (
                known(facts["text"])
                if known
                else errors.Error(f"the rank that reads for this replica failed: {facts['text']}; see its own error")
            )
        self._facts, self._state = facts, State.of(facts["state"])
        self._stats = replace(
            self._stats, cause=Cause(*facts["cause"]),
            workers=facts["workers"], streams=facts["streams"], failovers=facts["failovers"],
            hedges=facts["hedges"],
        )  # fmt: skip
        return payload

    def _count(self, batch: bool, size: int, waited: float, computed: float) -> None:
        s = self._stats
        self._stats = replace(
            s, rows=s.rows + self._facts["valid"], batches=s.batches + batch, bytes=s.bytes + (size if batch else 0),
            stall_seconds=s.stall_seconds + waited, compute_seconds=s.compute_seconds + computed,
            longest_stall_seconds=max(s.longest_stall_seconds, waited),
        )  # fmt: skip
