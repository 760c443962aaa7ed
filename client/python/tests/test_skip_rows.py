"""Broken records are left out by themselves, in each order and with each ending."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import DataError, SpecError

pytestmark = [pytest.mark.fleet, pytest.mark.usefixtures("fleet_of_this_machine")]

ROWS, EVERY = 300, 20  # of which one is broken


@pytest.fixture
def lines(tmp_path: Path) -> str:
    """A folder of JSON lines of which some are cut."""
    for file in range(3):
        rows = [f'{{"id": {row}, "score": {row}.5}}' for row in range(file * 100, file * 100 + 100)]
        rows = [text[:-4] if row % EVERY == 7 else text for row, text in enumerate(rows)]
        (tmp_path / f"{file}.jsonl").write_text("\n".join(rows) + "\n")
    return str(tmp_path)


def ids(loader: Any) -> list[int]:
    """What a pass hands over."""
    return sorted(int(i) for batch in loader for i in batch.label[: batch.valid])


@pytest.mark.parametrize(
    "how",
    [
        {"last_batch": "uneven"},
        {"last_batch": "drop"},
        {"order": "deterministic", "lanes": 2},
        {"order": "deterministic", "lanes": 2, "last_batch": "drop"},
    ],
)
def test_broken_records_cost_their_rows(lines: str, how: dict[str, Any]) -> None:
    left = [row for row in range(ROWS) if row % EVERY != 7]  # 285, which batches of 3 divide
    lanes = how.pop("lanes", None)
    given: dict[str, Any] = {"features": penstock.label("score"), "batch_size": 5 if lanes is None else 6, **how}

    def data(most: int) -> penstock.Data:
        return penstock.Data(on_error={"skip_rows": most}, lanes=lanes)

    with penstock.DataLoader(lines, data=data(15), epochs=2, shuffle=True, **given) as loader:
        for _ in range(2):
            found = ids(loader)
            assert set(found) <= set(left) and len(found) == len(set(found))
            assert len(left) - len(found) < (12 if how.get("last_batch") == "drop" else 1)
    with (
        penstock.DataLoader(lines, data=data(14), epochs=1000, **given) as loader,
        pytest.raises(DataError, match=r"epoch \d+ has 15 bad rows or more"),
    ):
        list(map(ids, [loader] * 1000))  # steps that are known beforehand may end before the master hears of it


def test_what_counting_does_not_see_is_refused(lines: str) -> None:
    given: dict[str, Any] = {"features": penstock.label("id"), "batch_size": 5}
    for given["last_batch"], given["order"] in (("drop", "fast"), ("pad", "deterministic")):
        with (
            pytest.raises(SpecError, match="counting does not see null labels id; want fill_null before the label"),
            penstock.DataLoader(lines, data=penstock.Data(on_error={"skip_rows": 15}), **given) as loader,
        ):
            iter(loader)
