"""The documentation as programs: each page's blocks of code, run in their order in one directory.

    ```python             runs in this process; a page's blocks share their names
    ```sh                 runs in bash, one for the page; what it leaves in the background is killed at the page's end
    ```yaml title="NAME"  is written to NAME, as is a block of any other language that has a title
    ```text, ```console   is shown only, as are blocks without a language, and others without a title

A block after `<!-- not run: REASON -->` is shown only. A test's data, fleet and training step stand for the user's.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import penstock
from tests.conftest import REPOSITORY

DOCS = REPOSITORY / "docs"
LIMIT = 120.0  # seconds for a block of bash
BLOCK = re.compile(
    r"^(?:[ ]*<!-- not run: (?P<reason>[^\n]*?) -->\n)?"
    r"(?P<indent>[ ]*)```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?[^\n`]*\n(?P<code>.*?)^(?P=indent)```[ ]*$",
    re.MULTILINE | re.DOTALL,
)
# What tests/torch/requirements.txt installs, and pages import.
TORCH = re.compile(
    r"^\s*(import|from) (torch|torchvision|tokenizers|lightning|accelerate|transformers)\b", re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    """A block of code; line is that of its fence."""

    language: str
    title: str
    code: str
    line: int

    @property
    def needs_torch(self) -> bool:
        """Whether only the job with torch can run it."""
        python = self.language == "python" and TORCH.search(self.code)
        return bool(python) or (self.language == "sh" and "torchrun" in self.code)


@dataclass(frozen=True)
class Page:
    """A page of the documentation, by its path below the repository."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(REPOSITORY))

    def blocks(self) -> list[Block]:
        """Those that are run or written, in their order."""
        text, found = self.path.read_text(), []
        for m in BLOCK.finditer(text):
            runs = m["title"] or m["language"] in ("python", "sh")
            if runs and not m["reason"] and m["language"] not in ("text", "console"):
                line = text.count("\n", 0, m.start("indent")) + 1
                found.append(Block(m["language"], m["title"] or "", textwrap.dedent(m["code"]), line))
        return found

    @property
    def runs(self) -> bool:
        """Whether there is anything to run."""
        return any(not b.title and b.language in ("python", "sh") for b in self.blocks())

    @property
    def needs_torch(self) -> bool:
        return any(b.needs_torch for b in self.blocks())


def pages() -> list[Page]:
    """All that people write: what is generated shows no programs of its own."""
    generated = {DOCS / "reference" / f"{name}.md" for name in ("cli", "go", "python")}
    found = [p for p in sorted(DOCS.rglob("*.md")) if p not in generated and ".site" not in p.parts]
    beside = [REPOSITORY / "README.md", REPOSITORY / "client" / "python" / "README.md"]
    return [Page(p) for p in [*beside, *found]]


class Trained:
    """The user's training step: it counts what it gets."""

    def __init__(self) -> None:
        self.batches = 0

    def __call__(self, *batch: object) -> float:
        assert batch
        self.batches += 1
        return 0.5


class Shell:
    """One bash, in which blocks run one after the other. Its `python` is the one that runs the test."""

    def __init__(self, folder: Path) -> None:
        self.log = folder.parent / f"{folder.name}.log"
        self._out = self.log.open("wb")
        self._bash = subprocess.Popen(
            ["bash", "-eu"], cwd=folder, stdin=subprocess.PIPE, stdout=self._out, stderr=self._out,
            start_new_session=True, env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        )  # fmt: skip
        self._count = 0

    def run(self, code: str) -> None:
        """Runs a block to its end. A master that it starts in the background is up then."""
        self._count += 1
        if re.search(r"^penstock (master|local)\b.*&$", code, re.MULTILINE):
            code += "\nuntil penstock session list >/dev/null 2>&1; do sleep 0.1; done\n"
        assert self._bash.stdin
        with contextlib.suppress(BrokenPipeError):  # it has failed before: see below
            self._bash.stdin.write(f"{code}\necho ran {self._count} of the page\n".encode())
            self._bash.stdin.flush()
        until = time.monotonic() + LIMIT
        while f"ran {self._count} of the page\n" not in self.log.read_text(errors="replace"):
            ended = self._bash.poll() is not None
            assert not ended and time.monotonic() < until, (
                f"it {'failed' if ended else 'hangs'}:\n{code}\n{self.said()}"
            )
            time.sleep(0.02)

    def said(self) -> str:
        """What all blocks printed."""
        return self.log.read_text(errors="replace")

    def close(self) -> None:
        """Kills what is left."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.wait()
        self._out.close()
        if self._bash.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._bash.stdin.close()


def run(page: Page, folder: Path, master: str) -> None:
    """Runs a page in a folder. The fleet and the folder's data stand for those that pages name."""
    stands = {
        "penstock.example:7070": master,
        "s3://bucket/clicks/": f"file://{folder}/data/",
        "s3://bucket/features/": f"file://{folder}/features/",
    }
    trained = Trained()
    names: dict[str, Any] = {"__name__": "__main__", "train": trained}
    trains = False
    with contextlib.ExitStack() as stack:
        stack.callback(close_loaders, names)
        bash: Shell | None = None
        for block in page.blocks():
            code = block.code
            for theirs, here in stands.items():
                code = code.replace(theirs, here)
            if block.title:
                (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
                (folder / block.title).write_text(code)
            elif block.language == "sh":
                bash = bash or stack.enter_context(contextlib.closing(Shell(folder)))
                bash.run(code)
            else:
                trains = trains or "train(" in code
                exec(compile("\n" * block.line + code, page.name, "exec"), names)
        if trains and names["train"] is trained:
            assert trained.batches, "its loops got no batch"


def close_loaders(names: dict[str, Any]) -> None:
    """Closes those that a page left open."""
    for value in list(names.values()):
        if isinstance(value, penstock.DataLoader):
            value.close()
