"""The shapes and options that families of expressions have in common."""

from effx.ir.types import Shape

Shapes = list[tuple[Shape, ...]]


def call_each(names: str, arguments: str = "x0", module: str = "enp", part: str = "") -> list[str]:
    """Returns a call of each function of a module with the same arguments."""
    return [f"{module}.{name}({arguments}){part}" for name in names.split()]


ANY: Shapes = [((3,),), ((),), ((2, 3),), ((1,),), ((0,),)]
ROWS: Shapes = [((3,),), ((4,),), ((1,),)]
MATRICES: Shapes = [((2, 3),), ((3, 2),), ((1, 4),), ((3, 1),)]
EMPTY: Shapes = [((0,),), ((0, 3),), ((2, 0),)]
ARRAYS: Shapes = [*ROWS, *MATRICES, ((2, 1, 3),)]
SQUARES: Shapes = [((2, 2),), ((3, 3),), ((1, 1),), ((2, 2, 2),)]
PAIRS: Shapes = [
    ((3,), (3,)),
    ((), ()),
    ((2, 3), (3,)),
    ((3,), ()),
    ((2, 1), (1, 3)),
    ((0,), (1,)),
    ((1,), (2, 2)),
    ((2, 1, 2), (3, 1)),
]
TRIPLES: Shapes = [((3,), (3,), (3,)), ((2, 3), (3,), ()), ((), (), (2,)), ((2, 1), (1, 2), (2,))]
AXES = ("0", "-1", "None")
BOOLEANS = ("True", "False")
