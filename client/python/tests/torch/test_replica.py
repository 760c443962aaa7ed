"""Ranks of torch.distributed, and those that share a replica: real processes that talk over gloo."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from penstock import _replica, errors
from penstock._flat import Flat
from penstock._reader import Read
from penstock._replica import Place
from penstock._session import Info, SessionStats, State
from tests import test_batch
from tests.torch import jobs

if TYPE_CHECKING:
    from tests.conftest import Dataset, Fleet

MESH = """
    from torch.distributed.device_mesh import init_device_mesh
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
"""


@pytest.mark.parametrize(
    ("given", "environ", "want"),
    [
        ((None, None), {}, None),
        ((None, None), {"RANK": "1", "WORLD_SIZE": "4"}, Place(1, 4)),
        ((None, None), {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8"}, Place(5, 8)),
        ((None, None), {"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, Place(0, 1)),  # of a batch script
        ((None, None), {"RANK": "1", "WORLD_SIZE": "4", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"}, Place(1, 4)),
        ((np.int32(2), np.int64(3)), {}, Place(2, 3)),
        ((2, 3), {"RANK": "1", "WORLD_SIZE": "4"}, Place(2, 3)),
    ],
)
def test_ranks_without_torch_distributed(given: Any, environ: dict[str, str], want: Place | None) -> None:
    assert _replica.place(*given, None, None, environ) == want


@pytest.mark.parametrize(
    ("given", "environ", "says"),
    [
        ((1, None, None, None), {}, "go together"),
        ((3, 3, None, None), {}, "world_size"),
        (("0", "2", None, None), {}, "integers"),
        ((0.0, 2.0, None, None), {}, "integers"),
        ((0, 1, None, "mesh"), {}, "exclude each other"),
        ((None, None, None, "mesh"), {}, "init_process_group"),
        ((None, None, None, None), {"RANK": "x", "WORLD_SIZE": "2"}, "RANK='x'"),
        ((None, None, None, None), {"RANK": "0"}, "RANK='0' and no WORLD_SIZE"),
        ((None, None, None, None), {"WORLD_SIZE": "2"}, "WORLD_SIZE='2' and no RANK"),
        ((None, None, None, None), {"SLURM_PROCID": "x"}, "SLURM_PROCID='x'"),
        ((None, None, None, None), {"RANK": "2", "WORLD_SIZE": "2"}, "count from 0"),
    ],
)
def test_ranks_that_cannot_be(given: Any, environ: dict[str, str], says: str) -> None:
    with pytest.raises(errors.UsageError, match=says):
        _replica.place(*given, environ)


class Told:
    """A channel that keeps what it was to send, of which the newest can be received."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, parts: list[Any]) -> None:
        """Keeps the facts."""
        self.sent.append(json.loads(parts[0]))
        self._newest = parts

    def receive(self, parts: int) -> list[Any]:
        """What was sent last."""
        return [np.frombuffer(part, np.uint8) for part in self._newest]


STATE = State("", "s", 0, 1, 0)
INFO = Info.of({"batch_size": 8, "world_size": 1, "epochs": 1, "spec": {}})


class Ailing:
    """A reader whose rows come, but not its figures."""

    epoch, info = 0, INFO

    def __init__(self) -> None:
        self.well = True

    def next(self) -> None:
        """Ends the epoch, and breaks."""
        self.well = False

    def state(self) -> State:
        """An empty one."""
        return STATE

    def rows_per_epoch(self) -> int | None:
        """Not known."""
        return None

    batches = rows_per_epoch

    def stats(self) -> SessionStats:
        """Fails once it is broken."""
        if not self.well:
            raise errors.Error("no figures")
        return SessionStats(workers=2, streams=4, failovers=1, hedges=3)


def test_followers_know_how_the_fleet_is() -> None:
    channel = cast("Any", Told())
    leader = _replica.Leader(channel, lambda: cast("Any", Ailing()))
    assert _replica.Follower(channel).stats() == leader.stats()


def test_followers_hear_of_whatever_fails() -> None:
    channel = Told()
    leader = _replica.Leader(cast("Any", channel), lambda: cast("Any", Ailing()))
    with pytest.raises(errors.Error, match="no figures"):
        leader.next()
    assert [facts["kind"] for facts in channel.sent] == ["opened", "failed"]
    assert channel.sent[-1]["text"] == "no figures"


class Counting:
    """A reader that knows other numbers of rows and batches whenever it is asked, and whose figures are interrupted."""

    epoch, info = 0, INFO

    def __init__(self) -> None:
        numbers = itertools.count()
        self.rows_per_epoch = self.batches = lambda: next(numbers)
        self.reads = [Read(Flat.of(test_batch.record()), 0, n, lambda: STATE) for n in (1, 2)]
        self.interrupts = [False]

    def next(self) -> Read | None:
        """The next of them."""
        return self.reads.pop(0) if self.reads else None

    def state(self) -> State:
        """An empty one."""
        return STATE

    def stats(self) -> SessionStats:
        """None, once in a while."""
        if self.interrupts.pop(0):
            raise KeyboardInterrupt
        return SessionStats()


def test_a_leader_knows_no_more_than_its_followers() -> None:
    """Their loops end together if they count batches."""
    channel, reader = cast("Any", Told()), Counting()
    reader.interrupts *= 3
    leader = _replica.Leader(channel, lambda: cast("Any", reader))
    follower = _replica.Follower(channel)
    for _ in range(2):
        assert (leader.rows_per_epoch(), leader.batches()) == (follower.rows_per_epoch(), follower.batches())
        leader.next()
        read = follower.next()
        assert read is not None
        test_batch.check(test_batch.batch(read.tensors), 0)


def test_a_batch_that_a_leader_was_interrupted_with_comes_again() -> None:
    channel, reader = Told(), Counting()
    reader.interrupts += [True, False, True, False, True, False]
    leader = _replica.Leader(cast("Any", channel), lambda: cast("Any", reader))
    rows = []
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            leader.next()
        read = leader.next()
        rows.append(read and read.valid)
    assert rows == [1, 2, None]
    assert [facts["kind"] for facts in channel.sent] == ["opened", *["failed", "rows"] * 2, "failed", "end"]


def test_a_loader_of_one_rank_asks_no_other(fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    """Rank 0 validates alone, then each rank reads all rows."""
    fleet.start(workers=1)
    code = """
    dist.init_process_group("gloo")
    read = []
    if RANK == 0:
        with loader(rank=0, world_size=1) as validation:
            read += places(validation)
    dist.barrier()
    with loader(rank=0, world_size=1) as every:
        read += places(every)
    found(read)
    """
    ranks = jobs.run(code, 2, tmp_path, {"master": fleet.master, "uri": dataset.uri})
    for passes, read in zip((2, 1), ranks, strict=True):
        assert Counter(map(tuple, read)) == Counter([*dataset.places()] * passes)


def test_ranks_of_torch_distributed(fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    fleet.start(workers=2)
    code = """
    dist.init_process_group("gloo")
    with loader() as train:
        read = []
        for batch in train:
            read += places([batch])
            if len(read) == 2000:
                dist.barrier()  # so that no rank reads all
    found([train.stats().rows, read])
    """
    ranks = jobs.run(code, 2, tmp_path, {"master": fleet.master, "uri": dataset.uri}, run_id="job-1")
    assert Counter(tuple(place) for _, read in ranks for place in read) == Counter(dataset.places())
    assert all(rows == len(read) for rows, read in ranks)


def test_ranks_of_a_replica_get_the_same_batches(fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    """Two replicas of two ranks. States are the same on both, and resume them; what follows is broadcast, too."""
    fleet.start(workers=2)
    code = (
        MESH
        + """
    import hashlib
    def digest(batch):
        arrays = [batch.dense, batch.label, *(a for f in batch.sparse.values() for a in (f.values, f.offsets))]
        return hashlib.sha256(b"".join(a.numpy().tobytes() for a in arrays)).hexdigest()
    with loader(epochs=2, ranks=penstock.Ranks(mesh=mesh)) as train:
        batches = iter(train)
        first = [next(batches) for _ in range(4)]
        state = train.state_dict(after=first[1])
        ends = [train.epoch]
        dist.barrier()  # states are of one step: no rank has left
        train.load_state_dict(state)
        rest = list(train)
        ends.append(train.epoch)
        second = list(train)
        stats = train.stats()
        read = first[:2] + rest
        found([places(read), [digest(b) for b in read], places(second), state, ends, [b.epoch for b in second],
               [stats.rows, stats.workers], hasattr(train._reading.stream.reader, "_session")])
    """
    )
    given = {"master": fleet.master, "uri": dataset.uri}
    ranks = jobs.run(code, 4, tmp_path, given)
    for a, b in ((0, 1), (2, 3)):
        assert ranks[a][:6] == ranks[b][:6], "the same for both ranks of a replica"
    assert [state["rank"] for _, _, _, state, *_ in ranks] == [0, 0, 1, 1]
    assert [rank[4] for rank in ranks] == [[0, 1]] * 4
    for part in (0, 2):
        read = [tuple(place) for rank in (ranks[0], ranks[2]) for place in rank[part]]
        assert Counter(read) == Counter(dataset.places())
    assert [rank[6][1] for rank in ranks] == [2] * 4, "followers know the fleet, too"
    assert ranks[0][6][0] == ranks[1][6][0]


def test_errors_reach_all_ranks_of_a_replica(fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    fleet.start(workers=1)
    code = (
        MESH
        + """
    from penstock import errors
    said = []
    for options in ({"features": penstock.dense("nothing")}, {}):
        with loader(ranks=penstock.Ranks(mesh=mesh), name=f"loader-{len(said)}", **options) as train:
            try:
                for i, batch in enumerate(train):
                    if i == 1 and hasattr(train._reading.stream.reader, "_reader"):
                        train._reading.stream.reader._reader._session.close()
            except errors.Error as err:
                said.append([type(err).__name__, str(err)])
    found(said)
    """
    )
    ranks = jobs.run(code, 4, tmp_path, {"master": fleet.master, "uri": dataset.uri})
    for said in ranks:
        assert [name for name, _ in said] == ["SpecError", "Closed"]
        assert "nothing" in said[0][1]


def test_ranks_of_meshes_and_groups(tmp_path: Path) -> None:
    code = """
    from torch.distributed.device_mesh import init_device_mesh
    from penstock import errors, _replica
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("tp", "pp"))
    try:
        _replica.place(None, None, None, mesh)
    except errors.UsageError as err:
        said = [str(err)]
    alone = dist.new_group([0])
    for wrong in ((alone, None), (None, 3)):
        try:
            said.append(_replica.place(None, None, *wrong).rank)
        except errors.UsageError as err:
            said.append(str(err))
    world = _replica.World(dist)
    square = init_device_mesh("cpu", (1, 2), mesh_dim_names=("data", "tp"))
    places = [
        _replica.with_members(_replica.place(None, None, *given), world)
        for given in ((None, square), (None, square["data"]), (square["data"].get_group(), None))
    ]
    world.close()
    shared = [[at.rank, at.world_size, at.members] for at in places]
    hybrid = init_device_mesh("cpu", (1, 2, 1), mesh_dim_names=("dp_replicate", "dp_shard", "tp"))
    at = _replica.place(None, None, None, hybrid)
    found([said, at.rank, at.world_size, shared])
    """
    ranks = jobs.run(code, 2, tmp_path, {})
    assert [rank[1:3] for rank in ranks] == [[0, 2], [1, 2]]
    assert [rank[3] for rank in ranks] == [[[0, 1, [0, 1]]] * 3] * 2
    for rank, [_, process_group, mesh] in enumerate(said for said, *_ in ranks):
        assert process_group == 0 if rank == 0 else "not in process_group=" in process_group
        assert "DeviceMesh" in mesh
    assert all("('tp', 'pp')" in said[0] for said, *_ in ranks)
