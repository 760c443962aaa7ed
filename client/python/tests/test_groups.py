"""Groups of arguments: checked where they are made, one for any number of loaders, and no token in sight."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import errors, groups
from penstock.loader import DataLoader

KINDS = list(groups.GROUPS.values())
OPTIONS: dict[str, Any] = {"features": penstock.dense("a"), "batch_size": 1, "master": "127.0.0.1:1"}

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("kind", "wrong", "says"),
    [
        (penstock.Data, {"partitions": 3}, "partitions: found 3; give text"),
        (penstock.Data, {"storage": 3}, "storage: found 3"),
        (penstock.Data, {"global_batch_size": 0}, "global_batch_size: found 0; give 1 or more"),
        (penstock.Data, {"lanes": 1.5}, "lanes: found 1.5; give an integer"),
        (penstock.Data, {"on_error": "skip"}, "on_error: found 'skip'"),
        (penstock.Data, {"on_error": {"skip": -1}}, "on_error: "),
        (penstock.Data, {"file_format": 3}, "file_format: found 3; give a name, or a dict such as "),
        (penstock.Data, {"file_format": {"name": 3}}, "file_format: name: found 3; give text"),
        (penstock.Data, {"file_format": {"columns": ["a"]}}, "file_format: columns: found .* give a dict such as "),
        (penstock.Data, {"file_format": {"columns": {"a": int}}}, "file_format: column a: found .*int.*; give text"),
        (penstock.Data, {"file_format": {"nulls": object()}}, "file_format: nulls: "),
        (penstock.Data, {"on_error": {"skip": 1, "more": 2}}, "on_error: "),
        (penstock.Data, {"on_error": {"skip_rows": True}}, "on_error: "),
        (penstock.Ranks, {"share": 0}, "share=0: give a weight above 0"),
        (penstock.Ranks, {"share": "most"}, "share='most'"),
        (penstock.Ranks, {"share": {"weight": 2, "workers": 3}}, "share={'weight': 2, 'workers': 3}"),
        (penstock.Ranks, {"share": {"min_workers": 3, "max_workers": 2}}, "max_workers is not below min_workers"),
        (penstock.Ranks, {"share": {"min_workers": -1}}, "share="),
        (penstock.Ranks, {"join_timeout": 0}, "join_timeout=0: give a number of seconds"),
        (penstock.Connection, {"connect_timeout": True}, "connect_timeout=True: give a number of seconds"),
        (penstock.Connection, {"compression": "gzip"}, "compression='gzip': give one of 'none', 'lz4', 'zstd'"),
        (penstock.Connection, {"memory": "1GiB"}, "memory='1GiB': give a number of bytes"),
        (penstock.Connection, {"memory": True}, "memory=True: give a number of bytes"),
        (penstock.Connection, {"zone": 3}, "zone=3: give text"),
        (penstock.Connection, {"ca": 3}, "ca=3: give a file's path"),
        (penstock.Connection, {"token": "sesame", "token_file": "t"}, "exclude each other"),
        (penstock.Connection, {"token": b"sesame"}, "token= is a bytes; give text, or .* as token_file="),
    ],
)
def test_values_that_cannot_be_are_refused_where_they_are_given(kind: Any, wrong: dict[str, Any], says: str) -> None:
    with pytest.raises((errors.UsageError, errors.SpecError), match=says) as raised:
        kind(**wrong)
    assert "sesame" not in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "wrong", "says"),
    [
        (penstock.Connection, "tls_ca", r"Connection\(\) has no field 'tls_ca': it is ca="),
        (penstock.Connection, "tokenfile", r"did you mean token_file=\?"),
        (penstock.Connection, "lanes", r"give data=penstock\.Data\(lanes=\.\.\.\)"),
        (penstock.Connection, "timeout", r"give timeout= to DataLoader\(\) itself"),
        (penstock.Data, "ca", r"give connection=penstock\.Connection\(ca=\.\.\.\)"),
        (penstock.Data, "order", r"Data\(\) has no field 'order': give order= to DataLoader\(\) itself"),
        (penstock.Ranks, "name", r"give name= to DataLoader\(\) itself"),
        (penstock.Ranks, "zzz", "its fields are process_group=, mesh=, share=, join_timeout="),
    ],
)
def test_fields_that_are_not_there_say_where_they_are(kind: Any, wrong: str, says: str) -> None:
    for make in (kind, lambda **given: dataclasses.replace(kind(), **given)):
        with pytest.raises(TypeError, match=says) as raised:
            make(**{wrong: "sesame"})
        assert "sesame" not in str(raised.value)


def test_fields_are_given_by_their_names() -> None:
    with pytest.raises(TypeError, match=r"Data\(\) takes fields by their names: partitions=, "):
        penstock.Data("day = 1")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"connection": {"token": "sesame", "tls_ca": "c"}},
            r"connection=penstock\.Connection\(token=\.\.\., ca=\.\.\.\)$",
        ),
        ({"connection": {}}, r"connection= is a dict: give connection=penstock\.Connection\(\.\.\.\)$"),
        (
            {"connection": {"ca": "c", "order": "x"}},
            r"\(ca=\.\.\.\)\nConnection\(\) has no field 'order': give order= to ",
        ),
        (
            {"data": penstock.Ranks()},
            r"data= is a Ranks: give data=penstock\.Data\(\.\.\.\), of partitions=, storage=, ",
        ),
        ({"ranks": penstock.Ranks}, r"ranks= is the class Ranks: give ranks=penstock\.Ranks\(\.\.\.\)"),
        ({"data": "day = 1"}, "data= is a str: "),
    ],
)
def test_what_is_no_group_says_how_to_make_one(given: dict[str, Any], says: str) -> None:
    with pytest.raises(errors.UsageError, match=says) as raised:
        DataLoader("/data", **OPTIONS, **given)
    assert "sesame" not in str(raised.value)


def test_one_group_serves_several_loaders(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sesame")
    connection = penstock.Connection(token_file=tmp_path / "token", zone="a")
    data = penstock.Data(provenance=True)
    for name in ("train", "validation"):
        DataLoader("/data", **OPTIONS, name=name, connection=connection, data=data)
    other = dataclasses.replace(connection, zone="b")
    assert (other.token_file, other.zone, connection.zone) == (connection.token_file, "b", "a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        connection.zone = "c"  # type: ignore[misc]


@pytest.mark.parametrize("kind", KINDS)
def test_none_is_the_default(kind: Any) -> None:
    assert kind() == kind(**{f.name: f.default for f in dataclasses.fields(kind)})
    assert kind() == kind(**dict.fromkeys(groups.fields(kind)))
    assert repr(kind()) == f"penstock.{kind.__name__}()"


def test_none_is_what_is_not_given() -> None:
    nothing: dict[str, Any] = dict.fromkeys(inspect.signature(DataLoader).parameters)
    given = {**nothing, **OPTIONS, "uri": "/data"}
    del given["unexpected"]
    loader, other = DataLoader("/data", **OPTIONS), DataLoader(**given)
    assert (loader._opening, loader._making, loader._leaves) == (other._opening, other._making, other._leaves)
    with pytest.raises(TypeError, match="no argument 'filters': did you mean filter="):
        DataLoader(**given, filters=nothing["filter"])
    of_fit: dict[str, Any] = {**dict.fromkeys(inspect.signature(penstock.fit).parameters), "uri": "/data"}
    with pytest.raises(errors.UsageError, match="fit: out= names the file to write"):
        penstock.fit(**of_fit)


def test_what_it_looks_like() -> None:
    assert repr(penstock.Data(lanes=8, on_error={"skip": 2})) == "penstock.Data(lanes=8, on_error={'skip': 2})"
    connection = penstock.Connection(token="sesame", ca="ca.pem", connect_timeout=60)
    assert repr(connection) == "penstock.Connection(token=..., ca='ca.pem', connect_timeout=60)"
    loader = DataLoader("/data", **OPTIONS, connection=dataclasses.replace(connection, ca=None))
    assert "sesame" not in f"{loader} {loader!r} {vars(loader)!r}"


def test_it_goes_to_other_processes() -> None:
    connection = penstock.Connection(token="sesame", compression="lz4")
    assert pickle.loads(pickle.dumps(connection)) == copy.deepcopy(connection) == connection
    assert pickle.loads(pickle.dumps(DataLoader("/data", **OPTIONS, connection=connection)))


def test_beside_a_spec_there_is_no_more_to_read() -> None:
    with pytest.raises(errors.UsageError, match=r"there is also penstock\.Data\(lanes=4\); give one of them"):
        DataLoader(spec="{}", data=penstock.Data(lanes=4))
    DataLoader(spec="{}", data=penstock.Data(), connection=penstock.Connection(zone="a"))


@pytest.mark.parametrize("kind", KINDS)
def test_help_has_every_field_and_what_its_default_is(kind: Any) -> None:
    text, fields = inspect.getdoc(kind) or "", list(groups.fields(kind))
    arguments = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    assert arguments and re.findall(r"^    (\w+): ", arguments[1], re.MULTILINE) == fields
    assert list(inspect.signature(kind).parameters) == fields
    assert all(p.default is not p.empty for p in inspect.signature(kind).parameters.values())


def test_the_environment_stands_in(tmp_path: Path) -> None:
    from penstock._opening import security

    for name in ("token", "ca", "other"):
        (tmp_path / name).write_text(name)
    environ = {
        "PENSTOCK_TOKEN_FILE": str(tmp_path / "token"), "PENSTOCK_TLS_CA": str(tmp_path / "ca"),
        "PENSTOCK_TLS_SERVER_NAME": "penstock",
    }  # fmt: skip
    found = security(penstock.Connection(), environ)
    assert (found.token_file, found.ca, found.server_name) == tuple(environ.values())
    given = penstock.Connection(token="sesame", ca=tmp_path / "other", server_name="mine")
    found = security(given, environ)
    assert (found.token, found.token_file, found.ca) == ("sesame", None, str(tmp_path / "other"))
    assert found.server_name == "mine"
