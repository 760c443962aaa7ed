"""What a loader says of where it stands, and of epochs that it cannot read: none is left, or it was read before."""

from __future__ import annotations

import json

from penstock._opening import Opening
from penstock._reading import ANEW, Reading


def shown(reads: str, opening: Opening, reading: Reading | None, unread: str) -> str:
    """A loader's representation. unread: what there is in place of a reading."""
    spec = json.loads(opening.spec or "{}")
    size, ending = spec.get("batch_size"), str(spec.get("last_batch") or "").lower()
    rows = f"global_batch_size={spec['global_batch_size']}" if "global_batch_size" in spec else f"batch_size={size}"
    where = unread
    if reading is not None:
        info, at = reading.stream.reader.info, reading.stream.place
        rows, ending = f"batch_size={info.batch_size}", info.last_batch
        read = f"{reading.number} batch{'' if reading.number == 1 else 'es'} read"
        epoch = "all epochs read" if reading.over else f"in epoch {reading.epoch}"
        where = f"session {reading.stream.session!r}, rank {at.rank} of {at.world_size}: {epoch}, {read}"
    how = "" if size is None and rows.endswith("None") else f", {rows}"
    how += f", last_batch={ending!r}" if ending else ""
    return f"penstock.DataLoader({reads}{how}; {where})"


def no_more(opening: Opening, reason: str, epochs: int) -> str:
    """Why there is no epoch to read, and how to get more."""
    passes = "1 epoch" if epochs == 1 else f"{epochs} epochs"
    how = "DataLoader(..., epochs=N)" if opening.spec is not None else '"epochs: N" in its spec'
    session = opening.given_session
    if session is None:
        return f"the loader was made for {passes}, and {reason}; for N passes make it with {how}"
    return (
        f"the session {session!r} was made for {passes}, and {reason}; to read again, give the job another run id, "
        f"or the loader another session=, and for N passes {how}"
    )


def no_way_back(reading: Reading, epoch: int) -> str:
    """Why an epoch cannot be read again, and what can be done."""
    if epoch < reading.earlier:
        return (
            f"set_epoch({epoch}): an earlier start under the session id {reading.stream.session!r} has read the "
            f"epochs before {reading.earlier}; {ANEW}; to go on, count epochs from loader.epoch"
        )
    return (
        f"set_epoch({epoch}): epoch {reading.epoch} is the next one, and earlier ones can be read again only "
        "from a state; count epochs from loader.epoch"
    )
