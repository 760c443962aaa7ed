from penstock._pb import control_pb2 as _control_pb2
from penstock._pb import stream_pb2 as _stream_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FeedHello(_message.Message):
    __slots__ = ("language", "release")
    class Language(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[FeedHello.Language]
        CURRENT: _ClassVar[FeedHello.Language]
    UNKNOWN: FeedHello.Language
    CURRENT: FeedHello.Language
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    language: int
    release: str
    def __init__(self, language: _Optional[int] = ..., release: _Optional[str] = ...) -> None: ...

class FeedRequest(_message.Message):
    __slots__ = ("open", "next", "state", "close", "id")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    open: FeedOpen
    next: FeedNext
    state: FeedState
    close: FeedClose
    id: int
    def __init__(self, open: _Optional[_Union[FeedOpen, _Mapping]] = ..., next: _Optional[_Union[FeedNext, _Mapping]] = ..., state: _Optional[_Union[FeedState, _Mapping]] = ..., close: _Optional[_Union[FeedClose, _Mapping]] = ..., id: _Optional[int] = ...) -> None: ...

class FeedOpen(_message.Message):
    __slots__ = ("masters", "security", "rank", "world_size", "zone", "compression", "budget", "session", "joined", "nonce", "lease_ns", "epoch", "sync_every_ns", "stream_timeout_ns", "hedge_after_ns")
    MASTERS_FIELD_NUMBER: _ClassVar[int]
    SECURITY_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    JOINED_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    LEASE_NS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SYNC_EVERY_NS_FIELD_NUMBER: _ClassVar[int]
    STREAM_TIMEOUT_NS_FIELD_NUMBER: _ClassVar[int]
    HEDGE_AFTER_NS_FIELD_NUMBER: _ClassVar[int]
    masters: _containers.RepeatedScalarFieldContainer[str]
    security: FeedSecurity
    rank: int
    world_size: int
    zone: str
    compression: _stream_pb2.Compression
    budget: int
    session: _control_pb2.Session
    joined: _control_pb2.JoinReply
    nonce: str
    lease_ns: int
    epoch: int
    sync_every_ns: int
    stream_timeout_ns: int
    hedge_after_ns: int
    def __init__(self, masters: _Optional[_Iterable[str]] = ..., security: _Optional[_Union[FeedSecurity, _Mapping]] = ..., rank: _Optional[int] = ..., world_size: _Optional[int] = ..., zone: _Optional[str] = ..., compression: _Optional[_Union[_stream_pb2.Compression, str]] = ..., budget: _Optional[int] = ..., session: _Optional[_Union[_control_pb2.Session, _Mapping]] = ..., joined: _Optional[_Union[_control_pb2.JoinReply, _Mapping]] = ..., nonce: _Optional[str] = ..., lease_ns: _Optional[int] = ..., epoch: _Optional[int] = ..., sync_every_ns: _Optional[int] = ..., stream_timeout_ns: _Optional[int] = ..., hedge_after_ns: _Optional[int] = ...) -> None: ...

class FeedSecurity(_message.Message):
    __slots__ = ("token", "token_file", "ca", "cert", "key", "server_name", "tls", "namespace")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FILE_FIELD_NUMBER: _ClassVar[int]
    CA_FIELD_NUMBER: _ClassVar[int]
    CERT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SERVER_NAME_FIELD_NUMBER: _ClassVar[int]
    TLS_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    token: str
    token_file: str
    ca: str
    cert: str
    key: str
    server_name: str
    tls: bool
    namespace: str
    def __init__(self, token: _Optional[str] = ..., token_file: _Optional[str] = ..., ca: _Optional[str] = ..., cert: _Optional[str] = ..., key: _Optional[str] = ..., server_name: _Optional[str] = ..., tls: bool = ..., namespace: _Optional[str] = ...) -> None: ...

class FeedNext(_message.Message):
    __slots__ = ("wait_ns", "released")
    WAIT_NS_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    wait_ns: int
    released: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, wait_ns: _Optional[int] = ..., released: _Optional[_Iterable[int]] = ...) -> None: ...

class FeedState(_message.Message):
    __slots__ = ("after",)
    AFTER_FIELD_NUMBER: _ClassVar[int]
    after: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, after: _Optional[_Iterable[int]] = ...) -> None: ...

class FeedClose(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FeedReply(_message.Message):
    __slots__ = ("batch", "epoch_end", "finished", "waiting", "states", "error", "done", "next", "id", "figures", "events", "segments")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    EPOCH_END_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    batch: FeedBatch
    epoch_end: FeedEpochEnd
    finished: bool
    waiting: FeedWaiting
    states: FeedStates
    error: FeedError
    done: bool
    next: bool
    id: int
    figures: FeedFigures
    events: _containers.RepeatedCompositeFieldContainer[FeedEvent]
    segments: _containers.RepeatedCompositeFieldContainer[FeedSegment]
    def __init__(self, batch: _Optional[_Union[FeedBatch, _Mapping]] = ..., epoch_end: _Optional[_Union[FeedEpochEnd, _Mapping]] = ..., finished: bool = ..., waiting: _Optional[_Union[FeedWaiting, _Mapping]] = ..., states: _Optional[_Union[FeedStates, _Mapping]] = ..., error: _Optional[_Union[FeedError, _Mapping]] = ..., done: bool = ..., next: bool = ..., id: _Optional[int] = ..., figures: _Optional[_Union[FeedFigures, _Mapping]] = ..., events: _Optional[_Iterable[_Union[FeedEvent, _Mapping]]] = ..., segments: _Optional[_Iterable[_Union[FeedSegment, _Mapping]]] = ...) -> None: ...

class FeedEpochEnd(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

class FeedSegment(_message.Message):
    __slots__ = ("id", "bytes")
    ID_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    id: int
    bytes: int
    def __init__(self, id: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class FeedBatch(_message.Message):
    __slots__ = ("number", "rows", "valid", "epoch", "array_segments", "array_begins", "array_bytes", "schema", "checkpoint", "checkpoint_step")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    VALID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ARRAY_SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_BEGINS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_BYTES_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_STEP_FIELD_NUMBER: _ClassVar[int]
    number: int
    rows: int
    valid: int
    epoch: int
    array_segments: _containers.RepeatedScalarFieldContainer[int]
    array_begins: _containers.RepeatedScalarFieldContainer[int]
    array_bytes: _containers.RepeatedScalarFieldContainer[int]
    schema: bytes
    checkpoint: str
    checkpoint_step: int
    def __init__(self, number: _Optional[int] = ..., rows: _Optional[int] = ..., valid: _Optional[int] = ..., epoch: _Optional[int] = ..., array_segments: _Optional[_Iterable[int]] = ..., array_begins: _Optional[_Iterable[int]] = ..., array_bytes: _Optional[_Iterable[int]] = ..., schema: _Optional[bytes] = ..., checkpoint: _Optional[str] = ..., checkpoint_step: _Optional[int] = ...) -> None: ...

class FeedStates(_message.Message):
    __slots__ = ("states",)
    STATES_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedCompositeFieldContainer[_control_pb2.State]
    def __init__(self, states: _Optional[_Iterable[_Union[_control_pb2.State, _Mapping]]] = ...) -> None: ...

class FeedWaiting(_message.Message):
    __slots__ = ("master", "idle_ns", "workers", "lapsed")
    MASTER_FIELD_NUMBER: _ClassVar[int]
    IDLE_NS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    LAPSED_FIELD_NUMBER: _ClassVar[int]
    master: str
    idle_ns: int
    workers: _containers.RepeatedCompositeFieldContainer[FeedWorker]
    lapsed: bool
    def __init__(self, master: _Optional[str] = ..., idle_ns: _Optional[int] = ..., workers: _Optional[_Iterable[_Union[FeedWorker, _Mapping]]] = ..., lapsed: bool = ...) -> None: ...

class FeedWorker(_message.Message):
    __slots__ = ("name", "address", "error")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    error: str
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class FeedError(_message.Message):
    __slots__ = ("kind", "words", "code", "bad_data", "address", "stranger", "shard", "file")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[FeedError.Kind]
        MASTER: _ClassVar[FeedError.Kind]
        SESSION: _ClassVar[FeedError.Kind]
        REFUSED: _ClassVar[FeedError.Kind]
    KIND_UNSPECIFIED: FeedError.Kind
    MASTER: FeedError.Kind
    SESSION: FeedError.Kind
    REFUSED: FeedError.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    BAD_DATA_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STRANGER_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    kind: FeedError.Kind
    words: str
    code: int
    bad_data: bool
    address: str
    stranger: bool
    shard: str
    file: str
    def __init__(self, kind: _Optional[_Union[FeedError.Kind, str]] = ..., words: _Optional[str] = ..., code: _Optional[int] = ..., bad_data: bool = ..., address: _Optional[str] = ..., stranger: bool = ..., shard: _Optional[str] = ..., file: _Optional[str] = ...) -> None: ...

class FeedFigures(_message.Message):
    __slots__ = ("epoch", "rows", "batches", "bytes", "dropped", "stall_ns", "longest_stall_ns", "compute_ns", "failovers", "hedges", "buffered", "peak_buffered", "workers", "streams", "rows_by_worker", "streams_by_worker", "cause", "epoch_batches", "ways")
    class RowsByWorkerEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class StreamsByWorkerEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class WaysEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    STALL_NS_FIELD_NUMBER: _ClassVar[int]
    LONGEST_STALL_NS_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_NS_FIELD_NUMBER: _ClassVar[int]
    FAILOVERS_FIELD_NUMBER: _ClassVar[int]
    HEDGES_FIELD_NUMBER: _ClassVar[int]
    BUFFERED_FIELD_NUMBER: _ClassVar[int]
    PEAK_BUFFERED_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    ROWS_BY_WORKER_FIELD_NUMBER: _ClassVar[int]
    STREAMS_BY_WORKER_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_BATCHES_FIELD_NUMBER: _ClassVar[int]
    WAYS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    rows: int
    batches: int
    bytes: int
    dropped: int
    stall_ns: int
    longest_stall_ns: int
    compute_ns: int
    failovers: int
    hedges: int
    buffered: int
    peak_buffered: int
    workers: int
    streams: int
    rows_by_worker: _containers.ScalarMap[str, int]
    streams_by_worker: _containers.ScalarMap[str, int]
    cause: _control_pb2.Cause
    epoch_batches: int
    ways: _containers.ScalarMap[str, int]
    def __init__(self, epoch: _Optional[int] = ..., rows: _Optional[int] = ..., batches: _Optional[int] = ..., bytes: _Optional[int] = ..., dropped: _Optional[int] = ..., stall_ns: _Optional[int] = ..., longest_stall_ns: _Optional[int] = ..., compute_ns: _Optional[int] = ..., failovers: _Optional[int] = ..., hedges: _Optional[int] = ..., buffered: _Optional[int] = ..., peak_buffered: _Optional[int] = ..., workers: _Optional[int] = ..., streams: _Optional[int] = ..., rows_by_worker: _Optional[_Mapping[str, int]] = ..., streams_by_worker: _Optional[_Mapping[str, int]] = ..., cause: _Optional[_Union[_control_pb2.Cause, _Mapping]] = ..., epoch_batches: _Optional[int] = ..., ways: _Optional[_Mapping[str, int]] = ...) -> None: ...

class FeedEvent(_message.Message):
    __slots__ = ("name", "message", "level", "about")
    class AboutEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: FeedValue
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[FeedValue, _Mapping]] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    name: str
    message: str
    level: int
    about: _containers.MessageMap[str, FeedValue]
    def __init__(self, name: _Optional[str] = ..., message: _Optional[str] = ..., level: _Optional[int] = ..., about: _Optional[_Mapping[str, FeedValue]] = ...) -> None: ...

class FeedValue(_message.Message):
    __slots__ = ("text", "integer", "number", "truth")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TRUTH_FIELD_NUMBER: _ClassVar[int]
    text: str
    integer: int
    number: float
    truth: bool
    def __init__(self, text: _Optional[str] = ..., integer: _Optional[int] = ..., number: _Optional[float] = ..., truth: bool = ...) -> None: ...
