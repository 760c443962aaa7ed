"""The builders make the messages that the master takes, and there is one for each op that it knows."""

from __future__ import annotations

import inspect
import json
import math
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from penstock import spec
from penstock._paths import absolute
from penstock.errors import SpecError, UsageError
from penstock.features import Feature


def test_features_compose_in_order() -> None:
    features = (
        penstock.dense("int_*", "age", default=0)
        + penstock.sparse("cat_*", weights="scores", default=[1, 2])
        + penstock.label("label")
        + penstock.bytes_("country")
        + penstock.image("photo", shape=(2, 3, 1))
    )
    assert [f.message() for f in features] == [
        {"name": ["int_*", "age"], "layout": "DENSE", "weights": "", "shape": [], "default": {"int": 0}},
        {
            "name": ["cat_*"], "layout": "SPARSE", "weights": "scores", "shape": [],
            "default": {"ints": {"values": [1, 2]}},
        },
        {"name": ["label"], "layout": "LABEL", "weights": "", "shape": []},
        {"name": ["country"], "layout": "BYTES", "weights": "", "shape": []},
        {"name": ["photo"], "layout": "IMAGE", "weights": "", "shape": [2, 3, 1]},
    ]  # fmt: skip
    assert repr(penstock.dense("a") + penstock.label("b")) == "dense('a') + label('b')"


def test_features_of_one_shape() -> None:
    """What is the spec's default is left out."""
    features = (
        penstock.tensor("e", shape=768)
        + penstock.tensor("raw", shape=(np.int64(2), 3), dtype="bfloat16", default=0.5)
        + penstock.padded("items", length=np.int64(200))
        + penstock.padded("seen", length=4, side="right", value=-1, truncate="first", nulls="omit", default=[7])
        + penstock.padded("on", length=4, value=False)
        + penstock.sparse("ids", nulls="keep", value=-1)
        + penstock.sparse("ids", nulls="omit", value=None)
    )
    shared = {"weights": "", "shape": []}
    assert [f.message() for f in features] == [
        {"name": ["e"], "layout": "TENSOR", "weights": "", "shape": [768]},
        {
            "name": ["raw"], "layout": "TENSOR", "weights": "", "shape": [2, 3], "dtype": "BFLOAT16",
            "default": {"float": 0.5},
        },
        {"name": ["items"], "layout": "PADDED", **shared, "length": 200},
        {
            "name": ["seen"], "layout": "PADDED", **shared, "length": 4, "side": "RIGHT", "truncate": "FIRST",
            "nulls": "OMIT", "value": {"int": -1}, "default": {"ints": {"values": [7]}},
        },
        {"name": ["on"], "layout": "PADDED", **shared, "length": 4, "value": {"bool": False}},
        {"name": ["ids"], "layout": "SPARSE", **shared, "nulls": "KEEP", "value": {"int": -1}},
        {"name": ["ids"], "layout": "SPARSE", **shared},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (None, None), ("float16", "FLOAT16"), (np.float16, "FLOAT16"), (np.dtype("<u2"), "UINT16"), (bool, "BOOL"),
        ("<f8", "FLOAT64"),
    ],
)  # fmt: skip
def test_dtypes(dtype: Any, name: str | None) -> None:
    (feature,) = penstock.tensor("raw", shape=2, dtype=dtype)
    assert feature.message().get("dtype") == name


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: penstock.tensor("a", dtype=">f4"), "dtype: found '>f4'; give one of bool, int8"),
        (lambda: penstock.tensor("a", dtype="complex64"), "dtype: found 'complex64'"),
        (lambda: penstock.tensor("a", dtype=3), "dtype: found 3"),
        (lambda: penstock.tensor("a", shape="2"), "shape: found '2'; give an integer"),  # type: ignore[arg-type]
        (lambda: penstock.tensor("a", shape=(2, 0)), "shape: found 0; give 1 or more"),
        (lambda: penstock.padded("a", length=0), "length: found 0; give 1 or more"),
        (lambda: penstock.padded("a", length=2, side="top"), 'side: found \'top\'; give "left" or "right"'),
        (lambda: penstock.padded("a", length=2, truncate=1), "truncate: found 1"),  # type: ignore[arg-type]
        (lambda: penstock.padded("a", length=2, nulls="drop"), "nulls: found 'drop'"),
        (lambda: penstock.sparse("a", nulls=True), "nulls: found True"),  # type: ignore[arg-type]
    ],
)
def test_what_has_no_shape(build: Callable[[], Any], says: str) -> None:
    with pytest.raises(SpecError, match=f"^{says}"):
        build()


def test_composing_changes_no_operand() -> None:
    one, two = penstock.dense("a"), penstock.label("b")
    both = one + two
    assert (len(one), len(two), len(both)) == (1, 1, 2)
    with pytest.raises(TypeError):
        one + "b"  # type: ignore[operator]


@pytest.mark.parametrize("names", [(["a", "b"],), (("a", "b"),), ("a", ["b"]), (np.array(["a", "b"]),)])
def test_names_come_in_lists_too(names: Any) -> None:
    assert list(penstock.dense(*names)) == [Feature(("a", "b"), "dense")]


@pytest.mark.parametrize(
    "build",
    [
        penstock.dense, penstock.sparse, penstock.label, penstock.bytes_, penstock.image, penstock.tensor,
        partial(penstock.padded, length=2),
    ],
)  # fmt: skip
@pytest.mark.parametrize("names", [(), ([],), (3,), (["a", 3],), (None,), ({"a", "b"},), ({"a": 1},), (b"a",)])
def test_features_need_names(build: Any, names: Any) -> None:
    with pytest.raises(UsageError, match="names or globs"):
        build(*names)


@pytest.mark.parametrize("names", [3, ["a", 3], {"a", "b"}, b"a"])
def test_ops_need_names(names: Any) -> None:
    with pytest.raises(SpecError, match=r"log1p: in_: found .* give a name, a glob or a list"):
        penstock.log1p(names)


@pytest.mark.parametrize(
    ("name", "args", "params", "says"),
    [
        ("log1p", ("a",), {"base": 2}, r"log1p: .*'base'; the parameters are log1p\(in_, \*, out=None\)"),
        ("sigrid_hash", ("a",), {}, "sigrid_hash: missing a required .*'max'; the parameters are"),
        ("first_x", ("a", 1, 2), {}, "first_x: too many positional arguments"),
        ("logp1", ("a",), {}, 'penstock has no logp1; nearest: log1p. .*penstock.op."logp1", ...'),
        ("tokenize", ("a",), {}, "penstock has no tokenize; `penstock ops` lists"),
    ],
)
def test_what_no_op_takes(name: str, args: Any, params: Any, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        getattr(penstock, name)(*args, **params)


def test_names_that_are_not_there() -> None:
    assert not hasattr(penstock, "logp1")
    with pytest.raises(ImportError):
        exec("from penstock import logp1")


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (True, {"bool": True}),
        (np.bool_(False), {"bool": False}),
        (3, {"int": 3}),
        (np.int32(-3), {"int": -3}),
        (0.5, {"float": 0.5}),
        (np.float32(0.5), {"float": 0.5}),
        (float("nan"), {"float": "NaN"}),
        ([1, -math.inf], {"floats": {"values": [1.0, "-Infinity"]}}),
        ("x", {"text": "x"}),
        ((1, 2.5), {"floats": {"values": [1, 2.5]}}),
        ((1, 2), {"ints": {"values": [1, 2]}}),
        ([0.5, 1.0], {"floats": {"values": [0.5, 1]}}),
        ((0.5, 2**53 + 1), {"list": {"values": [{"float": 0.5}, {"int": 2**53 + 1}]}}),
        ((), {"list": {"values": []}}),
        (np.array([0.5, 1]), {"floats": {"values": [0.5, 1]}}),
    ],
)
def test_values(value: Any, want: dict[str, Any]) -> None:
    made = penstock.op("mine", "a", v=value).params["v"]
    assert made == want
    assert json.loads(json.dumps(made, allow_nan=False)) == want


@pytest.mark.parametrize("value", [1 << 63, b"x", {"a": 1}, object()])
def test_values_that_no_spec_holds(value: Any) -> None:
    with pytest.raises(SpecError, match="mine: v"):
        penstock.op("mine", "a", v=value)


def test_an_op_of_ones_own() -> None:
    made = penstock.op("mine", ["a", "b_*"], out="c", n=2, name="x", left_out=None)
    assert made.message() == {
        "op": "mine", "in": ["a", "b_*"], "out": "c", "params": {"n": {"int": 2}, "name": {"text": "x"}},
    }  # fmt: skip
    assert penstock.log1p("a").inputs == ("a",)


def test_the_home_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert absolute("~/data/") == f"{tmp_path}/data/"
    assert absolute(Path("~/x.parquet")) == f"{tmp_path}/x.parquet"
    assert absolute("s3://bucket/~/") == "s3://bucket/~/"
    assert absolute("delta+~/clicks@v1") == f"delta+{tmp_path}/clicks@v1"
    assert absolute("delta+s3://bucket/clicks") == "delta+s3://bucket/clicks"


def test_relative_paths_of_tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute("delta+data/clicks@v1") == f"delta+{tmp_path}/data/clicks@v1"
    assert absolute("delta+/data/clicks") == "delta+/data/clicks"
    assert absolute("delta+s3://bucket/clicks") == "delta+s3://bucket/clicks"
    assert absolute("a+b/") == f"{tmp_path}/a+b/"


def test_the_whole_spec(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    made = spec.build(
        ["data/", Path("x.parquet"), "s3://bucket/a/", "/abs/b", "file:///c/*.parquet"],
        penstock.dense("a"),
        batch_size=8,
        transforms=[penstock.log1p("a")],
        filter="a > 0",
        data=penstock.Data(partitions="day = 1", storage="lake", lanes=4, provenance=True),
        last_batch="drop",
        order="deterministic",
        seed=-1,
        shuffle=True,
        epochs=2,
        split="train",
        subset="en",
    )
    uris = [f"{tmp_path}/data/", f"{tmp_path}/x.parquet", "s3://bucket/a/", "/abs/b", "file:///c/*.parquet"]
    assert made == {
        "dataset": {"uri": uris, "storage": "lake", "partitions": "day = 1", "split": "train", "subset": "en"},
        "filter": "a > 0",
        "features": [Feature(("a",), "dense").message()],
        "transforms": [{"op": "log1p", "in": ["a"], "out": "", "params": {}}],
        "batch_size": 8,
        "last_batch": "DROP",
        "order": "DETERMINISTIC",
        "lanes": 4,
        "seed": -1,
        "shuffle": True,
        "epochs": 2,
        "provenance": True,
    }


def test_what_is_left_out_and_what_becomes_of_bad_rows() -> None:
    data = penstock.Data(global_batch_size=64, on_error={"skip": 3})
    made = spec.build("/data", penstock.dense("a"), data=data)
    assert (made["global_batch_size"], made["on_error"], made["order"]) == (64, {"skip": 3}, "FAST")
    assert not {"batch_size", "lanes"} & made.keys()
    assert "on_error" not in spec.build("/data", penstock.dense("a"), data=penstock.Data(), batch_size=8)


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("", None),
        ("jsonl", {"name": "jsonl"}),
        ({"name": "csv", "delimiter": ";", "nulls": ["", "NA"], "columns": {"a": "int64"}},
         {"name": "csv", "columns": {"a": "int64"},
          "options": {"delimiter": {"text": ";"}, "nulls": {"list": {"values": [{"text": ""}, {"text": "NA"}]}}}}),
    ],
)  # fmt: skip
def test_how_files_are_read(given: Any, made: Any) -> None:
    built = spec.build("/data", penstock.dense("a"), data=penstock.Data(file_format=given), batch_size=8)
    assert built["dataset"].get("format") == made


@pytest.mark.parametrize(
    "wrong",
    [{"batch_size": "8"}, {"last_batch": "keep"}, {"epochs": -1}, {"order": "slow"}, {"seed": 1.5}, {"filter": 1}],
)
def test_wrong_types_are_mistakes_of_the_spec(wrong: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        spec.build("/data", penstock.dense("a"), data=penstock.Data(), **{"batch_size": 8, **wrong})


def test_text_or_path(tmp_path: Path) -> None:
    text = "batch_size: 8\nfeatures: [{dense: a}]\n"
    file = tmp_path / "spec.yaml"
    file.write_text(text)
    assert spec.read_text(text) == text
    assert spec.read_text('{"batch_size": 8}') == '{"batch_size": 8}'
    assert spec.read_text(file) == spec.read_text(str(file)) == text
    with pytest.raises(SpecError, match=r"no-such\.yaml"):
        spec.read_text("no-such.yaml")


def test_side_tables_have_whole_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    steps = [penstock.lookup("item", table, "price") for table in ("items.parquet", "s3://bucket/items.parquet")]
    for _ in range(2):  # the transforms themselves stay as they are
        made = spec.build("/data", penstock.dense("price"), data=penstock.Data(), batch_size=8, transforms=steps)
        tables = [step["params"]["table"]["text"] for step in made["transforms"]]
        assert tables == [str(tmp_path / "items.parquet"), "s3://bucket/items.parquet"]
        monkeypatch.chdir(tmp_path.parent)
        tmp_path = tmp_path.parent


def test_every_op_has_its_builder(penstock_binary: Path) -> None:
    """Parameters, what may be left out, and defaults are those that `penstock ops` lists."""
    listed = subprocess.run([penstock_binary, "ops", "--output=json"], check=True, capture_output=True).stdout
    ops = json.loads(listed)
    assert len(ops) >= 10
    for info in ops:
        builder = getattr(penstock, info["name"], None)
        assert builder is not None, f"penstock has no builder of the op {info['name']}"
        assert info["name"] in penstock.__all__
        assert builder.__doc__
        parameters = {
            name if name == "in_" else name.rstrip("_"): p for name, p in inspect.signature(builder).parameters.items()
        }  # lambda_ is lambda
        takes = info["inputs"] != "none" and "expr" not in parameters  # an expression names its inputs
        assert ("in_" in parameters) == takes, info["name"]
        parameters.pop("in_", None)
        out = parameters.pop("out", None)
        assert (out is not None) == (not info["output"].startswith("none")), info["name"]
        if out is not None:
            named = not info["each_input_by_itself"] and "out" not in info
            assert (out.default is inspect.Parameter.empty) == named, info["name"]
        assert set(parameters) == {p["name"] for p in info["parameters"]}, info["name"]
        for p in info["parameters"]:
            default = parameters[p["name"]].default
            default = list(default) if isinstance(default, tuple) else default
            want = inspect.Parameter.empty if p["required"] else p.get("default")
            assert default == want, f"{info['name']}: {p['name']}"


def test_the_package_has_all_other_builders() -> None:
    assert {"dense", "sparse", "label", "bytes_", "image", "tensor", "padded", "op"} <= set(penstock.__all__)


def test_fits_are_those_that_there_are(penstock_binary: Path, tmp_path: Path) -> None:
    """Another statistic is refused where it is named, in Python and in a spec, with the same list."""
    with pytest.raises(SpecError, match=r"no statistic 'meen'; nearest: mean; there are mean, std, .*most_frequent$"):
        penstock.Fit("meen")
    path = tmp_path / "spec.yaml"
    path.write_text(
        "dataset: {uri: /nowhere}\nfeatures: {dense: x}\nbatch_size: 1\n"
        "transforms: [{op: fill_null, in: x, value: {fit: mode}}]\n"
    )
    said = subprocess.run(
        [str(penstock_binary), "validate", str(path)], capture_output=True, text=True, check=False
    ).stderr
    with pytest.raises(SpecError) as raised:
        penstock.Fit("mode")
    assert str(raised.value).split("there are ")[1] in said and 'transforms[0].value: no statistic "mode"' in said
