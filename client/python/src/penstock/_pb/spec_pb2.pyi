from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Order(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ORDER_UNSPECIFIED: _ClassVar[Order]
    FAST: _ClassVar[Order]
    DETERMINISTIC: _ClassVar[Order]

class LastBatch(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LAST_BATCH_UNSPECIFIED: _ClassVar[LastBatch]
    UNEVEN: _ClassVar[LastBatch]
    DROP: _ClassVar[LastBatch]
    PAD: _ClassVar[LastBatch]

class Layout(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LAYOUT_UNSPECIFIED: _ClassVar[Layout]
    DENSE: _ClassVar[Layout]
    SPARSE: _ClassVar[Layout]
    LABEL: _ClassVar[Layout]
    BYTES: _ClassVar[Layout]
    IMAGE: _ClassVar[Layout]

class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KIND_UNSPECIFIED: _ClassVar[Kind]
    BOOL: _ClassVar[Kind]
    INT32: _ClassVar[Kind]
    INT64: _ClassVar[Kind]
    FLOAT32: _ClassVar[Kind]
    FLOAT64: _ClassVar[Kind]
    BINARY: _ClassVar[Kind]
    PICTURE: _ClassVar[Kind]
ORDER_UNSPECIFIED: Order
FAST: Order
DETERMINISTIC: Order
LAST_BATCH_UNSPECIFIED: LastBatch
UNEVEN: LastBatch
DROP: LastBatch
PAD: LastBatch
LAYOUT_UNSPECIFIED: Layout
DENSE: Layout
SPARSE: Layout
LABEL: Layout
BYTES: Layout
IMAGE: Layout
KIND_UNSPECIFIED: Kind
BOOL: Kind
INT32: Kind
INT64: Kind
FLOAT32: Kind
FLOAT64: Kind
BINARY: Kind
PICTURE: Kind

class Spec(_message.Message):
    __slots__ = ("dataset", "filter", "features", "transforms", "batch_size", "last_batch", "seed", "shuffle", "epochs", "provenance", "order", "lanes", "global_batch_size", "on_error")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    TRANSFORMS_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    LAST_BATCH_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    GLOBAL_BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    ON_ERROR_FIELD_NUMBER: _ClassVar[int]
    dataset: Dataset
    filter: str
    features: _containers.RepeatedCompositeFieldContainer[Feature]
    transforms: _containers.RepeatedCompositeFieldContainer[Transform]
    batch_size: int
    last_batch: LastBatch
    seed: int
    shuffle: bool
    epochs: int
    provenance: bool
    order: Order
    lanes: int
    global_batch_size: int
    on_error: OnError
    def __init__(self, dataset: _Optional[_Union[Dataset, _Mapping]] = ..., filter: _Optional[str] = ..., features: _Optional[_Iterable[_Union[Feature, _Mapping]]] = ..., transforms: _Optional[_Iterable[_Union[Transform, _Mapping]]] = ..., batch_size: _Optional[int] = ..., last_batch: _Optional[_Union[LastBatch, str]] = ..., seed: _Optional[int] = ..., shuffle: bool = ..., epochs: _Optional[int] = ..., provenance: bool = ..., order: _Optional[_Union[Order, str]] = ..., lanes: _Optional[int] = ..., global_batch_size: _Optional[int] = ..., on_error: _Optional[_Union[OnError, _Mapping]] = ...) -> None: ...

class OnError(_message.Message):
    __slots__ = ("skip",)
    SKIP_FIELD_NUMBER: _ClassVar[int]
    skip: int
    def __init__(self, skip: _Optional[int] = ...) -> None: ...

class Dataset(_message.Message):
    __slots__ = ("uri", "storage", "partitions")
    URI_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    uri: _containers.RepeatedScalarFieldContainer[str]
    storage: str
    partitions: str
    def __init__(self, uri: _Optional[_Iterable[str]] = ..., storage: _Optional[str] = ..., partitions: _Optional[str] = ...) -> None: ...

class Feature(_message.Message):
    __slots__ = ("name", "layout", "weights", "shape", "default")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_FIELD_NUMBER: _ClassVar[int]
    name: _containers.RepeatedScalarFieldContainer[str]
    layout: Layout
    weights: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    default: Value
    def __init__(self, name: _Optional[_Iterable[str]] = ..., layout: _Optional[_Union[Layout, str]] = ..., weights: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., default: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class Transform(_message.Message):
    __slots__ = ("op", "out", "params")
    class ParamsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    OP_FIELD_NUMBER: _ClassVar[int]
    IN_FIELD_NUMBER: _ClassVar[int]
    OUT_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    op: str
    out: str
    params: _containers.MessageMap[str, Value]
    def __init__(self, op: _Optional[str] = ..., out: _Optional[str] = ..., params: _Optional[_Mapping[str, Value]] = ..., **kwargs) -> None: ...

class Value(_message.Message):
    __slots__ = ("int", "float", "text", "bool", "list", "floats", "ints")
    INT_FIELD_NUMBER: _ClassVar[int]
    FLOAT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    BOOL_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    FLOATS_FIELD_NUMBER: _ClassVar[int]
    INTS_FIELD_NUMBER: _ClassVar[int]
    int: int
    float: float
    text: str
    bool: bool
    list: List
    floats: Floats
    ints: Ints
    def __init__(self, int: _Optional[int] = ..., float: _Optional[float] = ..., text: _Optional[str] = ..., bool: bool = ..., list: _Optional[_Union[List, _Mapping]] = ..., floats: _Optional[_Union[Floats, _Mapping]] = ..., ints: _Optional[_Union[Ints, _Mapping]] = ...) -> None: ...

class List(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, values: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class Floats(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, values: _Optional[_Iterable[float]] = ...) -> None: ...

class Ints(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, values: _Optional[_Iterable[int]] = ...) -> None: ...

class Type(_message.Message):
    __slots__ = ("kind", "list", "picture")
    KIND_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    PICTURE_FIELD_NUMBER: _ClassVar[int]
    kind: Kind
    list: bool
    picture: Picture
    def __init__(self, kind: _Optional[_Union[Kind, str]] = ..., list: bool = ..., picture: _Optional[_Union[Picture, _Mapping]] = ...) -> None: ...

class Picture(_message.Message):
    __slots__ = ("channels", "height", "width", "shorter", "floats")
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    SHORTER_FIELD_NUMBER: _ClassVar[int]
    FLOATS_FIELD_NUMBER: _ClassVar[int]
    channels: int
    height: int
    width: int
    shorter: int
    floats: bool
    def __init__(self, channels: _Optional[int] = ..., height: _Optional[int] = ..., width: _Optional[int] = ..., shorter: _Optional[int] = ..., floats: bool = ...) -> None: ...

class Program(_message.Message):
    __slots__ = ("storage", "sources", "filter", "steps", "outputs", "seed", "shuffle", "provenance")
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    storage: str
    sources: _containers.RepeatedCompositeFieldContainer[Source]
    filter: str
    steps: _containers.RepeatedCompositeFieldContainer[Step]
    outputs: _containers.RepeatedCompositeFieldContainer[Output]
    seed: int
    shuffle: bool
    provenance: bool
    def __init__(self, storage: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[Source, _Mapping]]] = ..., filter: _Optional[str] = ..., steps: _Optional[_Iterable[_Union[Step, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[Output, _Mapping]]] = ..., seed: _Optional[int] = ..., shuffle: bool = ..., provenance: bool = ...) -> None: ...

class Source(_message.Message):
    __slots__ = ("name", "path", "key", "type", "default", "meaning")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_FIELD_NUMBER: _ClassVar[int]
    MEANING_FIELD_NUMBER: _ClassVar[int]
    name: str
    path: _containers.RepeatedScalarFieldContainer[str]
    key: str
    type: Type
    default: Value
    meaning: str
    def __init__(self, name: _Optional[str] = ..., path: _Optional[_Iterable[str]] = ..., key: _Optional[str] = ..., type: _Optional[_Union[Type, _Mapping]] = ..., default: _Optional[_Union[Value, _Mapping]] = ..., meaning: _Optional[str] = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("op", "version", "params", "outs", "name", "at", "type")
    class ParamsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    OP_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    IN_FIELD_NUMBER: _ClassVar[int]
    OUTS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    op: str
    version: int
    params: _containers.MessageMap[str, Value]
    outs: int
    name: str
    at: str
    type: Type
    def __init__(self, op: _Optional[str] = ..., version: _Optional[int] = ..., params: _Optional[_Mapping[str, Value]] = ..., outs: _Optional[int] = ..., name: _Optional[str] = ..., at: _Optional[str] = ..., type: _Optional[_Union[Type, _Mapping]] = ..., **kwargs) -> None: ...

class Output(_message.Message):
    __slots__ = ("name", "layout", "slots", "columns", "weights", "shape", "type")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    layout: Layout
    slots: _containers.RepeatedScalarFieldContainer[int]
    columns: _containers.RepeatedScalarFieldContainer[str]
    weights: int
    shape: _containers.RepeatedScalarFieldContainer[int]
    type: Type
    def __init__(self, name: _Optional[str] = ..., layout: _Optional[_Union[Layout, str]] = ..., slots: _Optional[_Iterable[int]] = ..., columns: _Optional[_Iterable[str]] = ..., weights: _Optional[int] = ..., shape: _Optional[_Iterable[int]] = ..., type: _Optional[_Union[Type, _Mapping]] = ...) -> None: ...
