"""What a loader asks masters while it reads."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest

from penstock import _reader
from penstock._pb import control_pb2 as pb
from penstock._pb import spec_pb2
from penstock._reader import SessionReader
from penstock._session import Config
from penstock._session.masters import MasterError


class Asking:
    """A reader of a session, once a second by its own clock, and a master that is silent until it answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000
        self.asked: list[int] = []
        self.answers = False
        monkeypatch.setattr(SessionReader, "_planned_rows", lambda reader: self._planned())
        monkeypatch.setattr(_reader, "time", SimpleNamespace(monotonic=lambda: self.now))
        session = SimpleNamespace(state=pb.State, info=pb.Session(world_size=1), program=spec_pb2.Program())
        self._reader = SessionReader(cast("Any", session), Config(masters=("127.0.0.1:1",), session="s"))

    def _planned(self) -> int:
        self.asked.append(self.now)
        if not self.answers:
            raise MasterError(["127.0.0.1:1: silence"], grpc.StatusCode.DEADLINE_EXCEEDED)
        return 8

    def rows(self) -> int | None:
        self.now += 1
        return self._reader.rows_per_epoch()


@pytest.mark.parametrize(
    ("begins", "known"),
    [
        (pb.State(), [8, 8]),
        (pb.State(consumed=[pb.Interval()]), [None, 8]),
        (pb.State(base=[pb.Interval()]), [None, 8]),
        (pb.State(handed=3), [None, 8]),  # all that a state in order deterministic says of it
    ],
)
def test_the_rows_of_an_epoch_are_counted_from_its_beginning_on(
    monkeypatch: pytest.MonkeyPatch, begins: pb.State, known: list[int | None]
) -> None:
    monkeypatch.setattr(SessionReader, "_planned_rows", lambda reader: None)
    rows = SimpleNamespace(tensors=None, epoch=0, valid=4, after=None, checkpoint=None)
    comes = iter([rows, rows, None] * 2)
    session = SimpleNamespace(
        state=lambda: begins, info=pb.Session(world_size=1), program=spec_pb2.Program(), next=lambda: next(comes)
    )
    reader = SessionReader(cast("Any", session), Config(masters=("127.0.0.1:1",), session="s"))
    found = []
    for _ in known:
        while reader.next() is not None:
            pass
        found.append(reader.rows_per_epoch())
    assert found == known


def test_masters_that_are_silent_are_asked_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    asking = Asking(monkeypatch)
    assert {asking.rows() for _ in range(600)} == {None}
    assert [b - a for a, b in itertools.pairwise(asking.asked)] == [2, 4, 8, 16, 32] + 8 * [60]
    asking.answers = True
    asking.asked.clear()
    assert {asking.rows() for _ in range(200)} == {None, 8}
    assert len(asking.asked) == 1  # who knows does not ask
