"""The table of laws, docs/tables/laws.md: each with its statement and the test that holds it."""

from effx.laws.registry import AREAS, LAWS

TEST = "property_tests/test_laws.py"
PORTABLE_TEST = "property_tests/test_portable_laws.py"
HEAD = """# Laws

Written by `python -m effx.laws > docs/tables/laws.md`; a test fails when it is stale.

{count} laws in {areas} areas. Each is a function of `effx.laws.LAWS` that checks one case; hypothesis draws the
cases. All run on effx itself, as `{test}::test_law[name]`; the laws of the areas that begin with
"user", and those of operations, are what `check_handler`, `check_transform`, `check_rules` and `check_operation`
run on yours. Laws marked *XLA* compile their cases; the others run on the NumPy reference.

`f` is a random program with calls, branches and loops, `x` a random point; `D f(x) v` is the derivative along `v`,
`<a, b>` the pairing, `h f` what a handler makes of a program.
"""

PORTABLE_HEAD = """
## Laws of any implementation

{count} laws are stated against an interface that effx fills, and adapters of JAX and PyTorch (`effx.laws.portable`, extra
`peers`): `python -m effx.laws --against jax --minutes 60` runs them there. On effx they run as
`{test}::test_law[name]`. Their programs are random ones, and {families} families of
expressions; a law of special points runs a table of functions. What they found is in
[laws-against-jax.md](../laws-against-jax.md).

| law | statement | sources of cases |
|---|---|---|
"""


def render() -> str:
    """Returns the page.

    >>> render().splitlines()[0]
    '# Laws'
    """
    parts = [HEAD.format(count=len(LAWS), areas=len(AREAS), test=TEST)]
    for area in AREAS:
        laws = [law for law in LAWS.values() if law.area == area]
        rows = [
            f"| `{law.name}` | {law.statement.replace('|', chr(92) + '|')} | {'XLA' if law.compiles else 'NumPy'} "
            f"| `test_law[{law.name}]` |"
            for law in laws
        ]
        head = f"\n## {area[0].upper()}{area[1:]}\n\n| law | statement | on | test |\n|---|---|---|---|"
        parts.append("\n".join([head, *rows]))
    return "\n".join(parts) + "\n" + _render_portable_laws()


def _render_portable_laws() -> str:
    # Here, because these laws need mpmath and SciPy, which the others do not.
    from effx.laws.portable import PORTABLE_LAWS, of_effx
    from effx.laws.portable.families import FAMILIES

    effx = of_effx()
    rows = [
        f"| `{law.name}` | {law.statement} | {len(law.sources(effx))} |\n" for law in PORTABLE_LAWS.values()
    ]
    head = PORTABLE_HEAD.format(count=len(PORTABLE_LAWS), families=len(FAMILIES), test=PORTABLE_TEST)
    return head + "".join(rows)
