from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Compression(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMPRESSION_UNSPECIFIED: _ClassVar[Compression]
    LZ4: _ClassVar[Compression]
    ZSTD: _ClassVar[Compression]
COMPRESSION_UNSPECIFIED: Compression
LZ4: Compression
ZSTD: Compression

class File(_message.Message):
    __slots__ = ("uri", "size", "etag", "index")
    URI_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    uri: str
    size: int
    etag: str
    index: int
    def __init__(self, uri: _Optional[str] = ..., size: _Optional[int] = ..., etag: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class RowGroup(_message.Message):
    __slots__ = ("index", "first_row", "rows", "window_rows", "outputs")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    FIRST_ROW_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_ROWS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    index: int
    first_row: int
    rows: int
    window_rows: int
    outputs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, index: _Optional[int] = ..., first_row: _Optional[int] = ..., rows: _Optional[int] = ..., window_rows: _Optional[int] = ..., outputs: _Optional[_Iterable[int]] = ...) -> None: ...

class Ticket(_message.Message):
    __slots__ = ("session", "generation", "epoch", "block", "shard", "file", "row_groups", "program_digest", "workers", "expires_unix", "zone", "namespace", "weight")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    ROW_GROUPS_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_DIGEST_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_UNIX_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    session: str
    generation: int
    epoch: int
    block: int
    shard: int
    file: File
    row_groups: _containers.RepeatedCompositeFieldContainer[RowGroup]
    program_digest: bytes
    workers: _containers.RepeatedCompositeFieldContainer[Worker]
    expires_unix: int
    zone: str
    namespace: str
    weight: float
    def __init__(self, session: _Optional[str] = ..., generation: _Optional[int] = ..., epoch: _Optional[int] = ..., block: _Optional[int] = ..., shard: _Optional[int] = ..., file: _Optional[_Union[File, _Mapping]] = ..., row_groups: _Optional[_Iterable[_Union[RowGroup, _Mapping]]] = ..., program_digest: _Optional[bytes] = ..., workers: _Optional[_Iterable[_Union[Worker, _Mapping]]] = ..., expires_unix: _Optional[int] = ..., zone: _Optional[str] = ..., namespace: _Optional[str] = ..., weight: _Optional[float] = ...) -> None: ...

class Worker(_message.Message):
    __slots__ = ("name", "address")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class SignedTicket(_message.Message):
    __slots__ = ("ticket", "signature", "key")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ticket: bytes
    signature: bytes
    key: str
    def __init__(self, ticket: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., key: _Optional[str] = ...) -> None: ...

class StreamRequest(_message.Message):
    __slots__ = ("ticket", "program", "window", "k", "compression", "narrow", "turns")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    NARROW_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    ticket: SignedTicket
    program: bytes
    window: int
    k: int
    compression: Compression
    narrow: bool
    turns: bool
    def __init__(self, ticket: _Optional[_Union[SignedTicket, _Mapping]] = ..., program: _Optional[bytes] = ..., window: _Optional[int] = ..., k: _Optional[int] = ..., compression: _Optional[_Union[Compression, str]] = ..., narrow: bool = ..., turns: bool = ...) -> None: ...

class BatchMeta(_message.Message):
    __slots__ = ("window", "k", "rows", "last")
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    window: int
    k: int
    rows: int
    last: bool
    def __init__(self, window: _Optional[int] = ..., k: _Optional[int] = ..., rows: _Optional[int] = ..., last: bool = ...) -> None: ...

class CountReply(_message.Message):
    __slots__ = ("row_groups",)
    ROW_GROUPS_FIELD_NUMBER: _ClassVar[int]
    row_groups: _containers.RepeatedCompositeFieldContainer[RowGroupCount]
    def __init__(self, row_groups: _Optional[_Iterable[_Union[RowGroupCount, _Mapping]]] = ...) -> None: ...

class RowGroupCount(_message.Message):
    __slots__ = ("outputs",)
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    outputs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, outputs: _Optional[_Iterable[int]] = ...) -> None: ...
