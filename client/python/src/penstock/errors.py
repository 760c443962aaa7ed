"""The exceptions of this package: all are `Error`, and say in their last words what to do next.

What a master or worker said stands in the message unchanged. Python's own protocols raise Python's own exceptions:
batch.sparse["no such name"] a KeyError, and len(loader) a TypeError where the length is not known.
"""

from __future__ import annotations


class Error(Exception):
    """Base of all exceptions of this package."""


class UsageError(Error, RuntimeError):
    """The loader was used in a way that cannot work, such as in a forked process."""


class SpecError(Error, ValueError):
    """The spec has mistakes: unknown features or ops, wrong types. The message lists all of them."""


class UnknownName(SpecError, AttributeError):
    """The package has nothing of that name, such as an op. The message names what is nearest."""


class SessionMismatch(Error):
    """A session of this id runs with another spec. The message names each difference."""


class SessionFailed(Error):
    """The master gave the session up, for the reason in the message."""


class MasterUnreachable(Error, ConnectionError):
    """No master answered in time. The message has one line for each address that was tried."""


class WorkersUnreachable(Error, ConnectionError):
    """No worker served a row for too long, or none answers at its address. The message has their last errors."""


class PermissionDenied(Error):
    """A master or worker refused the token or the certificate."""


class DataError(Error):
    """No worker can read some data, or a file changed. The message names file, extent and column."""


class NotRepeatable(Error):
    """A Python function made other values of the same rows, or its values depend on how rows are cut into calls."""


class RestoreRefused(Error):
    """A checkpoint cannot be restored exactly. The message names what differs or who is missing."""


class RanksAbsent(Error):
    """Ranks that all others wait for did not open the loader within `join_timeout` seconds. The message names them."""


class Fenced(Error):
    """Another process, or a newer loader of this one, joined as this rank, or the master took this rank for dead."""


class Closed(Error):
    """The loader was closed."""


class EpochsExhausted(Error):
    """All epochs of the session have been read."""


class LocalFleetError(Error, RuntimeError):
    """The local fleet of `master=None` could not start, or ended."""
