"""StableHLO text of random bits.

Never: use the platform's own generator, whose bits would differ from platform to platform.
"""

from effx import dtypes
from effx.ir.ops.random import Threefry2x32
from effx.ir.program import Atom, Var
from effx.ir.types import array_type
from effx.lower.text.emit import Body, Module, emits

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


@emits(Threefry2x32)
def threefry2x32(
    body: Body, op: Threefry2x32, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    t = outputs[0].type
    module = body.module
    function = module.shared_function(
        (Threefry2x32, t), "threefry2x32", lambda name: _function(module, name, t.shape)
    )
    names = [body.fit(a, t.shape) for a in inputs]
    x, y = body.call_function(function, names, [t] * 4, [t] * 2)
    return x, y


def _function(module: Module, name: str, shape: tuple[int, ...]) -> str:
    # The cipher adds a key word to each counter word, then runs five groups of four mixing
    # rounds; after each group the next two of three key words are added, and the group's number.
    t = array_type(dtypes.uint32, shape)
    body = Body(module)

    def apply(operation: str, x: str, y: str) -> str:
        return body.line(f"stablehlo.{operation} {x}, {y} : {t.mlir}")

    k0, k1 = "%arg0", "%arg1"
    k2 = apply("xor", apply("xor", k0, k1), body.constant(PARITY, t))
    keys = (k0, k1, k2)
    x, y = apply("add", "%arg2", k0), apply("add", "%arg3", k1)
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x = apply("add", x, y)
            left = apply("shift_left", y, body.constant(rotation, t))
            right = apply("shift_right_logical", y, body.constant(32 - rotation, t))
            y = apply("xor", apply("or", left, right), x)
        x = apply("add", x, keys[(group + 1) % 3])
        y = apply("add", apply("add", y, keys[(group + 2) % 3]), body.constant(group + 1, t))
    arguments = ", ".join(module.arguments([t] * 4))
    return "\n".join(
        (
            f"  func.func private @{name}({arguments}) -> ({t.mlir}, {t.mlir}) {{",
            *body.lines,
            f"    return {x}, {y} : {t.mlir}, {t.mlir}",
            "  }",
        )
    )
