from penstock._pb import spec_pb2 as _spec_pb2
from penstock._pb import stream_pb2 as _stream_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SessionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SESSION_STATE_UNSPECIFIED: _ClassVar[SessionState]
    RUNNING: _ClassVar[SessionState]
    FINISHED: _ClassVar[SessionState]
    FAILED: _ClassVar[SessionState]
    WAITING: _ClassVar[SessionState]
    IDLE: _ClassVar[SessionState]
    ABANDONED: _ClassVar[SessionState]

class JoinKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOIN_KIND_UNSPECIFIED: _ClassVar[JoinKind]
    FRESH: _ClassVar[JoinKind]
    REJOIN: _ClassVar[JoinKind]
    RESTORED: _ClassVar[JoinKind]

class RefusalCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REFUSAL_CAUSE_UNSPECIFIED: _ClassVar[RefusalCause]
    UNREADABLE: _ClassVar[RefusalCause]
    CHANGED: _ClassVar[RefusalCause]

class Bottleneck(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BOTTLENECK_UNSPECIFIED: _ClassVar[Bottleneck]
    NONE: _ClassVar[Bottleneck]
    TRAINER: _ClassVar[Bottleneck]
    CLIENT: _ClassVar[Bottleneck]
    NETWORK: _ClassVar[Bottleneck]
    WORKERS: _ClassVar[Bottleneck]
    STORAGE: _ClassVar[Bottleneck]
    STREAMS: _ClassVar[Bottleneck]

class EventKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVENT_KIND_UNSPECIFIED: _ClassVar[EventKind]
    SCALE: _ClassVar[EventKind]
    WORKER: _ClassVar[EventKind]
    LEADER: _ClassVar[EventKind]
    SESSION: _ClassVar[EventKind]
    DATA: _ClassVar[EventKind]
    CHECKPOINT: _ClassVar[EventKind]
SESSION_STATE_UNSPECIFIED: SessionState
RUNNING: SessionState
FINISHED: SessionState
FAILED: SessionState
WAITING: SessionState
IDLE: SessionState
ABANDONED: SessionState
JOIN_KIND_UNSPECIFIED: JoinKind
FRESH: JoinKind
REJOIN: JoinKind
RESTORED: JoinKind
REFUSAL_CAUSE_UNSPECIFIED: RefusalCause
UNREADABLE: RefusalCause
CHANGED: RefusalCause
BOTTLENECK_UNSPECIFIED: Bottleneck
NONE: Bottleneck
TRAINER: Bottleneck
CLIENT: Bottleneck
NETWORK: Bottleneck
WORKERS: Bottleneck
STORAGE: Bottleneck
STREAMS: Bottleneck
EVENT_KIND_UNSPECIFIED: EventKind
SCALE: EventKind
WORKER: EventKind
LEADER: EventKind
SESSION: EventKind
DATA: EventKind
CHECKPOINT: EventKind

class NotLeader(_message.Message):
    __slots__ = ("leader",)
    LEADER_FIELD_NUMBER: _ClassVar[int]
    leader: str
    def __init__(self, leader: _Optional[str] = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ("epoch", "block", "shard", "window", "k")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    block: int
    shard: int
    window: int
    k: int
    def __init__(self, epoch: _Optional[int] = ..., block: _Optional[int] = ..., shard: _Optional[int] = ..., window: _Optional[int] = ..., k: _Optional[int] = ...) -> None: ...

class Interval(_message.Message):
    __slots__ = ("to",)
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    to: Position
    def __init__(self, to: _Optional[_Union[Position, _Mapping]] = ..., **kwargs) -> None: ...

class Checkpoint(_message.Message):
    __slots__ = ("name", "step", "created_unix", "generation", "world_size", "state", "nonce", "spec")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    CREATED_UNIX_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    name: str
    step: int
    created_unix: int
    generation: int
    world_size: int
    state: State
    nonce: str
    spec: _spec_pb2.Spec
    def __init__(self, name: _Optional[str] = ..., step: _Optional[int] = ..., created_unix: _Optional[int] = ..., generation: _Optional[int] = ..., world_size: _Optional[int] = ..., state: _Optional[_Union[State, _Mapping]] = ..., nonce: _Optional[str] = ..., spec: _Optional[_Union[_spec_pb2.Spec, _Mapping]] = ...) -> None: ...

class CreateCheckpointRequest(_message.Message):
    __slots__ = ("session", "name", "nonce")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    session: str
    name: str
    nonce: str
    def __init__(self, session: _Optional[str] = ..., name: _Optional[str] = ..., nonce: _Optional[str] = ...) -> None: ...

class CreateCheckpointReply(_message.Message):
    __slots__ = ("checkpoint", "step", "missing", "tries", "retried")
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    RETRIED_FIELD_NUMBER: _ClassVar[int]
    checkpoint: Checkpoint
    step: int
    missing: _containers.RepeatedCompositeFieldContainer[RankStep]
    tries: int
    retried: str
    def __init__(self, checkpoint: _Optional[_Union[Checkpoint, _Mapping]] = ..., step: _Optional[int] = ..., missing: _Optional[_Iterable[_Union[RankStep, _Mapping]]] = ..., tries: _Optional[int] = ..., retried: _Optional[str] = ...) -> None: ...

class RankStep(_message.Message):
    __slots__ = ("rank", "step", "present")
    RANK_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    PRESENT_FIELD_NUMBER: _ClassVar[int]
    rank: int
    step: int
    present: bool
    def __init__(self, rank: _Optional[int] = ..., step: _Optional[int] = ..., present: bool = ...) -> None: ...

class ListCheckpointsRequest(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: str
    def __init__(self, session: _Optional[str] = ...) -> None: ...

class ListCheckpointsReply(_message.Message):
    __slots__ = ("checkpoints",)
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    checkpoints: _containers.RepeatedCompositeFieldContainer[Checkpoint]
    def __init__(self, checkpoints: _Optional[_Iterable[_Union[Checkpoint, _Mapping]]] = ...) -> None: ...

class DeleteCheckpointRequest(_message.Message):
    __slots__ = ("session", "name")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    session: str
    name: str
    def __init__(self, session: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class DeleteCheckpointReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RestoreSessionRequest(_message.Message):
    __slots__ = ("session", "name", "checkpoint", "world_size", "nonce")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    session: str
    name: str
    checkpoint: Checkpoint
    world_size: int
    nonce: str
    def __init__(self, session: _Optional[str] = ..., name: _Optional[str] = ..., checkpoint: _Optional[_Union[Checkpoint, _Mapping]] = ..., world_size: _Optional[int] = ..., nonce: _Optional[str] = ...) -> None: ...

class RestoredFrom(_message.Message):
    __slots__ = ("name", "step", "epoch")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    name: str
    step: int
    epoch: int
    def __init__(self, name: _Optional[str] = ..., step: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class Fingerprint(_message.Message):
    __slots__ = ("spec", "files", "bytes", "listing", "planner", "planner_version")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    LISTING_FIELD_NUMBER: _ClassVar[int]
    PLANNER_FIELD_NUMBER: _ClassVar[int]
    PLANNER_VERSION_FIELD_NUMBER: _ClassVar[int]
    spec: _containers.RepeatedScalarFieldContainer[int]
    files: int
    bytes: int
    listing: _containers.RepeatedScalarFieldContainer[int]
    planner: PlannerConfig
    planner_version: int
    def __init__(self, spec: _Optional[_Iterable[int]] = ..., files: _Optional[int] = ..., bytes: _Optional[int] = ..., listing: _Optional[_Iterable[int]] = ..., planner: _Optional[_Union[PlannerConfig, _Mapping]] = ..., planner_version: _Optional[int] = ...) -> None: ...

class OpenRequest(_message.Message):
    __slots__ = ("session", "spec", "world_size", "spec_text", "working_dir", "share")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    SPEC_TEXT_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIR_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    session: str
    spec: _spec_pb2.Spec
    world_size: int
    spec_text: str
    working_dir: str
    share: Share
    def __init__(self, session: _Optional[str] = ..., spec: _Optional[_Union[_spec_pb2.Spec, _Mapping]] = ..., world_size: _Optional[int] = ..., spec_text: _Optional[str] = ..., working_dir: _Optional[str] = ..., share: _Optional[_Union[Share, _Mapping]] = ...) -> None: ...

class Session(_message.Message):
    __slots__ = ("id", "spec", "world_size", "generation", "program", "program_digest", "dataset_digest", "created_unix", "files", "bytes", "state", "failure", "progress", "planner_digest", "skipped", "skipped_row_groups", "bad_data", "fingerprint", "restored_from", "batch_size", "lanes", "namespace", "owner", "share", "state_since_unix")
    ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_DIGEST_FIELD_NUMBER: _ClassVar[int]
    DATASET_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CREATED_UNIX_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    PLANNER_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_ROW_GROUPS_FIELD_NUMBER: _ClassVar[int]
    BAD_DATA_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    RESTORED_FROM_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    STATE_SINCE_UNIX_FIELD_NUMBER: _ClassVar[int]
    id: str
    spec: _spec_pb2.Spec
    world_size: int
    generation: int
    program: bytes
    program_digest: bytes
    dataset_digest: bytes
    created_unix: int
    files: int
    bytes: int
    state: SessionState
    failure: str
    progress: Progress
    planner_digest: bytes
    skipped: _containers.RepeatedCompositeFieldContainer[SkippedRows]
    skipped_row_groups: int
    bad_data: bool
    fingerprint: Fingerprint
    restored_from: RestoredFrom
    batch_size: int
    lanes: int
    namespace: str
    owner: str
    share: Share
    state_since_unix: int
    def __init__(self, id: _Optional[str] = ..., spec: _Optional[_Union[_spec_pb2.Spec, _Mapping]] = ..., world_size: _Optional[int] = ..., generation: _Optional[int] = ..., program: _Optional[bytes] = ..., program_digest: _Optional[bytes] = ..., dataset_digest: _Optional[bytes] = ..., created_unix: _Optional[int] = ..., files: _Optional[int] = ..., bytes: _Optional[int] = ..., state: _Optional[_Union[SessionState, str]] = ..., failure: _Optional[str] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., planner_digest: _Optional[bytes] = ..., skipped: _Optional[_Iterable[_Union[SkippedRows, _Mapping]]] = ..., skipped_row_groups: _Optional[int] = ..., bad_data: bool = ..., fingerprint: _Optional[_Union[Fingerprint, _Mapping]] = ..., restored_from: _Optional[_Union[RestoredFrom, _Mapping]] = ..., batch_size: _Optional[int] = ..., lanes: _Optional[int] = ..., namespace: _Optional[str] = ..., owner: _Optional[str] = ..., share: _Optional[_Union[Share, _Mapping]] = ..., state_since_unix: _Optional[int] = ...) -> None: ...

class Share(_message.Message):
    __slots__ = ("weight", "min_workers", "max_workers")
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    MIN_WORKERS_FIELD_NUMBER: _ClassVar[int]
    MAX_WORKERS_FIELD_NUMBER: _ClassVar[int]
    weight: float
    min_workers: int
    max_workers: int
    def __init__(self, weight: _Optional[float] = ..., min_workers: _Optional[int] = ..., max_workers: _Optional[int] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("epoch", "blocks", "blocks_planned", "rows_planned", "rows_delivered", "ranks", "strip_done", "strip_held")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_PLANNED_FIELD_NUMBER: _ClassVar[int]
    ROWS_PLANNED_FIELD_NUMBER: _ClassVar[int]
    ROWS_DELIVERED_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    STRIP_DONE_FIELD_NUMBER: _ClassVar[int]
    STRIP_HELD_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    blocks: int
    blocks_planned: int
    rows_planned: int
    rows_delivered: int
    ranks: _containers.RepeatedCompositeFieldContainer[RankProgress]
    strip_done: bytes
    strip_held: bytes
    def __init__(self, epoch: _Optional[int] = ..., blocks: _Optional[int] = ..., blocks_planned: _Optional[int] = ..., rows_planned: _Optional[int] = ..., rows_delivered: _Optional[int] = ..., ranks: _Optional[_Iterable[_Union[RankProgress, _Mapping]]] = ..., strip_done: _Optional[bytes] = ..., strip_held: _Optional[bytes] = ...) -> None: ...

class RankProgress(_message.Message):
    __slots__ = ("rank", "incarnation", "present", "counters", "may_repeat")
    RANK_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PRESENT_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    MAY_REPEAT_FIELD_NUMBER: _ClassVar[int]
    rank: int
    incarnation: int
    present: bool
    counters: Counters
    may_repeat: int
    def __init__(self, rank: _Optional[int] = ..., incarnation: _Optional[int] = ..., present: bool = ..., counters: _Optional[_Union[Counters, _Mapping]] = ..., may_repeat: _Optional[int] = ...) -> None: ...

class GetSessionRequest(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: str
    def __init__(self, session: _Optional[str] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSessionsReply(_message.Message):
    __slots__ = ("sessions",)
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[Session]
    def __init__(self, sessions: _Optional[_Iterable[_Union[Session, _Mapping]]] = ...) -> None: ...

class DeleteSessionRequest(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: str
    def __init__(self, session: _Optional[str] = ...) -> None: ...

class DeleteSessionReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("session", "rank", "world_size", "nonce", "restore", "restoring")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FIELD_NUMBER: _ClassVar[int]
    RESTORING_FIELD_NUMBER: _ClassVar[int]
    session: str
    rank: int
    world_size: int
    nonce: str
    restore: _containers.RepeatedCompositeFieldContainer[State]
    restoring: bool
    def __init__(self, session: _Optional[str] = ..., rank: _Optional[int] = ..., world_size: _Optional[int] = ..., nonce: _Optional[str] = ..., restore: _Optional[_Iterable[_Union[State, _Mapping]]] = ..., restoring: bool = ...) -> None: ...

class JoinReply(_message.Message):
    __slots__ = ("kind", "generation", "incarnation", "session", "lease_ms", "closed_epochs", "consumed", "waiting_for", "base", "base_version", "members", "departed", "steps", "earlier", "departed_rows", "starts", "skipped", "skipped_row_groups")
    KIND_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    CLOSED_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    CONSUMED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    BASE_VERSION_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    DEPARTED_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    EARLIER_FIELD_NUMBER: _ClassVar[int]
    DEPARTED_ROWS_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_ROW_GROUPS_FIELD_NUMBER: _ClassVar[int]
    kind: JoinKind
    generation: int
    incarnation: int
    session: Session
    lease_ms: int
    closed_epochs: int
    consumed: _containers.RepeatedCompositeFieldContainer[Interval]
    waiting_for: _containers.RepeatedScalarFieldContainer[int]
    base: _containers.RepeatedCompositeFieldContainer[Interval]
    base_version: int
    members: _containers.RepeatedScalarFieldContainer[int]
    departed: _containers.RepeatedScalarFieldContainer[int]
    steps: RankSteps
    earlier: Counters
    departed_rows: _containers.RepeatedScalarFieldContainer[int]
    starts: _containers.RepeatedCompositeFieldContainer[LaneStart]
    skipped: _containers.RepeatedCompositeFieldContainer[SkippedRows]
    skipped_row_groups: int
    def __init__(self, kind: _Optional[_Union[JoinKind, str]] = ..., generation: _Optional[int] = ..., incarnation: _Optional[int] = ..., session: _Optional[_Union[Session, _Mapping]] = ..., lease_ms: _Optional[int] = ..., closed_epochs: _Optional[int] = ..., consumed: _Optional[_Iterable[_Union[Interval, _Mapping]]] = ..., waiting_for: _Optional[_Iterable[int]] = ..., base: _Optional[_Iterable[_Union[Interval, _Mapping]]] = ..., base_version: _Optional[int] = ..., members: _Optional[_Iterable[int]] = ..., departed: _Optional[_Iterable[int]] = ..., steps: _Optional[_Union[RankSteps, _Mapping]] = ..., earlier: _Optional[_Union[Counters, _Mapping]] = ..., departed_rows: _Optional[_Iterable[int]] = ..., starts: _Optional[_Iterable[_Union[LaneStart, _Mapping]]] = ..., skipped: _Optional[_Iterable[_Union[SkippedRows, _Mapping]]] = ..., skipped_row_groups: _Optional[int] = ...) -> None: ...

class Counters(_message.Message):
    __slots__ = ("rows", "batches", "bytes", "stall_ns", "compute_ns", "failovers", "hedges")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    STALL_NS_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_NS_FIELD_NUMBER: _ClassVar[int]
    FAILOVERS_FIELD_NUMBER: _ClassVar[int]
    HEDGES_FIELD_NUMBER: _ClassVar[int]
    rows: int
    batches: int
    bytes: int
    stall_ns: int
    compute_ns: int
    failovers: int
    hedges: int
    def __init__(self, rows: _Optional[int] = ..., batches: _Optional[int] = ..., bytes: _Optional[int] = ..., stall_ns: _Optional[int] = ..., compute_ns: _Optional[int] = ..., failovers: _Optional[int] = ..., hedges: _Optional[int] = ...) -> None: ...

class SyncRequest(_message.Message):
    __slots__ = ("session", "generation", "rank", "incarnation", "consumed", "released", "leave", "counters", "revision", "wants_more", "base_version", "zone", "nonce", "steps", "refused", "checkpoint", "pace")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    CONSUMED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    WANTS_MORE_FIELD_NUMBER: _ClassVar[int]
    BASE_VERSION_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    PACE_FIELD_NUMBER: _ClassVar[int]
    session: str
    generation: int
    rank: int
    incarnation: int
    consumed: _containers.RepeatedCompositeFieldContainer[Interval]
    released: _containers.RepeatedCompositeFieldContainer[Interval]
    leave: bool
    counters: Counters
    revision: int
    wants_more: bool
    base_version: int
    zone: str
    nonce: str
    steps: RankSteps
    refused: _containers.RepeatedCompositeFieldContainer[RefusedStream]
    checkpoint: CheckpointPart
    pace: Pace
    def __init__(self, session: _Optional[str] = ..., generation: _Optional[int] = ..., rank: _Optional[int] = ..., incarnation: _Optional[int] = ..., consumed: _Optional[_Iterable[_Union[Interval, _Mapping]]] = ..., released: _Optional[_Iterable[_Union[Interval, _Mapping]]] = ..., leave: bool = ..., counters: _Optional[_Union[Counters, _Mapping]] = ..., revision: _Optional[int] = ..., wants_more: bool = ..., base_version: _Optional[int] = ..., zone: _Optional[str] = ..., nonce: _Optional[str] = ..., steps: _Optional[_Union[RankSteps, _Mapping]] = ..., refused: _Optional[_Iterable[_Union[RefusedStream, _Mapping]]] = ..., checkpoint: _Optional[_Union[CheckpointPart, _Mapping]] = ..., pace: _Optional[_Union[Pace, _Mapping]] = ...) -> None: ...

class Pace(_message.Message):
    __slots__ = ("step_ns", "rows", "steps", "buffered", "client_ns")
    STEP_NS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    BUFFERED_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NS_FIELD_NUMBER: _ClassVar[int]
    step_ns: int
    rows: float
    steps: int
    buffered: float
    client_ns: int
    def __init__(self, step_ns: _Optional[int] = ..., rows: _Optional[float] = ..., steps: _Optional[int] = ..., buffered: _Optional[float] = ..., client_ns: _Optional[int] = ...) -> None: ...

class RefusedStream(_message.Message):
    __slots__ = ("at", "cause", "words")
    AT_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    at: Position
    cause: RefusalCause
    words: str
    def __init__(self, at: _Optional[_Union[Position, _Mapping]] = ..., cause: _Optional[_Union[RefusalCause, str]] = ..., words: _Optional[str] = ...) -> None: ...

class SkippedRows(_message.Message):
    __slots__ = ("epoch", "file", "row_group", "first_row", "rows", "cause", "intervals", "file_index")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    ROW_GROUP_FIELD_NUMBER: _ClassVar[int]
    FIRST_ROW_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    INTERVALS_FIELD_NUMBER: _ClassVar[int]
    FILE_INDEX_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    file: str
    row_group: int
    first_row: int
    rows: int
    cause: str
    intervals: _containers.RepeatedCompositeFieldContainer[Interval]
    file_index: int
    def __init__(self, epoch: _Optional[int] = ..., file: _Optional[str] = ..., row_group: _Optional[int] = ..., first_row: _Optional[int] = ..., rows: _Optional[int] = ..., cause: _Optional[str] = ..., intervals: _Optional[_Iterable[_Union[Interval, _Mapping]]] = ..., file_index: _Optional[int] = ...) -> None: ...

class RankSteps(_message.Message):
    __slots__ = ("epoch", "handed", "ready")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HANDED_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    handed: int
    ready: int
    def __init__(self, epoch: _Optional[int] = ..., handed: _Optional[int] = ..., ready: _Optional[int] = ...) -> None: ...

class EpochSteps(_message.Message):
    __slots__ = ("epoch", "steps", "final", "dropped")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    steps: int
    final: bool
    dropped: int
    def __init__(self, epoch: _Optional[int] = ..., steps: _Optional[int] = ..., final: bool = ..., dropped: _Optional[int] = ...) -> None: ...

class LaneStart(_message.Message):
    __slots__ = ("epoch", "block", "rows")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    block: int
    rows: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, epoch: _Optional[int] = ..., block: _Optional[int] = ..., rows: _Optional[_Iterable[int]] = ...) -> None: ...

class SyncReply(_message.Message):
    __slots__ = ("revision", "unchanged", "grants", "release", "streams", "closed_epochs", "finished", "failure", "base", "workers", "base_version", "members", "departed", "drained", "steps", "departed_rows", "starts", "skipped", "skipped_row_groups", "bad_data", "checkpoint", "cause")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    CLOSED_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    BASE_VERSION_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    DEPARTED_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    DEPARTED_ROWS_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_ROW_GROUPS_FIELD_NUMBER: _ClassVar[int]
    BAD_DATA_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    revision: int
    unchanged: bool
    grants: _containers.RepeatedCompositeFieldContainer[Grant]
    release: _containers.RepeatedCompositeFieldContainer[Interval]
    streams: int
    closed_epochs: int
    finished: bool
    failure: str
    base: _containers.RepeatedCompositeFieldContainer[Interval]
    workers: int
    base_version: int
    members: _containers.RepeatedScalarFieldContainer[int]
    departed: _containers.RepeatedScalarFieldContainer[int]
    drained: bool
    steps: _containers.RepeatedCompositeFieldContainer[EpochSteps]
    departed_rows: _containers.RepeatedScalarFieldContainer[int]
    starts: _containers.RepeatedCompositeFieldContainer[LaneStart]
    skipped: _containers.RepeatedCompositeFieldContainer[SkippedRows]
    skipped_row_groups: int
    bad_data: bool
    checkpoint: CheckpointOrder
    cause: Cause
    def __init__(self, revision: _Optional[int] = ..., unchanged: bool = ..., grants: _Optional[_Iterable[_Union[Grant, _Mapping]]] = ..., release: _Optional[_Iterable[_Union[Interval, _Mapping]]] = ..., streams: _Optional[int] = ..., closed_epochs: _Optional[int] = ..., finished: bool = ..., failure: _Optional[str] = ..., base: _Optional[_Iterable[_Union[Interval, _Mapping]]] = ..., workers: _Optional[int] = ..., base_version: _Optional[int] = ..., members: _Optional[_Iterable[int]] = ..., departed: _Optional[_Iterable[int]] = ..., drained: bool = ..., steps: _Optional[_Iterable[_Union[EpochSteps, _Mapping]]] = ..., departed_rows: _Optional[_Iterable[int]] = ..., starts: _Optional[_Iterable[_Union[LaneStart, _Mapping]]] = ..., skipped: _Optional[_Iterable[_Union[SkippedRows, _Mapping]]] = ..., skipped_row_groups: _Optional[int] = ..., bad_data: bool = ..., checkpoint: _Optional[_Union[CheckpointOrder, _Mapping]] = ..., cause: _Optional[_Union[Cause, _Mapping]] = ...) -> None: ...

class Cause(_message.Message):
    __slots__ = ("bottleneck", "stage", "words")
    BOTTLENECK_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    bottleneck: Bottleneck
    stage: str
    words: str
    def __init__(self, bottleneck: _Optional[_Union[Bottleneck, str]] = ..., stage: _Optional[str] = ..., words: _Optional[str] = ...) -> None: ...

class CheckpointOrder(_message.Message):
    __slots__ = ("id", "name", "step", "batches")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: str
    step: int
    batches: int
    def __init__(self, id: _Optional[int] = ..., name: _Optional[str] = ..., step: _Optional[int] = ..., batches: _Optional[int] = ...) -> None: ...

class CheckpointPart(_message.Message):
    __slots__ = ("id", "state", "missed")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    id: int
    state: State
    missed: bool
    def __init__(self, id: _Optional[int] = ..., state: _Optional[_Union[State, _Mapping]] = ..., missed: bool = ...) -> None: ...

class ObserveRequest(_message.Message):
    __slots__ = ("session", "since_unix_ms", "workers")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SINCE_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    session: str
    since_unix_ms: int
    workers: bool
    def __init__(self, session: _Optional[str] = ..., since_unix_ms: _Optional[int] = ..., workers: bool = ...) -> None: ...

class Observation(_message.Message):
    __slots__ = ("now_unix_ms", "verdict", "bottleneck", "points", "sessions", "workers", "decision")
    NOW_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    BOTTLENECK_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    now_unix_ms: int
    verdict: str
    bottleneck: Bottleneck
    points: _containers.RepeatedCompositeFieldContainer[FleetPoint]
    sessions: _containers.RepeatedCompositeFieldContainer[SessionLoad]
    workers: _containers.RepeatedCompositeFieldContainer[WorkerLoad]
    decision: Decision
    def __init__(self, now_unix_ms: _Optional[int] = ..., verdict: _Optional[str] = ..., bottleneck: _Optional[_Union[Bottleneck, str]] = ..., points: _Optional[_Iterable[_Union[FleetPoint, _Mapping]]] = ..., sessions: _Optional[_Iterable[_Union[SessionLoad, _Mapping]]] = ..., workers: _Optional[_Iterable[_Union[WorkerLoad, _Mapping]]] = ..., decision: _Optional[_Union[Decision, _Mapping]] = ...) -> None: ...

class FleetPoint(_message.Message):
    __slots__ = ("unix_ms", "workers", "wanted", "needed", "demand", "capacity", "rate", "stall", "busy", "bytes_read", "bytes_sent", "bytes_cross_zone")
    UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    NEEDED_FIELD_NUMBER: _ClassVar[int]
    DEMAND_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    STALL_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    BYTES_READ_FIELD_NUMBER: _ClassVar[int]
    BYTES_SENT_FIELD_NUMBER: _ClassVar[int]
    BYTES_CROSS_ZONE_FIELD_NUMBER: _ClassVar[int]
    unix_ms: int
    workers: int
    wanted: int
    needed: float
    demand: float
    capacity: float
    rate: float
    stall: float
    busy: float
    bytes_read: float
    bytes_sent: float
    bytes_cross_zone: float
    def __init__(self, unix_ms: _Optional[int] = ..., workers: _Optional[int] = ..., wanted: _Optional[int] = ..., needed: _Optional[float] = ..., demand: _Optional[float] = ..., capacity: _Optional[float] = ..., rate: _Optional[float] = ..., stall: _Optional[float] = ..., busy: _Optional[float] = ..., bytes_read: _Optional[float] = ..., bytes_sent: _Optional[float] = ..., bytes_cross_zone: _Optional[float] = ...) -> None: ...

class SessionLoad(_message.Message):
    __slots__ = ("session", "namespace", "demand", "rate", "stall", "cost", "needed", "granted", "bottleneck", "stage", "verdict", "share", "trainers", "progress", "state", "stages", "points")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DEMAND_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    STALL_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    NEEDED_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    BOTTLENECK_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    TRAINERS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    session: str
    namespace: str
    demand: float
    rate: float
    stall: float
    cost: float
    needed: float
    granted: float
    bottleneck: Bottleneck
    stage: str
    verdict: str
    share: Share
    trainers: _containers.RepeatedCompositeFieldContainer[TrainerLoad]
    progress: Progress
    state: SessionState
    stages: _containers.RepeatedCompositeFieldContainer[StageTime]
    points: _containers.RepeatedCompositeFieldContainer[FleetPoint]
    def __init__(self, session: _Optional[str] = ..., namespace: _Optional[str] = ..., demand: _Optional[float] = ..., rate: _Optional[float] = ..., stall: _Optional[float] = ..., cost: _Optional[float] = ..., needed: _Optional[float] = ..., granted: _Optional[float] = ..., bottleneck: _Optional[_Union[Bottleneck, str]] = ..., stage: _Optional[str] = ..., verdict: _Optional[str] = ..., share: _Optional[_Union[Share, _Mapping]] = ..., trainers: _Optional[_Iterable[_Union[TrainerLoad, _Mapping]]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., state: _Optional[_Union[SessionState, str]] = ..., stages: _Optional[_Iterable[_Union[StageTime, _Mapping]]] = ..., points: _Optional[_Iterable[_Union[FleetPoint, _Mapping]]] = ...) -> None: ...

class TrainerLoad(_message.Message):
    __slots__ = ("rank", "present", "rate", "stall", "step_ns", "counters")
    RANK_FIELD_NUMBER: _ClassVar[int]
    PRESENT_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    STALL_FIELD_NUMBER: _ClassVar[int]
    STEP_NS_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    rank: int
    present: bool
    rate: float
    stall: float
    step_ns: int
    counters: Counters
    def __init__(self, rank: _Optional[int] = ..., present: bool = ..., rate: _Optional[float] = ..., stall: _Optional[float] = ..., step_ns: _Optional[int] = ..., counters: _Optional[_Union[Counters, _Mapping]] = ...) -> None: ...

class StageTime(_message.Message):
    __slots__ = ("stage", "seconds")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    stage: str
    seconds: float
    def __init__(self, stage: _Optional[str] = ..., seconds: _Optional[float] = ...) -> None: ...

class WorkerLoad(_message.Message):
    __slots__ = ("name", "address", "zone", "streams", "slots", "busy", "rate", "bytes_read", "bytes_sent", "memory_bytes", "memory_limit", "draining", "stages", "sessions")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    BYTES_READ_FIELD_NUMBER: _ClassVar[int]
    BYTES_SENT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    zone: str
    streams: int
    slots: int
    busy: float
    rate: float
    bytes_read: float
    bytes_sent: float
    memory_bytes: int
    memory_limit: int
    draining: bool
    stages: _containers.RepeatedCompositeFieldContainer[StageTime]
    sessions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., zone: _Optional[str] = ..., streams: _Optional[int] = ..., slots: _Optional[int] = ..., busy: _Optional[float] = ..., rate: _Optional[float] = ..., bytes_read: _Optional[float] = ..., bytes_sent: _Optional[float] = ..., memory_bytes: _Optional[int] = ..., memory_limit: _Optional[int] = ..., draining: bool = ..., stages: _Optional[_Iterable[_Union[StageTime, _Mapping]]] = ..., sessions: _Optional[_Iterable[str]] = ...) -> None: ...

class Decision(_message.Message):
    __slots__ = ("unix_ms", "to", "reason", "bottleneck", "demand", "capacity", "needed", "stall", "busy", "braked")
    UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BOTTLENECK_FIELD_NUMBER: _ClassVar[int]
    DEMAND_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    NEEDED_FIELD_NUMBER: _ClassVar[int]
    STALL_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    BRAKED_FIELD_NUMBER: _ClassVar[int]
    unix_ms: int
    to: int
    reason: str
    bottleneck: Bottleneck
    demand: float
    capacity: float
    needed: float
    stall: float
    busy: float
    braked: bool
    def __init__(self, unix_ms: _Optional[int] = ..., to: _Optional[int] = ..., reason: _Optional[str] = ..., bottleneck: _Optional[_Union[Bottleneck, str]] = ..., demand: _Optional[float] = ..., capacity: _Optional[float] = ..., needed: _Optional[float] = ..., stall: _Optional[float] = ..., busy: _Optional[float] = ..., braked: bool = ..., **kwargs) -> None: ...

class ListEventsRequest(_message.Message):
    __slots__ = ("session", "after", "limit")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    session: str
    after: int
    limit: int
    def __init__(self, session: _Optional[str] = ..., after: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class ListEventsReply(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    def __init__(self, events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("number", "unix_ms", "kind", "words", "session", "namespace", "rank", "worker", "decision", "lost")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    number: int
    unix_ms: int
    kind: EventKind
    words: str
    session: str
    namespace: str
    rank: int
    worker: str
    decision: Decision
    lost: int
    def __init__(self, number: _Optional[int] = ..., unix_ms: _Optional[int] = ..., kind: _Optional[_Union[EventKind, str]] = ..., words: _Optional[str] = ..., session: _Optional[str] = ..., namespace: _Optional[str] = ..., rank: _Optional[int] = ..., worker: _Optional[str] = ..., decision: _Optional[_Union[Decision, _Mapping]] = ..., lost: _Optional[int] = ...) -> None: ...

class WhoAmIRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Caller(_message.Message):
    __slots__ = ("subject", "namespace", "everywhere", "roles", "unlimited", "datasets", "storage", "max_sessions", "max_workers")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    EVERYWHERE_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    UNLIMITED_FIELD_NUMBER: _ClassVar[int]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    MAX_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_WORKERS_FIELD_NUMBER: _ClassVar[int]
    subject: str
    namespace: str
    everywhere: bool
    roles: _containers.RepeatedScalarFieldContainer[str]
    unlimited: bool
    datasets: _containers.RepeatedScalarFieldContainer[str]
    storage: _containers.RepeatedScalarFieldContainer[str]
    max_sessions: int
    max_workers: int
    def __init__(self, subject: _Optional[str] = ..., namespace: _Optional[str] = ..., everywhere: bool = ..., roles: _Optional[_Iterable[str]] = ..., unlimited: bool = ..., datasets: _Optional[_Iterable[str]] = ..., storage: _Optional[_Iterable[str]] = ..., max_sessions: _Optional[int] = ..., max_workers: _Optional[int] = ...) -> None: ...

class GetFleetRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Fleet(_message.Message):
    __slots__ = ("leader", "members", "streams")
    LEADER_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    leader: str
    members: _containers.RepeatedCompositeFieldContainer[FleetMember]
    streams: int
    def __init__(self, leader: _Optional[str] = ..., members: _Optional[_Iterable[_Union[FleetMember, _Mapping]]] = ..., streams: _Optional[int] = ...) -> None: ...

class FleetMember(_message.Message):
    __slots__ = ("role", "name", "address", "zone", "version", "slots", "draining")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    role: str
    name: str
    address: str
    zone: str
    version: str
    slots: int
    draining: bool
    def __init__(self, role: _Optional[str] = ..., name: _Optional[str] = ..., address: _Optional[str] = ..., zone: _Optional[str] = ..., version: _Optional[str] = ..., slots: _Optional[int] = ..., draining: bool = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("interval", "ticket", "rows", "lane", "first")
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    interval: Interval
    ticket: bytes
    rows: int
    lane: int
    first: int
    def __init__(self, interval: _Optional[_Union[Interval, _Mapping]] = ..., ticket: _Optional[bytes] = ..., rows: _Optional[int] = ..., lane: _Optional[int] = ..., first: _Optional[int] = ...) -> None: ...

class State(_message.Message):
    __slots__ = ("version", "session", "generation", "rank", "world_size", "base", "consumed", "closed_epochs", "program_digest", "dataset_digest", "base_version", "members", "departed", "planner_digest", "handed", "rows", "departed_rows", "global_batch", "start", "skipped_row_groups", "master_closed_epochs", "fingerprint", "foresees", "remembers")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    CONSUMED_FIELD_NUMBER: _ClassVar[int]
    CLOSED_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_DIGEST_FIELD_NUMBER: _ClassVar[int]
    DATASET_DIGEST_FIELD_NUMBER: _ClassVar[int]
    BASE_VERSION_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    DEPARTED_FIELD_NUMBER: _ClassVar[int]
    PLANNER_DIGEST_FIELD_NUMBER: _ClassVar[int]
    HANDED_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    DEPARTED_ROWS_FIELD_NUMBER: _ClassVar[int]
    GLOBAL_BATCH_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_ROW_GROUPS_FIELD_NUMBER: _ClassVar[int]
    MASTER_CLOSED_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    FORESEES_FIELD_NUMBER: _ClassVar[int]
    REMEMBERS_FIELD_NUMBER: _ClassVar[int]
    version: int
    session: str
    generation: int
    rank: int
    world_size: int
    base: _containers.RepeatedCompositeFieldContainer[Interval]
    consumed: _containers.RepeatedCompositeFieldContainer[Interval]
    closed_epochs: int
    program_digest: bytes
    dataset_digest: bytes
    base_version: int
    members: _containers.RepeatedScalarFieldContainer[int]
    departed: _containers.RepeatedScalarFieldContainer[int]
    planner_digest: bytes
    handed: int
    rows: int
    departed_rows: _containers.RepeatedScalarFieldContainer[int]
    global_batch: int
    start: LaneStart
    skipped_row_groups: int
    master_closed_epochs: int
    fingerprint: Fingerprint
    foresees: bool
    remembers: bool
    def __init__(self, version: _Optional[int] = ..., session: _Optional[str] = ..., generation: _Optional[int] = ..., rank: _Optional[int] = ..., world_size: _Optional[int] = ..., base: _Optional[_Iterable[_Union[Interval, _Mapping]]] = ..., consumed: _Optional[_Iterable[_Union[Interval, _Mapping]]] = ..., closed_epochs: _Optional[int] = ..., program_digest: _Optional[bytes] = ..., dataset_digest: _Optional[bytes] = ..., base_version: _Optional[int] = ..., members: _Optional[_Iterable[int]] = ..., departed: _Optional[_Iterable[int]] = ..., planner_digest: _Optional[bytes] = ..., handed: _Optional[int] = ..., rows: _Optional[int] = ..., departed_rows: _Optional[_Iterable[int]] = ..., global_batch: _Optional[int] = ..., start: _Optional[_Union[LaneStart, _Mapping]] = ..., skipped_row_groups: _Optional[int] = ..., master_closed_epochs: _Optional[int] = ..., fingerprint: _Optional[_Union[Fingerprint, _Mapping]] = ..., foresees: bool = ..., remembers: bool = ...) -> None: ...

class WorkerReport(_message.Message):
    __slots__ = ("name", "address", "streams", "slots", "memory_bytes", "counters", "cpus", "memory_limit", "sessions", "zone")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    streams: int
    slots: int
    memory_bytes: int
    counters: WorkerCounters
    cpus: float
    memory_limit: int
    sessions: _containers.RepeatedCompositeFieldContainer[SessionCounters]
    zone: str
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., streams: _Optional[int] = ..., slots: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., counters: _Optional[_Union[WorkerCounters, _Mapping]] = ..., cpus: _Optional[float] = ..., memory_limit: _Optional[int] = ..., sessions: _Optional[_Iterable[_Union[SessionCounters, _Mapping]]] = ..., zone: _Optional[str] = ...) -> None: ...

class WorkerCounters(_message.Message):
    __slots__ = ("rows", "bytes_read", "bytes_sent", "storage_ns", "decode_ns", "transform_ns", "tensor_ns", "send_ns", "requests", "bytes_needed", "open_ns", "blocked_ns", "cpu_ns", "bytes_cross_zone", "ops", "bytes_lent", "bytes_linked", "untrusted_indexes")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_READ_FIELD_NUMBER: _ClassVar[int]
    BYTES_SENT_FIELD_NUMBER: _ClassVar[int]
    STORAGE_NS_FIELD_NUMBER: _ClassVar[int]
    DECODE_NS_FIELD_NUMBER: _ClassVar[int]
    TRANSFORM_NS_FIELD_NUMBER: _ClassVar[int]
    TENSOR_NS_FIELD_NUMBER: _ClassVar[int]
    SEND_NS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    BYTES_NEEDED_FIELD_NUMBER: _ClassVar[int]
    OPEN_NS_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_NS_FIELD_NUMBER: _ClassVar[int]
    CPU_NS_FIELD_NUMBER: _ClassVar[int]
    BYTES_CROSS_ZONE_FIELD_NUMBER: _ClassVar[int]
    OPS_FIELD_NUMBER: _ClassVar[int]
    BYTES_LENT_FIELD_NUMBER: _ClassVar[int]
    BYTES_LINKED_FIELD_NUMBER: _ClassVar[int]
    UNTRUSTED_INDEXES_FIELD_NUMBER: _ClassVar[int]
    rows: int
    bytes_read: int
    bytes_sent: int
    storage_ns: int
    decode_ns: int
    transform_ns: int
    tensor_ns: int
    send_ns: int
    requests: int
    bytes_needed: int
    open_ns: int
    blocked_ns: int
    cpu_ns: int
    bytes_cross_zone: int
    ops: _containers.RepeatedCompositeFieldContainer[OpTime]
    bytes_lent: int
    bytes_linked: int
    untrusted_indexes: int
    def __init__(self, rows: _Optional[int] = ..., bytes_read: _Optional[int] = ..., bytes_sent: _Optional[int] = ..., storage_ns: _Optional[int] = ..., decode_ns: _Optional[int] = ..., transform_ns: _Optional[int] = ..., tensor_ns: _Optional[int] = ..., send_ns: _Optional[int] = ..., requests: _Optional[int] = ..., bytes_needed: _Optional[int] = ..., open_ns: _Optional[int] = ..., blocked_ns: _Optional[int] = ..., cpu_ns: _Optional[int] = ..., bytes_cross_zone: _Optional[int] = ..., ops: _Optional[_Iterable[_Union[OpTime, _Mapping]]] = ..., bytes_lent: _Optional[int] = ..., bytes_linked: _Optional[int] = ..., untrusted_indexes: _Optional[int] = ...) -> None: ...

class OpTime(_message.Message):
    __slots__ = ("op", "ns")
    OP_FIELD_NUMBER: _ClassVar[int]
    NS_FIELD_NUMBER: _ClassVar[int]
    op: str
    ns: int
    def __init__(self, op: _Optional[str] = ..., ns: _Optional[int] = ...) -> None: ...

class SessionCounters(_message.Message):
    __slots__ = ("session", "counters", "namespace")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    session: str
    counters: WorkerCounters
    namespace: str
    def __init__(self, session: _Optional[str] = ..., counters: _Optional[_Union[WorkerCounters, _Mapping]] = ..., namespace: _Optional[str] = ...) -> None: ...

class WorkerOrders(_message.Message):
    __slots__ = ("drain", "keys")
    class KeysEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    drain: bool
    keys: _containers.ScalarMap[str, bytes]
    def __init__(self, drain: bool = ..., keys: _Optional[_Mapping[str, bytes]] = ...) -> None: ...

class Block(_message.Message):
    __slots__ = ("epoch", "index", "shards")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    index: int
    shards: _containers.RepeatedCompositeFieldContainer[Shard]
    def __init__(self, epoch: _Optional[int] = ..., index: _Optional[int] = ..., shards: _Optional[_Iterable[_Union[Shard, _Mapping]]] = ...) -> None: ...

class Shard(_message.Message):
    __slots__ = ("file", "row_groups")
    FILE_FIELD_NUMBER: _ClassVar[int]
    ROW_GROUPS_FIELD_NUMBER: _ClassVar[int]
    file: _stream_pb2.File
    row_groups: _containers.RepeatedCompositeFieldContainer[_stream_pb2.RowGroup]
    def __init__(self, file: _Optional[_Union[_stream_pb2.File, _Mapping]] = ..., row_groups: _Optional[_Iterable[_Union[_stream_pb2.RowGroup, _Mapping]]] = ...) -> None: ...

class ListingPage(_message.Message):
    __slots__ = ("files",)
    FILES_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[_stream_pb2.File]
    def __init__(self, files: _Optional[_Iterable[_Union[_stream_pb2.File, _Mapping]]] = ...) -> None: ...

class BlockPart(_message.Message):
    __slots__ = ("parts", "zstd")
    PARTS_FIELD_NUMBER: _ClassVar[int]
    ZSTD_FIELD_NUMBER: _ClassVar[int]
    parts: int
    zstd: bytes
    def __init__(self, parts: _Optional[int] = ..., zstd: _Optional[bytes] = ...) -> None: ...

class SessionMeta(_message.Message):
    __slots__ = ("session", "listing_pages", "planner_version", "planner")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    LISTING_PAGES_FIELD_NUMBER: _ClassVar[int]
    PLANNER_VERSION_FIELD_NUMBER: _ClassVar[int]
    PLANNER_FIELD_NUMBER: _ClassVar[int]
    session: Session
    listing_pages: int
    planner_version: int
    planner: PlannerConfig
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ..., listing_pages: _Optional[int] = ..., planner_version: _Optional[int] = ..., planner: _Optional[_Union[PlannerConfig, _Mapping]] = ...) -> None: ...

class PlannerConfig(_message.Message):
    __slots__ = ("block_bytes", "first_block_bytes", "block_files", "shard_bytes", "window_bytes")
    BLOCK_BYTES_FIELD_NUMBER: _ClassVar[int]
    FIRST_BLOCK_BYTES_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FILES_FIELD_NUMBER: _ClassVar[int]
    SHARD_BYTES_FIELD_NUMBER: _ClassVar[int]
    WINDOW_BYTES_FIELD_NUMBER: _ClassVar[int]
    block_bytes: int
    first_block_bytes: int
    block_files: int
    shard_bytes: int
    window_bytes: int
    def __init__(self, block_bytes: _Optional[int] = ..., first_block_bytes: _Optional[int] = ..., block_files: _Optional[int] = ..., shard_bytes: _Optional[int] = ..., window_bytes: _Optional[int] = ...) -> None: ...

class SessionHead(_message.Message):
    __slots__ = ("generation", "frontier", "returned", "base", "closed_epochs", "world_size", "failure", "base_version", "blocks", "epochs", "seen_blocks", "seen_shards", "restore_attempt", "restore_round", "restore_world_size", "restored", "steps", "begun", "promised", "skipped", "skipped_before", "bad_data", "checkpoint", "restored_from", "restored_by", "heard_unix_ms", "steps_closed")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    FRONTIER_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    CLOSED_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    BASE_VERSION_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    SEEN_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    SEEN_SHARDS_FIELD_NUMBER: _ClassVar[int]
    RESTORE_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    RESTORE_ROUND_FIELD_NUMBER: _ClassVar[int]
    RESTORE_WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    RESTORED_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    PROMISED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    BAD_DATA_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    RESTORED_FROM_FIELD_NUMBER: _ClassVar[int]
    RESTORED_BY_FIELD_NUMBER: _ClassVar[int]
    HEARD_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    STEPS_CLOSED_FIELD_NUMBER: _ClassVar[int]
    generation: int
    frontier: Position
    returned: _containers.RepeatedCompositeFieldContainer[Interval]
    base: _containers.RepeatedCompositeFieldContainer[Interval]
    closed_epochs: int
    world_size: int
    failure: str
    base_version: int
    blocks: _containers.RepeatedCompositeFieldContainer[PlannedBlock]
    epochs: _containers.RepeatedCompositeFieldContainer[PlannedEpoch]
    seen_blocks: int
    seen_shards: int
    restore_attempt: int
    restore_round: int
    restore_world_size: int
    restored: int
    steps: _containers.RepeatedCompositeFieldContainer[EpochSteps]
    begun: RankSteps
    promised: int
    skipped: _containers.RepeatedCompositeFieldContainer[SkippedRows]
    skipped_before: int
    bad_data: bool
    checkpoint: PendingCheckpoint
    restored_from: RestoredFrom
    restored_by: str
    heard_unix_ms: int
    steps_closed: int
    def __init__(self, generation: _Optional[int] = ..., frontier: _Optional[_Union[Position, _Mapping]] = ..., returned: _Optional[_Iterable[_Union[Interval, _Mapping]]] = ..., base: _Optional[_Iterable[_Union[Interval, _Mapping]]] = ..., closed_epochs: _Optional[int] = ..., world_size: _Optional[int] = ..., failure: _Optional[str] = ..., base_version: _Optional[int] = ..., blocks: _Optional[_Iterable[_Union[PlannedBlock, _Mapping]]] = ..., epochs: _Optional[_Iterable[_Union[PlannedEpoch, _Mapping]]] = ..., seen_blocks: _Optional[int] = ..., seen_shards: _Optional[int] = ..., restore_attempt: _Optional[int] = ..., restore_round: _Optional[int] = ..., restore_world_size: _Optional[int] = ..., restored: _Optional[int] = ..., steps: _Optional[_Iterable[_Union[EpochSteps, _Mapping]]] = ..., begun: _Optional[_Union[RankSteps, _Mapping]] = ..., promised: _Optional[int] = ..., skipped: _Optional[_Iterable[_Union[SkippedRows, _Mapping]]] = ..., skipped_before: _Optional[int] = ..., bad_data: bool = ..., checkpoint: _Optional[_Union[PendingCheckpoint, _Mapping]] = ..., restored_from: _Optional[_Union[RestoredFrom, _Mapping]] = ..., restored_by: _Optional[str] = ..., heard_unix_ms: _Optional[int] = ..., steps_closed: _Optional[int] = ...) -> None: ...

class PendingCheckpoint(_message.Message):
    __slots__ = ("id", "name", "nonce", "created_unix", "step", "tries", "retried", "failed")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    CREATED_UNIX_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    RETRIED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: str
    nonce: str
    created_unix: int
    step: int
    tries: int
    retried: str
    failed: bool
    def __init__(self, id: _Optional[int] = ..., name: _Optional[str] = ..., nonce: _Optional[str] = ..., created_unix: _Optional[int] = ..., step: _Optional[int] = ..., tries: _Optional[int] = ..., retried: _Optional[str] = ..., failed: bool = ...) -> None: ...

class PlannedBlock(_message.Message):
    __slots__ = ("epoch", "index", "blocks", "shards", "lane_rows")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    LANE_ROWS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    index: int
    blocks: int
    shards: int
    lane_rows: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, epoch: _Optional[int] = ..., index: _Optional[int] = ..., blocks: _Optional[int] = ..., shards: _Optional[int] = ..., lane_rows: _Optional[_Iterable[int]] = ...) -> None: ...

class PlannedEpoch(_message.Message):
    __slots__ = ("epoch", "blocks", "planned", "rows", "lane_rows")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    PLANNED_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    LANE_ROWS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    blocks: int
    planned: int
    rows: int
    lane_rows: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, epoch: _Optional[int] = ..., blocks: _Optional[int] = ..., planned: _Optional[int] = ..., rows: _Optional[int] = ..., lane_rows: _Optional[_Iterable[int]] = ...) -> None: ...

class SessionRank(_message.Message):
    __slots__ = ("incarnation", "nonce", "held", "consumed", "departed", "counters", "generation", "kind", "revision", "releasing", "asked", "expired", "revoked", "earlier", "restoring", "steps", "begun", "joined", "heard", "may_repeat", "at_risk", "begun_step", "checkpoint", "told")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    CONSUMED_FIELD_NUMBER: _ClassVar[int]
    DEPARTED_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    RELEASING_FIELD_NUMBER: _ClassVar[int]
    ASKED_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    EARLIER_FIELD_NUMBER: _ClassVar[int]
    RESTORING_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    JOINED_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    MAY_REPEAT_FIELD_NUMBER: _ClassVar[int]
    AT_RISK_FIELD_NUMBER: _ClassVar[int]
    BEGUN_STEP_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    incarnation: int
    nonce: str
    held: _containers.RepeatedCompositeFieldContainer[Interval]
    consumed: _containers.RepeatedCompositeFieldContainer[Interval]
    departed: bool
    counters: Counters
    generation: int
    kind: JoinKind
    revision: int
    releasing: _containers.RepeatedCompositeFieldContainer[Interval]
    asked: int
    expired: bool
    revoked: _containers.RepeatedCompositeFieldContainer[Interval]
    earlier: Counters
    restoring: RankRestore
    steps: RankSteps
    begun: RankSteps
    joined: int
    heard: int
    may_repeat: int
    at_risk: int
    begun_step: int
    checkpoint: CheckpointPart
    told: _containers.RepeatedCompositeFieldContainer[EpochSteps]
    def __init__(self, incarnation: _Optional[int] = ..., nonce: _Optional[str] = ..., held: _Optional[_Iterable[_Union[Interval, _Mapping]]] = ..., consumed: _Optional[_Iterable[_Union[Interval, _Mapping]]] = ..., departed: bool = ..., counters: _Optional[_Union[Counters, _Mapping]] = ..., generation: _Optional[int] = ..., kind: _Optional[_Union[JoinKind, str]] = ..., revision: _Optional[int] = ..., releasing: _Optional[_Iterable[_Union[Interval, _Mapping]]] = ..., asked: _Optional[int] = ..., expired: bool = ..., revoked: _Optional[_Iterable[_Union[Interval, _Mapping]]] = ..., earlier: _Optional[_Union[Counters, _Mapping]] = ..., restoring: _Optional[_Union[RankRestore, _Mapping]] = ..., steps: _Optional[_Union[RankSteps, _Mapping]] = ..., begun: _Optional[_Union[RankSteps, _Mapping]] = ..., joined: _Optional[int] = ..., heard: _Optional[int] = ..., may_repeat: _Optional[int] = ..., at_risk: _Optional[int] = ..., begun_step: _Optional[int] = ..., checkpoint: _Optional[_Union[CheckpointPart, _Mapping]] = ..., told: _Optional[_Iterable[_Union[EpochSteps, _Mapping]]] = ...) -> None: ...

class RankRestore(_message.Message):
    __slots__ = ("attempt", "round", "nonce", "states", "base_of")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    BASE_OF_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    round: int
    nonce: str
    states: _containers.RepeatedCompositeFieldContainer[State]
    base_of: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, attempt: _Optional[int] = ..., round: _Optional[int] = ..., nonce: _Optional[str] = ..., states: _Optional[_Iterable[_Union[State, _Mapping]]] = ..., base_of: _Optional[_Iterable[int]] = ...) -> None: ...
