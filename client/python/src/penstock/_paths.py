"""Local paths as specs have them. The processes that read them have other working directories. Everything is pure."""

from __future__ import annotations

import os


def absolute(uri: str | os.PathLike[str]) -> str:
    """A URI as it is, and a local path made absolute; a slash at its end stays, since it says that it is a folder."""
    text = os.fspath(uri)
    if not text or "://" in text:
        return text
    text = os.path.expanduser(text)  # noqa: PTH111  (Path drops the slash)
    if os.path.isabs(text):  # noqa: PTH117
        return text
    clean = os.path.abspath(text)  # noqa: PTH100
    return clean + "/" if text.endswith("/") else clean
