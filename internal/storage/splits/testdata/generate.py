"""Writes layouts.json: which files the library `datasets` takes for each split of folders.

    pip install datasets==5.2.0
    HF_HUB_OFFLINE=1 python generate.py
"""

import json
import tempfile
from pathlib import Path

import datasets
import fsspec
import huggingface_hub
from datasets import load_dataset_builder
from datasets.load import dataset_module_factory


def card(configs: str) -> str:
    return f"---\nlicense: mit\nconfigs:\n{configs}---\n# A dataset\n"


LAYOUTS: list[tuple[str, str | None, str]] = [
    ("shards", None, "data/train-00000-of-00002.parquet data/train-00001-of-00002.parquet "
     "data/test-00000-of-00001.parquet data/random-00000-of-00001-ab.parquet data/extra.parquet train/a.parquet LICENSE"),
    ("shards of a strange name", None, "data/my-split-00000-of-00001.parquet"),
    ("folders", None, "train/a.csv train/deep/b.csv test/a.csv other/a.csv c.csv"),
    ("folders with words", None, "my-train/a.csv train2024/a.csv pretrain/b.csv trainer/c.csv x.val.y/d.csv eval/e.csv"),
    ("nested folders", None, "en/train/a.jsonl en/dev/a.jsonl fr/training/a.jsonl fr/valid/a.jsonl"),
    ("a folder within one of another split", None, "train/test/a.parquet train/b.parquet"),
    ("names", None, "train.csv test.csv valid.csv other.csv"),
    ("names with words", None, "a-train.csv train_1.csv 2train.csv trainset.csv my test.csv evaluation0.csv dev.csv Val.csv"),
    ("names of compressed files", None, "train.jsonl.gz test.jsonl.gz"),
    ("names in a folder", None, "data/train.parquet data/validation.parquet data/deep/test.parquet"),
    ("a name of two splits", None, "train-test.csv"),
    ("none of these", None, "a.parquet deep/b.parquet config.json dataset_infos.json"),
    ("files that are no data", None, "a.parquet train.md notes/test.rst"),
    ("other shards", None, "train-00000-of-00001.parquet test-00000-of-00001.parquet"),
    ("hidden files", None, "a.parquet .cache/train/b.parquet __pycache__/test.parquet"),
    ("a transcript", None, "train.csv test.csv x.eval"),
    ("a card without configs", "---\nlicense: mit\n---\n", "train.csv test.csv"),
    ("a card without YAML", "# About\n---\nconfigs: 1\n", "train.csv test.csv"),
    ("a card with blank lines and CRLF", "\n\n---\r\nconfigs:\r\n- config_name: x\r\n  data_files: a.csv\r\n---\r\n", "a.csv b.csv"),
    ("one path", card("- config_name: default\n  data_files: data/*.csv\n"), "data/a.csv data/deep/b.csv c.csv"),
    ("a list of paths", card("- config_name: x\n  data_files: [a.csv, 'b?.csv', 'none*.csv']\n"), "a.csv b1.csv b22.csv"),
    ("splits", card("- config_name: default\n  data_files:\n  - {split: train, path: 'data/train-*'}\n"
     "  - {split: held.out, path: [x/a.csv, 'x/b/**']}\n"),
     "data/train-1.csv data/train-2.csv data/test-1.csv x/a.csv x/b/c.csv x/b/d/e.csv"),
    ("several subsets", card("- config_name: en\n  data_files: en/*.jsonl\n- config_name: fr\n  data_files:\n"
     "  - {split: test, path: fr/**}\n"), "en/a.jsonl fr/a.jsonl fr/deep/b.jsonl"),
    ("a default", card("- config_name: en\n  data_files: en/*.jsonl\n- config_name: fr\n  default: true\n"
     "  data_files: fr/*.jsonl\n"), "en/a.jsonl fr/a.jsonl"),
    ("one of name default", card("- config_name: en\n  data_files: en/*.jsonl\n- config_name: default\n"
     "  data_files: fr/*.jsonl\n"), "en/a.jsonl fr/a.jsonl"),
    ("two defaults", card("- config_name: default\n  data_files: a.csv\n- config_name: b\n  default: true\n"
     "  data_files: a.csv\n"), "a.csv"),
    ("folders of subsets", card("- config_name: en\n  data_dir: en\n- config_name: fr\n  data_dir: ./fr\n"),
     "en/train/a.csv en/test/a.csv fr/data/train-00000-of-00001.csv fr/data/dev-00000-of-00001.csv"),
    ("a folder and paths", card("- config_name: en\n  data_dir: en\n  data_files:\n  - {split: train, path: '*.csv'}\n"),
     "en/a.csv en/train/a.csv a.csv"),
    ("levels of wildcards", card("- config_name: x\n  data_files: 'a/**/c/*.csv'\n"),
     "a/c/1.csv a/b/c/2.csv a/b/b/c/3.csv a/b/c/d/4.csv a/c.csv"),
    ("stars in a level", card("- config_name: x\n  data_files: 'a/**.csv'\n"), "a/c/1.csv a/2.csv"),
    ("classes", card("- config_name: x\n  data_files:\n  - {split: a, path: 'p[0-3].csv'}\n  - {split: b, path: 'p[!0-3].csv'}\n"
     "  - {split: c, path: 'q[]x^-].csv'}\n"), "p0.csv p3.csv p4.csv pp.csv q].csv qx.csv q^.csv q-.csv qy.csv"),
    ("a bracket that is none", card("- config_name: x\n  data_files: 'a[*.csv'\n"), "a[b.csv ab.csv"),
    ("a name that is ignored", card("- config_name: x\n  data_files: [config.json, '*a.jsonl']\n"),
     "config.json dataset_info.json a.jsonl"),
    ("a file that is missing", card("- config_name: x\n  data_files: [a.csv, b.csv]\n"), "a.csv"),
    ("a split twice", card("- config_name: x\n  data_files: [{split: a, path: a.csv}, {split: a, path: b.csv}]\n"), "a.csv b.csv"),
    ("a split of no name", card("- config_name: x\n  data_files: [{split: a-b, path: a.csv}]\n"), "a.csv"),
    ("paths of two kinds", card("- config_name: x\n  data_files: [{split: a, path: a.csv}, b.csv]\n"), "a.csv b.csv"),
    ("a mapping", card("- config_name: x\n  data_files: {train: a.csv}\n"), "a.csv"),
    ("a config without a name", card("- data_files: a.csv\n"), "a.csv"),
    ("no list", "---\nconfigs: all\n---\n", "a.csv"),
    ("damaged YAML", "---\nconfigs: [\n---\n", "a.csv"),
]  # fmt: skip


def splits(root: Path, subset: str | None) -> dict[str, list[str]]:
    files = load_dataset_builder(str(root), subset).config.data_files
    return {str(split): sorted(str(Path(f).relative_to(root)) for f in of) for split, of in files.items()}


def layout(name: str, readme: str | None, files: str) -> dict:
    out = {"name": name, "readme": readme, "files": split_names(files)}
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve() / "folder"
        for file in out["files"]:
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text("{}")
        if readme is not None:
            (root / "README.md").write_bytes(readme.encode())
        try:
            of = dataset_module_factory(str(root)).builder_configs_parameters
            names = [c.name for c in of.builder_configs]
            default = of.default_config_name or (names[0] if len(names) == 1 else None)
            return out | {"default": default, "subsets": {n: splits(root, n) for n in names}}
        except Exception as err:  # noqa: BLE001
            return out | {"error": type(err).__name__}


def split_names(text: str) -> list[str]:
    """Names end in their ending, and may have a blank in them."""
    names: list[str] = []
    for part in text.split(" "):
        if names and "." not in names[-1] and names[-1] == "my":
            names[-1] += " " + part
        else:
            names.append(part)
    return names


versions = {m.__name__: m.__version__ for m in (datasets, fsspec, huggingface_hub)}
here = Path(__file__).parent / "layouts.json"
layouts = ",\n".join(json.dumps(layout(*of)) for of in LAYOUTS)
here.write_text(f'{{"versions": {json.dumps(versions)}, "layouts": [\n{layouts}\n]}}\n')
