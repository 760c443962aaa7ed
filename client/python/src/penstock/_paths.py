"""Local paths as specs have them. The processes that read them have other working directories. Everything is pure."""

from __future__ import annotations

import os

TABLES = ("delta", "iceberg")
"""What stands in front of the URIs of tables, with a "+" after it."""


def absolute(uri: str | os.PathLike[str]) -> str:
    """A URI as it is, and a local path made absolute; a slash at its end stays, since it says that it is a folder.

    The prefix of a table's folder, as of "delta+data/clicks", stays, too.
    """
    text = os.fspath(uri)
    kind, is_table, root = text.partition("+")
    if is_table and kind in TABLES:
        return f"{kind}+{absolute(root)}"
    if not text or "://" in text:
        return text
    text = os.path.expanduser(text)  # noqa: PTH111  (Path drops the slash)
    if os.path.isabs(text):  # noqa: PTH117
        return text
    clean = os.path.abspath(text)  # noqa: PTH100
    return clean + "/" if text.endswith("/") else clean
