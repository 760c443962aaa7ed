from __future__ import annotations

import copy
import dataclasses
import inspect
import re
from typing import Any

import pytest

import penstock
from penstock import groups


@pytest.mark.pure
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"num_workers": 4}, ["'num_workers'", "leave it out", "workers=N"]),
        ({"drop_last": True, "collate_fn": list}, ["'drop_last'", 'last_batch="drop"', "'collate_fn'", "map=f"]),
        ({"batchsize": 2}, ["'batchsize'", "did you mean batch_size=?"]),
        ({"zzz": 2}, ["'zzz'", "help(penstock.DataLoader)"]),
        ({"partition": "day = 1"}, ["'partition'", "did you mean data=penstock.Data(partitions=...)?"]),
        (
            {"tls_cert": "a", "lanes": 2, "tls_key": "b"},
            [
                "no arguments 'tls_cert', 'tls_key': give connection=penstock.Connection(cert=..., key=...)",
                "no argument 'lanes': give data=penstock.Data(lanes=...)",
            ],
        ),
    ],
)
def test_an_argument_that_is_not_known_names_what_to_do(given: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(TypeError) as raised:
        penstock.DataLoader("data/", **given)
    for word in words:
        assert word in str(raised.value)


MOVED = {
    "partitions": "data=penstock.Data(partitions=...)",
    "storage": "data=penstock.Data(storage=...)",
    "global_batch_size": "data=penstock.Data(global_batch_size=...)",
    "lanes": "data=penstock.Data(lanes=...)",
    "provenance": "data=penstock.Data(provenance=...)",
    "on_error": "data=penstock.Data(on_error=...)",
    "file_format": "data=penstock.Data(file_format=...)",
    "accept_code_change": "data=penstock.Data(accept_code_change=...)",
    "try_functions": "data=penstock.Data(try_functions=...)",
    "process_group": "ranks=penstock.Ranks(process_group=...)",
    "mesh": "ranks=penstock.Ranks(mesh=...)",
    "share": "ranks=penstock.Ranks(share=...)",
    "join_timeout": "ranks=penstock.Ranks(join_timeout=...)",
    "token": "connection=penstock.Connection(token=...)",
    "token_file": "connection=penstock.Connection(token_file=...)",
    "tls": "connection=penstock.Connection(tls=...)",
    "tls_ca": "connection=penstock.Connection(ca=...)",
    "tls_cert": "connection=penstock.Connection(cert=...)",
    "tls_key": "connection=penstock.Connection(key=...)",
    "tls_server_name": "connection=penstock.Connection(server_name=...)",
    "namespace": "connection=penstock.Connection(namespace=...)",
    "zone": "connection=penstock.Connection(zone=...)",
    "compression": "connection=penstock.Connection(compression=...)",
    "connect_timeout": "connection=penstock.Connection(connect_timeout=...)",
    "memory": "connection=penstock.Connection(memory=...)",
}


@pytest.mark.pure
@pytest.mark.parametrize("name", MOVED)
def test_an_argument_that_moved_to_a_group_says_what_to_write(name: str) -> None:
    given: dict[str, Any] = {name: "sesame"}
    with pytest.raises(TypeError) as raised:
        penstock.DataLoader("data/", **given)
    assert str(raised.value) == f"DataLoader() has no argument {name!r}: give {MOVED[name]}"
    argument, _, written = MOVED[name].partition("=penstock.")
    group, field = re.findall(r"\w+", written)
    assert field in {f.name for f in dataclasses.fields(getattr(penstock, group))}
    assert argument in inspect.signature(penstock.DataLoader).parameters


@pytest.mark.pure
def test_every_field_is_known_as_an_argument() -> None:
    fields = {f.name for kind in groups.GROUPS.values() for f in dataclasses.fields(kind)}
    assert fields == {written.split("(")[1].partition("=")[0] for written in MOVED.values()}
    assert not fields & set(inspect.signature(penstock.DataLoader).parameters)


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
