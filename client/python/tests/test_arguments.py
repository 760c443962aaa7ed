from __future__ import annotations

import copy
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


@pytest.mark.pure
def test_attributes_of_torchs_loader_say_what_to_do_and_are_not_there() -> None:
    loader = penstock.DataLoader("/data", features=penstock.dense("a"), batch_size=1)
    with pytest.raises(AttributeError, match=r"no attribute 'dataset': len\(loader\) .* `penstock show URI`"):
        len(loader.dataset)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"no attribute 'sampler': shuffle=True"):
        _ = loader.sampler  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"no attribute 'epohc'$"):
        _ = loader.epohc  # type: ignore[attr-defined]
    assert not any(hasattr(loader, name) for name in ("dataset", "sampler", "num_workers", "__getitem__"))
    assert repr(copy.copy(loader)) == repr(loader)
