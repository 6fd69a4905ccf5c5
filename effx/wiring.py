"""Connect the ports of `effx.ports` to their modules: the only module that may import any layer, on first use.

Never: be imported but by the package itself, nor import a module of effx before it is used.
"""

from types import ModuleType

from effx import ports

__all__: list[str] = []


def _array_methods_arithmetic() -> ModuleType:
    from effx.array import arithmetic

    return arithmetic


def _array_methods_creation() -> ModuleType:
    from effx.numpy import creation

    return creation


def _array_methods_display() -> ModuleType:
    from effx.viewing import arrays

    return arrays


def _array_methods_indexing() -> ModuleType:
    from effx.array import indexing

    return indexing


def _array_methods_inspection() -> ModuleType:
    from effx.numpy import inspection

    return inspection


def _array_methods_numpy() -> ModuleType:
    from effx import numpy

    return numpy


def _array_methods_operators() -> ModuleType:
    from effx.array import operators

    return operators


def _array_methods_out_sharding() -> ModuleType:
    from effx.transforms.placement import out_sharding

    return out_sharding


def _array_methods_promotion() -> ModuleType:
    from effx.array import promotion

    return promotion


def _array_methods_reducing() -> ModuleType:
    from effx.array import reducing

    return reducing


def _array_methods_shaping() -> ModuleType:
    from effx.array import shaping

    return shaping


def _array_methods_sorting() -> ModuleType:
    from effx.numpy import sorting

    return sorting


def _evaluation_outermost() -> ModuleType:
    from effx.handlers.evaluate import outermost

    return outermost


def _export_writing() -> ModuleType:
    from effx.export import writing

    return writing


def _flags_flags() -> ModuleType:
    from effx import flags

    return flags


def _loops_loops() -> ModuleType:
    from effx.lax.control import loops

    return loops


def _meshes_named() -> ModuleType:
    from effx.transforms.placement import meshes

    return meshes


def _meshes_shardings() -> ModuleType:
    from effx.lower.placement import shardings

    return shardings


def _ordered_effects_tokens() -> ModuleType:
    from effx.handlers.authoring import tokens

    return tokens


def _padding_functions() -> ModuleType:
    from effx.library.padding import functions

    return functions


def _padding_handler() -> ModuleType:
    from effx.library.padding import handler

    return handler


def _program_views_viewing() -> ModuleType:
    from effx import viewing

    return viewing


def _random_keys_reuse() -> ModuleType:
    from effx.random import reuse

    return reuse


def _refs_discharge() -> ModuleType:
    from effx.handlers import refs

    return refs


def _sizes_bounds() -> ModuleType:
    from effx.ir.sizes import bounds

    return bounds


def _sizes_division() -> ModuleType:
    from effx.ir.sizes import division

    return division


def _sizes_evaluation() -> ModuleType:
    from effx.ir.sizes import evaluation

    return evaluation


def _sizes_operations() -> ModuleType:
    from effx.ir.ops import sizes

    return sizes


def _sizes_shape_text() -> ModuleType:
    from effx.ir.sizes import shape_text

    return shape_text


def _sparse_transform() -> ModuleType:
    from effx.experimental.sparse import transform

    return transform


ports.array_methods.connect(
    arithmetic=_array_methods_arithmetic,
    creation=_array_methods_creation,
    display=_array_methods_display,
    indexing=_array_methods_indexing,
    inspection=_array_methods_inspection,
    numpy=_array_methods_numpy,
    operators=_array_methods_operators,
    out_sharding=_array_methods_out_sharding,
    promotion=_array_methods_promotion,
    reducing=_array_methods_reducing,
    shaping=_array_methods_shaping,
    sorting=_array_methods_sorting,
)
ports.evaluation.connect(outermost=_evaluation_outermost)
ports.export.connect(writing=_export_writing)
ports.flags.connect(flags=_flags_flags)
ports.loops.connect(loops=_loops_loops)
ports.meshes.connect(named=_meshes_named, shardings=_meshes_shardings)
ports.ordered_effects.connect(tokens=_ordered_effects_tokens)
ports.padding.connect(functions=_padding_functions, handler=_padding_handler)
ports.program_views.connect(viewing=_program_views_viewing)
ports.random_keys.connect(reuse=_random_keys_reuse)
ports.refs.connect(discharge=_refs_discharge)
ports.sizes.connect(
    bounds=_sizes_bounds,
    division=_sizes_division,
    evaluation=_sizes_evaluation,
    operations=_sizes_operations,
    shape_text=_sizes_shape_text,
)
ports.sparse.connect(transform=_sparse_transform)
