"""The documentation, run as it stands: pages that need torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import pages

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Fleet

HERE = [page for page in pages.pages() if page.runs and page.needs_torch]


@pytest.mark.xdist_group("ports")
@pytest.mark.parametrize("page", HERE, ids=lambda page: page.name)
def test_page(page: pages.Page, page_folder: Path, shared_fleet: Fleet) -> None:
    pages.run(page, page_folder, shared_fleet.master)
