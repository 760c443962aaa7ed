"""Bad input and missing hops: the right exception, at once, with the words of who said it."""

from __future__ import annotations

import dataclasses
import gzip
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest

from penstock import _opening, errors
from penstock._session import Config, Security, Session, feeder
from penstock._session.failures import refused_shard
from penstock.groups import Connection
from tests.session_cases import all_places, configure, name, read_epoch, spec, threads

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from penstock.monitor import Event
    from tests.conftest import Dataset, Fleet


def test_spec_mistakes_are_listed(shared_fleet: Fleet, dataset: Dataset) -> None:
    text = spec(dataset).replace('"int_*", layout', '"innt_*", layout').replace("label, layout", "labl, layout")
    with pytest.raises(errors.SpecError) as caught:
        Session(configure(shared_fleet, text))
    assert "innt_*" in str(caught.value)
    assert "labl" in str(caught.value)
    assert not threads()


def test_session_of_another_spec(shared_fleet: Fleet, dataset: Dataset) -> None:
    config = configure(shared_fleet, spec(dataset))
    with Session(config), pytest.raises(errors.SessionMismatch, match="batch_size: 1000 and 500"):
        Session(dataclasses.replace(config, spec_text=spec(dataset, batch_size=500)))


def test_session_that_does_not_exist(shared_fleet: Fleet) -> None:
    with pytest.raises(errors.UsageError, match=r"does not exist.*give a spec"):
        Session(configure(shared_fleet, ""))


def test_deleted_session_fails(shared_fleet: Fleet, dataset: Dataset) -> None:
    config = configure(shared_fleet, spec(dataset, batch_size=10), world_size=2)
    with Session(config) as session:
        read_epoch(session, 1)
        delete = [str(shared_fleet.binary), "session", "delete", config.session, "--master", shared_fleet.master]
        subprocess.run(delete, check=True, capture_output=True)
        with pytest.raises(errors.SessionFailed, match="does not exist"):
            read_epoch(session)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def test_no_master(dataset: Dataset) -> None:
    masters = tuple(f"127.0.0.1:{free_port()}" for _ in range(2))
    with pytest.raises(errors.MasterUnreachable) as caught:
        Session(Config(masters, "s", spec_text=spec(dataset), connect_timeout=1.0))
    for m in masters:
        assert f"open at master {m}: " in str(caught.value)
    assert f"penstock doctor --master {','.join(masters)}" in str(caught.value)


def test_storage_that_does_not_answer(fleet: Fleet, dataset: Dataset, caplog: pytest.LogCaptureFixture) -> None:
    """Is no master that does not."""
    profiles = fleet.dir / "storage.yaml"
    profiles.write_text(
        f"profiles: {{default: {{endpoint: 'http://127.0.0.1:{free_port()}', credentials: anonymous}}}}\n"
        "retry: {attempts: 1}\n"
    )
    fleet.start(workers=0, master_flags=[f"--storage-config={profiles}"])
    text = spec(dataset).replace(dataset.uri, "s3://bucket/data/")
    with pytest.raises(errors.SessionFailed) as caught:
        Session(configure(fleet, text, connect_timeout=0.5))
    for words in ("list s3://bucket/data/: ", "connection refused", "the master answered", "see that storage answers"):
        assert words in str(caught.value)
    assert "no master" not in str(caught.value) + caplog.text
    assert "the master cannot open the session yet; trying on" in caplog.text


def test_small_files_that_are_damaged(shared_fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    damaged = bytearray(gzip.compress(b'{"label": 1}\n' * 1000))
    damaged[len(damaged) // 2] ^= 0xFF
    (tmp_path / "one.jsonl.gz").write_bytes(damaged)
    with pytest.raises(errors.DataError, match=r"one\.jsonl\.gz(.|\n)*mend the file, or leave it out"):
        Session(configure(shared_fleet, spec(dataset).replace(dataset.uri, f"file://{tmp_path}/")))


def test_waiting_for_a_master_is_told_now_and_then(dataset: Dataset, caplog: pytest.LogCaptureFixture) -> None:
    config = Config((f"127.0.0.1:{free_port()}",), "s", spec_text=spec(dataset), connect_timeout=1.5)
    with pytest.raises(errors.MasterUnreachable):
        Session(config)
    assert caplog.text.count("no master answers; trying on") == 1


def test_token(fleet: Fleet, dataset: Dataset) -> None:
    fleet.start(workers=1, token="open-sesame")
    text = spec(dataset)
    for security, why in [(Security(), "bears no token"), (Security(token="wrong"), "is not one that this port knows")]:
        with pytest.raises(errors.PermissionDenied, match=why) as caught:
            Session(configure(fleet, text, security=security))
        assert "wrong" not in str(caught.value)
    with Session(configure(fleet, text, security=Security(token="open-sesame"))) as session:
        assert sum(b.record.num_rows for b in read_epoch(session)) == dataset.rows


def test_a_session_lies_in_the_namespace_that_is_asked_for(fleet: Fleet, dataset: Dataset) -> None:
    fleet.start(workers=1, token="open-sesame")
    default, vision = Security(token="open-sesame"), Security(token="open-sesame", namespace="vision")
    config = configure(fleet, spec(dataset), security=vision)
    with Session(config) as session:
        assert sum(b.record.num_rows for b in read_epoch(session)) == dataset.rows
    with pytest.raises(errors.UsageError, match="does not exist"):
        Session(dataclasses.replace(config, spec_text="", security=default))


def test_secrets_do_not_print() -> None:
    assert "sesame" not in repr(Config(("m:1",), "s", security=Security(token="open-sesame")))


def test_token_in_clear_stays_here() -> None:
    with pytest.raises(errors.UsageError, match=r"TLS only.* set penstock\.Connection\(ca=\.\.\.\) or ") as caught:
        Session(Config(("10.0.0.1:1",), "s", security=Security(token="open-sesame")))
    assert "sesame" not in str(caught.value)


def test_all_mistakes_of_a_config() -> None:
    with pytest.raises(errors.UsageError) as caught:
        Session(Config((), "", rank=3, world_size=2, budget=0))
    for word in ("masters is empty", "session is empty", "rank 3", "budget is 0"):
        assert word in str(caught.value)


def test_an_address_where_no_worker_is(fleet: Fleet, dataset: Dataset) -> None:
    """A worker that advertises another server's port; or a proxy answers for it."""
    fleet.start(workers=0)
    fleet.add_worker(f"--advertise={fleet.master}")
    session = Session(configure(fleet, spec(dataset)))
    with session, pytest.raises(errors.WorkersUnreachable) as caught:
        read_epoch(session)
    assert f"what answers at {fleet.master} is no Penstock worker, or one of another release" in str(caught.value)
    for word in ("not implemented", "--advertise", "penstock doctor", "part-00"):
        assert word in str(caught.value)


@pytest.mark.pure
@pytest.mark.parametrize(
    ("refusal", "kind", "step"),
    [
        (("Unimplemented", True), errors.WorkersUnreachable, "--advertise"),
        (("Unimplemented", False), errors.DataError, "the same release"),
        (("DataLoss", False), errors.DataError, "mend or leave out"),
        (("Unauthenticated", False), errors.PermissionDenied, "token="),
    ],
)
def test_what_a_refusal_means(refusal: tuple[str, bool], kind: type[errors.Error], step: str) -> None:
    code, stranger = refusal
    said: dict[str, Any] = {"words": "row group 3", "code": code, "address": "h:1", "stranger": stranger}
    refused = refused_shard(Config(("m:1",), "s"), {**said, "shard": "0/1/2/0+0", "file": "f.parquet"})
    assert type(refused) is kind
    assert "row group 3" in str(refused)
    assert step in str(refused)


@pytest.mark.pure
def test_workers_that_cannot_run_functions_need_another_interpreter_not_another_release() -> None:
    words = "this worker cannot run the session's Python functions: ModuleNotFoundError: No module named 'a'"
    said: dict[str, Any] = {
        "words": words,
        "code": "Unimplemented",
        "address": "h:1",
        "shard": "0",
        "file": "f.parquet",
    }
    refused = refused_shard(Config(("m:1",), "s"), said)
    assert isinstance(refused, errors.DataError)
    assert str(refused).endswith("need an interpreter (--python) that has what these import")


def broken(dataset: Dataset, folder: Path) -> str:
    """A spec of the dataset's copy, in which column chunks of part-003 cannot be read."""
    folder.mkdir()
    for path in sorted(dataset.dir.iterdir()):
        (folder / path.name).write_bytes(path.read_bytes())
    victim = folder / "part-003.parquet"
    content = bytearray(victim.read_bytes())
    content[4:20_000] = b"\xff" * (20_000 - 4)
    victim.write_bytes(content)
    return spec(dataset).replace(str(dataset.dir), str(folder))


def test_broken_row_groups_are_left_out(fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    """Exactly what the events name is missing, and states know of it."""
    text = broken(dataset, tmp_path / "broken") + "on_error: {skip: 100}\n"
    events: list[Event] = []
    fleet.start(workers=2)
    with Session(configure(fleet, text, on_event=events.append)) as session:
        got = all_places(read_epoch(session))
    skipped = [e.metadata for e in events if e.type == "penstock.rows_skipped"]
    lost: set[int] = set()
    for about in skipped:
        first, rows = about["first_row"], about["rows"]
        assert str(about["file"]).endswith("part-003.parquet")
        assert "column " in str(about["cause"])
        assert isinstance(first, int)
        assert isinstance(rows, int)
        lost.update(range(first, first + rows))
    assert got == sorted(p for p in dataset.places() if p[0] != 3 or p[1] not in lost)
    assert lost
    assert len({about["row_group"] for about in skipped}) == len(skipped)


def test_broken_file_is_named(fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    """A column chunk that cannot be read: every worker refuses the shard, in words that reach the loop."""
    text = broken(dataset, tmp_path / "broken")
    fleet.start(workers=1)
    with Session(configure(fleet, text)) as session:
        with pytest.raises(errors.DataError) as caught:
            read_epoch(session)
        assert "part-003.parquet" in str(caught.value)
        assert "worker-1" in str(caught.value)
        with pytest.raises(errors.DataError):
            session.next()


def test_listener_that_fails_ends_nothing(
    shared_fleet: Fleet, dataset: Dataset, caplog: pytest.LogCaptureFixture
) -> None:
    def listen(event: Event) -> None:
        raise ValueError("a broken sink")

    with Session(configure(shared_fleet, spec(dataset), on_event=listen)) as session:
        assert sum(b.record.num_rows for b in read_epoch(session)) == dataset.rows
    assert "a broken sink" in caplog.text


def test_a_listener_that_asks_and_closes(shared_fleet: Fleet, dataset: Dataset) -> None:
    """It is called while the session receives."""
    states = []

    def listen(event: Event) -> None:
        if event.type == "penstock.rows_dropped":
            states.append(session.state())
            session.close()

    text = spec(dataset, batch_size=4000, last_batch="drop", epochs=2)
    session = Session(configure(shared_fleet, text, on_event=listen))
    batches = read_epoch(session, 4)
    with pytest.raises(errors.Closed):
        read_epoch(session)
    session.close()
    assert [s.rows for s in states] == [sum(b.valid for b in batches)]


def test_restore_of_another_dataset_is_refused(shared_fleet: Fleet, dataset: Dataset, tmp_path: Path) -> None:
    with Session(configure(shared_fleet, spec(dataset))) as first:
        read_epoch(first, 2)
        state = first.state()
    (tmp_path / "part-000.parquet").write_bytes((dataset.dir / "part-000.parquet").read_bytes())
    other = spec(dataset).replace(dataset.uri, f"file://{tmp_path}/")
    config = configure(shared_fleet, other, session=name(), restore=(state,), differences=lambda s: [str(s["uri"])])
    with pytest.raises(
        errors.RestoreRefused, match=f"(?s)differ: file://{tmp_path}/\n.*another version of the dataset"
    ):
        Session(config)


def address_elsewhere() -> str:
    """One of this machine that is not loopback's, for which proxies count."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            pytest.skip("this machine has no address but loopback's")
        address: str = s.getsockname()[0]
        return address


def test_a_proxy_of_the_environment_is_for_other_traffic(
    fleet: Fleet, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All connections to the fleet are direct, those to masters as those to workers; one that fails names the proxy."""
    for name_ in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name_, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setattr(feeder, "_process", None)  # it has an environment of its own
    here = address_elsewhere()
    listen = [f"--listen={here}:0"]
    fleet.start(workers=1, master_flags=listen, worker_flags=listen)
    with Session(configure(fleet, spec(dataset))) as session:
        assert sum(b.record.num_rows for b in read_epoch(session)) == dataset.rows
    with pytest.raises(errors.MasterUnreachable, match=r"HTTPS_PROXY=http://127\.0\.0\.1:9 .* not used"):
        Session(Config((f"{here}:{free_port()}",), "s", spec_text=spec(dataset), connect_timeout=0.1))


@pytest.mark.pure
def test_files_of_security_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with pytest.raises(errors.UsageError, match=r"token_file: .*can read"):
        _opening.security(Connection(token_file=file), {})
    file.write_text("first\nolder\n")
    security = _opening.security(Connection(token_file=file), {})
    assert security.message()["token_file"] == str(file)
    assert "first" not in repr(security)
