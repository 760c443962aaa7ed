"""What a loader asks masters while it reads."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock import _reader, errors
from penstock._reader import SessionReader
from penstock._session import Info


def _info(**also: bool) -> Info:
    return Info.of({"batch_size": 4, "world_size": 1, "epochs": 9, "spec": {}, "counts": True, **also})


class Asking:
    """A reader of a session, once a second by its own clock, and a master that is silent until it answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000
        self.asked: list[int] = []
        self.answers = False
        monkeypatch.setattr(_reader, "time", SimpleNamespace(monotonic=lambda: self.now))
        session = SimpleNamespace(info=_info(), planned_rows=lambda patience: self._planned())
        self._reader = SessionReader(cast("Any", session))

    def _planned(self) -> int:
        self.asked.append(self.now)
        if not self.answers:
            raise errors.MasterUnreachable("127.0.0.1:1: silence")
        return 8

    def rows(self) -> int | None:
        self.now += 1
        return self._reader.rows_per_epoch()


@pytest.mark.parametrize(("begun", "known"), [(False, [8, 8]), (True, [None, 8])])
def test_the_rows_of_an_epoch_are_counted_from_its_beginning_on(begun: bool, known: list[int | None]) -> None:
    rows = SimpleNamespace(tensors=None, epoch=0, valid=4, after=None, checkpoint=None)
    comes = iter([rows, rows, None] * 2)
    session = SimpleNamespace(
        state=lambda after: None, info=_info(begun=begun), next=lambda: next(comes), planned_rows=lambda patience: None
    )
    reader = SessionReader(cast("Any", session))
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
