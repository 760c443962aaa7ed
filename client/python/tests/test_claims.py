"""Of several loaders of a session in one process, the newest reads on where the one before it ended."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pytest

import penstock
from penstock import errors
from penstock._claims import Claim, _newest
from penstock._session import session as session_module
from tests.session_cases import name
from tests.test_loader import make, places, take

if TYPE_CHECKING:
    from tests.conftest import Dataset, Fleet


class Fencing:
    """A session that notes why it was fenced."""

    def __init__(self) -> None:
        self.why: list[errors.Fenced] = []

    def fence(self, why: errors.Fenced) -> None:
        self.why.append(why)


def test_the_newest_claim_counts() -> None:
    sessions = [Fencing() for _ in range(4)]
    claims = [Claim("run/train", 0) for _ in sessions[:1]]
    claims[0].reads(cast("Any", sessions[0]))
    other = Claim("run/train", 1)
    claims.append(Claim("run/train", 0))
    assert [len(s.why) for s in sessions] == [1, 0, 0, 0]
    assert "name=" in str(sessions[0].why[0])
    claims.append(Claim("run/train", 0))  # before the one before it has opened its session
    with pytest.raises(errors.Fenced, match="newer loader"):
        claims[1].reads(cast("Any", sessions[1]))
    assert [len(s.why) for s in sessions] == [1, 1, 0, 0]
    claims[2].reads(cast("Any", sessions[2]))
    claims[1].close()  # which has no right any more
    claims.append(Claim("run/train", 0))
    assert len(sessions[2].why) == 1
    for claim in [*claims, other]:
        claim.close()
    assert not [of for of in _newest if of[1] == "run/train"]


def bound_anew(fleet: Fleet, data: Dataset, keep: bool) -> tuple[list[Any], list[penstock.DataLoader]]:
    """The rows of several loaders of one session, each broken out of and bound anew; and those that are still held."""
    session, got, kept = name(), [], []
    for _ in range(6):
        loader = make(fleet, data, session=session, batch_size=100, on_break="resume")
        got += list(itertools.islice(loader, 3))
        if keep:
            kept.append(loader)
    got += list(loader)
    loader.close()
    return got, kept[:-1]


@pytest.mark.parametrize("keep", [False, True])
def test_a_loader_that_is_bound_anew_goes_on(shared_fleet: Fleet, dataset: Dataset, keep: bool) -> None:
    got, kept = bound_anew(shared_fleet, dataset, keep)
    assert Counter(places(got)) == Counter(dataset.places())
    for older in kept:
        with pytest.raises(errors.Fenced, match="newer loader of this process"):
            next(iter(older))
        older.close()


def test_a_batch_that_an_interrupted_loop_did_not_get_comes_to_the_newer_one(
    shared_fleet: Fleet, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    session = name()
    older = make(shared_fleet, dataset, session=session, batch_size=100)
    batches = iter(older)
    got = [next(batches) for _ in range(3)]
    with monkeypatch.context() as m:
        m.setattr(session_module, "parts", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(batches)
    with make(shared_fleet, dataset, session=session, batch_size=100) as newer:
        got += list(newer)
    assert Counter(places(got)) == Counter(dataset.places())
    older.close()


def test_a_loop_in_another_thread_is_fenced(shared_fleet: Fleet, dataset: Dataset) -> None:
    """What it got, and what the newer one gets, are all rows."""
    session = name()
    older = make(shared_fleet, dataset, session=session, batch_size=20, on_break="resume")
    got: list[Any] = take(older, 1)
    begun, failure = threading.Event(), []

    def read() -> None:
        try:
            for batch in older:
                got.append(batch)
                begun.set()
        except errors.Error as err:
            failure.append(err)

    thread = threading.Thread(target=read)
    thread.start()
    assert begun.wait(60)
    with make(shared_fleet, dataset, session=session, batch_size=20) as newer:
        rest = list(newer)
        thread.join(60)
    assert [type(err) for err in failure] in ([errors.Fenced], [])
    assert Counter(places([*got, *rest])) == Counter(dataset.places())
    older.close()
