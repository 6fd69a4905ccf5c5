"""Donated arguments of a jitted function: find them among a call's arrays, check them, and warn of unused ones."""

from collections.abc import Callable, Sequence

from effx.array import Array
from effx.errors import DonatedArrayError, TransformError, warn_user
from effx.lower.placement.concrete import ConcreteArray
from effx.lower.runtime.donated_memory import find_unused_donations
from effx.lower.runtime.executables import Executable
from effx.tracing.arguments import StaticArguments, argument_path, positional_parameter_names
from effx.transforms.jit.options import Options, valid_argument_numbers
from effx.tree.registry import PyTreeDef, flatten


def donation_flags(
    where: tuple[str, str],
    options: Options,
    dynamic: tuple[object, ...],
    named: dict[str, object],
    static: StaticArguments,
    leaves: int,
) -> tuple[bool, ...]:
    """Returns for each dynamic leaf whether the user donated it.

    Args:
        where: the transformation and the function's name, for errors.
        options: the function's options.
        dynamic, named: the dynamic arguments, positional and by keyword.
        static: the static arguments.
        leaves: the number of arrays in dynamic arguments.

    Raises:
        TransformError: an argument is static as well, counted from the other end.
    """
    if not options.donate_argnums and not options.donate_argnames:
        return (False,) * leaves
    fixed = {number for number, _ in static if isinstance(number, int)}
    count = len(dynamic) + len(fixed)
    donated = valid_argument_numbers(options.donate_argnums, count)
    if donated & fixed:
        raise TransformError(
            f"{where[0]}: arguments cannot be both static and donated: {sorted(donated & fixed)} of the "
            f"{count} positional arguments of {where[1]}"
        )
    flags: list[bool] = []
    for i, a in zip([i for i in range(count) if i not in fixed], dynamic, strict=True):
        flags += [i in donated] * len(flatten(a)[0])
    for key in sorted(named):
        flags += [key in options.donate_argnames] * len(flatten(named[key])[0])
    return tuple(flags)


def check_captured(
    where: tuple[str, str],
    closed_over: Sequence[Array],
    donated: Sequence[bool],
    arrays: Sequence[ConcreteArray],
) -> None:
    """Checks that no array is deleted, and that no donated array is also closed over by the function.

    Args:
        where: the transformation and the function's name, for errors.
        closed_over: the arrays that the function closes over.
        donated: for each argument whether it is donated. arrays: the arguments.

    Raises:
        DonatedArrayError: with the array's type.
    """
    transform_name, name = where
    for x in arrays:
        x._check_alive(name)
    captured = [c for c in closed_over if type(c) is ConcreteArray]
    for c in captured:
        if c.is_deleted():
            raise DonatedArrayError(
                f"{transform_name}: {name} closes over the array {c.type!r}, which was donated to a "
                f"computation or deleted; keep a copy, or pass it as an argument"
            )
    for x, is_donated in zip(arrays, donated, strict=True):
        if is_donated and any([x.buffer is c.buffer for c in captured]):
            raise DonatedArrayError(
                f"{transform_name}: {name} closes over the array {x.type!r} that it is given as a donated "
                f"argument; donate a copy, or leave it out of donate_argnums"
            )


def check_donated_once(
    where: tuple[str, str], used: Sequence[bool], donated: Sequence[bool], arrays: Sequence[ConcreteArray]
) -> None:
    """Checks that no donated array is passed as another argument too.

    Args:
        where: the transformation and the function's name, for errors.
        used: for each argument whether it is passed.
        donated: for each argument whether it is donated. arrays: the arguments.

    Raises:
        DonatedArrayError: with the array's type.
    """
    passed = [
        (x, is_donated) for x, is_used, is_donated in zip(arrays, used, donated, strict=True) if is_used
    ]
    for i, (x, is_donated) in enumerate(passed):
        if is_donated and any([x.buffer is y.buffer for j, (y, _) in enumerate(passed) if j != i]):
            raise DonatedArrayError(
                f"{where[0]}: {where[1]} is given the array {x.type!r} twice, once as a donated argument; "
                f"donate a copy, or leave it out of donate_argnums"
            )


def warn_unused_donations(
    where: tuple[str, str],
    fun: Callable[..., object],
    options: Options,
    tree: PyTreeDef,
    executable: Executable,
    donated: Sequence[bool],
) -> None:
    """Warns, after compilation, of donated arguments whose memory no result reuses.

    Args:
        where: the transformation and the function's name.
        fun: the function. options: its options.
        tree: the structure of the dynamic arguments `(args, kwargs)`.
        executable: the compiled program.
        donated: for each leaf of the arguments whether it is donated.
    """
    unused_leaves = find_unused_donations(executable, donated)
    if not unused_leaves:
        return
    names = positional_parameter_names(fun)
    fixed = valid_argument_numbers(options.static_argnums, len(names))
    dynamic = [name for i, name in enumerate(names) if i not in fixed]
    index_tree = tree.unflatten(range(len(donated)))
    shown = [f"{argument_path(index_tree, i, dynamic)} {executable.in_types[i]!r}" for i in unused_leaves[:4]]
    more = f" and {len(unused_leaves) - 4} more" if len(unused_leaves) > 4 else ""
    types = ", ".join([executable.in_types[i].str_short() for i in unused_leaves])
    # Programs filter the warning by its first words, which are those that users of JAX know.
    warn_user(
        f"Some donated buffers were not usable: {types}.\n"
        f"{where[0]}: {where[1]} cannot reuse the donated memory of {', '.join(shown)}{more}: no result takes it; "
        f"leave it out of donate_argnums"
    )
