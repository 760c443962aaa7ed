from __future__ import annotations

from typing import Any

import pytest

import penstock


@pytest.mark.pure
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"num_workers": 4}, ["'num_workers'", "leave it out", "workers=N"]),
        ({"drop_last": True, "collate_fn": list}, ["'drop_last'", 'last_batch="drop"', "'collate_fn'", "map=f"]),
        ({"batchsize": 2}, ["'batchsize'", "did you mean batch_size=?"]),
        ({"zzz": 2}, ["'zzz'", "help(penstock.DataLoader)"]),
    ],
)
def test_an_argument_that_is_not_known_names_what_to_do(given: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(TypeError) as raised:
        penstock.DataLoader("data/", **given)
    for word in words:
        assert word in str(raised.value)
