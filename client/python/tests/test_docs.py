"""The documentation, run as it stands: pages that need no torch. tests/torch/test_docs.py has the others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import penstock
from tests import pages
from tests.conftest import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Fleet

PLAIN = [page for page in pages.pages() if page.runs and not page.needs_torch]


@pytest.mark.xdist_group("ports")  # pages start fleets on the usual ones
@pytest.mark.parametrize("page", PLAIN, ids=lambda page: page.name)
def test_page(page: pages.Page, page_folder: Path, shared_fleet: Fleet) -> None:
    pages.run(page, page_folder, shared_fleet.master)


def test_links_of_the_repository() -> None:
    """Links among files, in what is no part of the site: `make docs` checks that."""
    links = 0
    for path in (p for name in ("*.md", "[a-z]*/**/*.md") for p in REPOSITORY.glob(name) if "docs" not in p.parts):
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", path.read_text()):
            assert (path.parent / target).exists(), f"{path}: {target}"
            links += 1
    assert links > 20


def test_errors_are_documented() -> None:
    """Each exception has a row in the reference."""
    base = penstock.errors.Error
    kinds = [e for e in vars(penstock.errors).values() if isinstance(e, type) and issubclass(e, base) and e is not base]
    text = (pages.DOCS / "reference" / "errors.md").read_text()
    assert [kind.__name__ for kind in kinds if f"| `{kind.__name__}`" not in text] == []


def test_every_page_is_in_the_navigation() -> None:
    """Pages that no menu leads to are found by search alone."""
    navigation = (pages.DOCS / "zensical.toml").read_text()
    named = {str(p.path.relative_to(pages.DOCS)) for p in pages.pages() if pages.DOCS in p.path.parents}
    assert [name for name in sorted(named) if f'"{name}"' not in navigation] == []
