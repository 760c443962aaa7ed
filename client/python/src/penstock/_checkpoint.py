"""States as plain dictionaries, and which of them is the loop's where a framework reads ahead of it.

It stands between the loader and its reader. Everything belongs to the thread of the training loop, and is pure but for
calls of the functions that it was given, and for of_all_ranks().
"""

from __future__ import annotations

import base64
import binascii
import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock._replica import World, distributed
from penstock._session.state import State
from penstock.batch import Batch
from penstock.errors import UsageError
from penstock.position import Position

FORMAT = "penstock.state/1"
_MOST = 256  # batches between a framework's reading and the loop; positions hold a set of intervals each


def differences(fingerprints: Iterable[Mapping[str, Any]], here: Mapping[str, Any]) -> list[str]:
    """What a spec's fingerprint has otherwise than those of states, such as "seed: 1 and 2"."""
    found = {
        f"{part}: {there[part]!r} and {value!r}": None
        for there in fingerprints
        for part, value in here.items()
        if part in there and there[part] != value
    }
    return list(found)


def to_dict(state: State, batch_size: int, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A state that JSON, pickle and torch.save can hold. spec: its fingerprint.

    The other fields than `state` are for people, and for errors.
    """
    return {
        "format": FORMAT,
        "session": state.session,
        "rank": state.rank,
        "world_size": state.world_size,
        "epoch": state.epoch,
        "batch_size": batch_size,
        "spec": dict(spec),
        "state": state.data,
    }


def of_ranks(dicts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The states of all ranks as one."""
    return {"format": FORMAT, "ranks": sorted(dicts, key=lambda d: int(d["rank"]))}


def of_all_ranks(mine: dict[str, Any]) -> dict[str, Any]:
    """The states of all ranks, for a framework that saves those of rank 0. Collective."""
    dist = distributed()
    if dist is None or dist.get_world_size() == 1:
        return mine
    world = World(dist)
    try:
        by_rank = {int(state["rank"]): state for state in world.gather(mine)}
    finally:
        world.close()
    return of_ranks(list(by_rank.values()))


def flatten(given: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], bool]:
    """The dictionaries of single ranks, and whether they are those of all."""
    if isinstance(given, Mapping):
        return flatten([given["ranks"]]) if "ranks" in given else ([given], False)
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise UsageError(
            f"found {given!r:.80} in place of a loader's state; give what loader.state_dict() returned, or a list of "
            "what it returned on all ranks"
        )
    return [one for many in given for one in flatten(many)[0]], True


def from_dict(given: Mapping[str, Any]) -> State:
    """What to_dict() was given."""
    try:
        if given["format"] != FORMAT:
            raise UsageError(
                f"the state's format is {given['format']!r}, and this version of penstock reads {FORMAT!r}"
            )
        base64.b64decode(given["state"], validate=True)
        rank, world_size, epoch = (int(given[name]) for name in ("rank", "world_size", "epoch"))
        return State(given["state"], str(given["session"]), rank, world_size, epoch)
    except (KeyError, TypeError, ValueError, binascii.Error) as err:
        raise UsageError(
            f"this is not a loader's state ({type(err).__name__}: {err}); give what loader.state_dict() returned"
        ) from err


def position(of: Batch | Position, reading: object) -> Position:
    """A batch's position, which the loop's present reading must have given it."""
    at = of.position if isinstance(of, Batch) else of
    if not isinstance(at, Position):
        raise UsageError(f"found {type(of).__name__}; give a batch, or its position")
    if at._reading is not reading:
        raise UsageError(
            "the batch was read by another loader or process, or before load_state_dict(); use one "
            "that this loader read since, as it came from the loop"
        )
    return at


@dataclass(eq=False)
class _Open:
    """A batch that is not done."""

    position: Position
    kept: Any  # what is to be yielded again, unless the batch gets done; else None


class InFlight:
    """Batches that were yielded, and how far the loop has come with them."""

    def __init__(self, start: State) -> None:
        self._done: Callable[[], State] = lambda: start  # after what is done, and an epoch's end right after that
        self._newest = self._done  # after what was yielded, be it a batch or an epoch's end
        self._open: collections.deque[_Open] = collections.deque(maxlen=_MOST)
        self.follows = False  # the loop says which batches it is done with
        self.keeps = False  # batches are kept until they are done
        self._forgot = False  # batches that are older than all that are open, and perhaps not done

    def yielded(self, position: Position, item: Any, ahead: bool = False) -> None:
        """Notes a batch that the loop gets, who has what came before it; ahead: one that it does not get yet."""
        self._newest = position._state
        if self._open and self._open[-1].position.number == position.number:
            self._open.pop()  # it was noted before an interrupt
        self._forgot |= len(self._open) == _MOST
        self._got_all()
        self._open.append(_Open(position, item if self.keeps or ahead else None))

    def _got_all(self) -> None:
        """Notes that the loop has the newest batch, though it was read ahead."""
        if self._open and not self.keeps:
            self._open[-1].kept = None

    def ended(self, state: State) -> None:
        """Notes that the loop was told of an epoch's end: it has all that came before."""
        self._newest = lambda: state
        self._got_all()
        self._catch_up()

    def left(self, state: State) -> None:
        """Notes that the loop has left the epoch: what is kept of it is not yielded again."""
        kept = [each for each in self._open if each.kept is not None]
        for each in kept:
            self._open.remove(each)
        self._newest = lambda: state
        self._catch_up()

    def kept(self, epoch: int) -> int:
        """How many batches of an epoch are kept, to be yielded again."""
        return sum(each.kept is not None for each in self._open if each.position.epoch == epoch)

    def done(self, position: Position | None) -> None:
        """Notes that the loop has finished with a batch and those before it; with None, with the oldest."""
        self.follows = True
        if position is None:
            if not self._open:
                raise UsageError("done() without a batch, and none is in flight; call it once for each batch")
            if self._forgot:
                raise UsageError(
                    f"done() without a batch, and more than {_MOST} are in flight: give it the batch, or its position"
                )
            position = self._open[0].position
        while self._open and self._open[0].position.number <= position.number:
            self._done, self._forgot = self._open.popleft().position._state, False
        self._catch_up()

    def _catch_up(self) -> None:
        if not self._open:
            self._done = self._newest

    def keep(self) -> None:
        """Has batches kept until they are done."""
        self.keeps = self.follows = True

    def let_go(self) -> None:
        """Ends what keep() began: the loop gets what is kept again, and has it then."""
        if self.keeps:
            self.keeps = self.follows = False

    def undone(self) -> Iterator[tuple[Position, Any]]:
        """The batches that are kept and not done, to be yielded again."""
        for each in list(self._open):
            item = each.kept
            if item is not None and each in self._open:
                if not self.keeps:
                    each.kept = None
                yield each.position, item

    @property
    def keeps_undone(self) -> bool:
        """Whether there are any."""
        return any(each.kept is not None for each in self._open)

    def __bool__(self) -> bool:
        return bool(self._open)

    def state(self) -> State:
        """The loop's state: after the newest batch, or, once done() was called, after the newest that is done."""
        return self.at()()

    def at(self) -> Callable[[], State]:
        """What returns it, also later on."""
        if self.follows:
            return self._done
        at = self._done
        for each in self._open:
            if each.kept is not None:
                return at  # what is kept comes again
            at = each.position._state
        return self._newest
