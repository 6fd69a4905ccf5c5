from effx.tree.levels import *
from effx.tree.mapping import *
from effx.tree.partial import Partial as Partial
from effx.tree.prefixes import (
    broadcast_prefix as broadcast_prefix,
    flatten_up_to as flatten_up_to,
    keystr as keystr,
    prefix_errors as prefix_errors,
)
from effx.tree.registry import (
    DictKey as DictKey,
    FlattenedIndexKey as FlattenedIndexKey,
    GetAttrKey as GetAttrKey,
    IsLeaf as IsLeaf,
    KeyEntry as KeyEntry,
    KeyPath as KeyPath,
    PyTree as PyTree,
    PyTreeDef as PyTreeDef,
    Registry as Registry,
    SequenceKey as SequenceKey,
    dispatch as dispatch,
    flatten as flatten,
    is_record as is_record,
    register_fields as register_fields,
    register_leaf as register_leaf,
    register_node as register_node,
    register_record as register_record,
    static as static,
    users as users,
)
