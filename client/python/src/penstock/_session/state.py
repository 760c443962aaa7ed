"""What a session is, and a rank's checkpoint of it, as the process that makes the batches tells them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.position import Checkpoint


@dataclass(frozen=True)
class State:
    """A rank's checkpoint. What is beside its data, the message State of api/pb/control.proto, tells what is in it."""

    data: str  # in base64
    session: str
    rank: int
    world_size: int
    epoch: int  # that the loop is in
    rows: int = 0  # that it has got of this session

    @classmethod
    def of(cls, message: Mapping[str, Any]) -> State:
        """Of an answer."""
        names = ("session", "rank", "world_size", "epoch", "rows")
        return cls(message["state"], *(message[name] for name in names))

    def message(self) -> dict[str, Any]:
        """What `of` reads."""
        return {
            "state": self.data, "session": self.session, "rank": self.rank, "world_size": self.world_size,
            "epoch": self.epoch, "rows": self.rows,
        }  # fmt: skip


@dataclass(frozen=True)
class Info:
    """A session as it was when this rank joined.

    drops: last batches. counts: all rows of the dataset come to this rank, and no op leaves one out or adds one.
    begun: some rows of the epoch that the loop began in were read before. spec: its fingerprint.
    """

    message: Mapping[str, Any]  # all of it, for other processes
    batch_size: int
    world_size: int
    epochs: int
    drops: bool
    counts: bool
    begun: bool
    spec: Mapping[str, Any]
    restored_from: Checkpoint | None

    @property
    def schema(self) -> pa.Schema:
        """The schema of all batches."""
        return pa.ipc.open_stream(base64.b64decode(self.message["schema"])).schema

    @property
    def last_batch(self) -> str:
        """What becomes of an epoch's last rows: "uneven", "drop" or "pad"."""
        text: str = self.message["last_batch"]
        return text

    @classmethod
    def of(cls, m: Mapping[str, Any]) -> Info:
        """Of an answer."""
        named = m.get("restored_from")
        return cls(
            m, m["batch_size"], m["world_size"], m["epochs"], m.get("drops", False), m.get("counts", False),
            m.get("begun", False), m["spec"], named and Checkpoint(named["name"], named["step"]),
        )  # fmt: skip
