from effx.tree import (
    DictKey as DictKey,
    FlattenedIndexKey as FlattenedIndexKey,
    GetAttrKey as GetAttrKey,
    KeyPath as KeyPath,
    Partial as Partial,
    PyTree as PyTree,
    PyTreeDef as PyTreeDef,
    SequenceKey as SequenceKey,
    all_leaves as all_leaves,
    broadcast_prefix as broadcast_prefix,
    flatten_up_to as flatten_up_to,
    keystr as keystr,
    prefix_errors as prefix_errors,
    register_leaf as register_leaf,
    treedef_children as treedef_children,
    treedef_is_leaf as treedef_is_leaf,
    treedef_tuple as treedef_tuple,
)
from effx.tree_util.registering import *
from effx.tree_util.renamed import *
