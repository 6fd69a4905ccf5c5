"""Why effx differs from JAX: patterns of expressions and differences, with a reason each, reviewed."""

import re

NUMPYS = "as NumPy"
LIMIT = "the value at infinity is the limit; JAX has a NaN"
INTEGERS = "integers are taken as floats; JAX refuses them"
LISTS = "lists are taken, as by NumPy"
STATIC_INDEX = "an index that is known and out of range is an error, as in NumPy"
OLDER = "with JAX 0.10"
"""Begins the reasons that the newest JAX does not need."""
NEWER = "since JAX 0.12"
"""Begins the reasons that only the newest needs."""
WEAK = "weakness is that of the promotion of the operands"

REASONS: list[tuple[str, str, str]] = [
    (r"np\.(around|round)\(B\)", "error", "bools stay what they are"),
    (r"np\.(around|round)\(I, -1\)", "error", NUMPYS),
    (r".*np\.fix.*", "AttributeError", "NumPy has it; JAX has removed it"),
    (r"np\.modf\(F\)", "value 0", "the fraction of an infinity is 0, as in NumPy"),
    (r"np\.sinc\(F\)", "value 0", f"{NEWER}: NaN at infinity, as in NumPy"),
    (r"np\.sinc\(H\)", "value 0", f"{NEWER}: rounded in 16 bits"),
    (r"np\.spacing\(H\)", "value 0", "has the sign of the number, as NumPy's of wider floats"),
    (r"(np\.(arctan2|atan2)|lax\.atan2)\(C, C2\)", "error", "complex numbers have no quadrant, as in NumPy"),
    (
        r"(np\.(arcsinh|asinh)|lax\.asinh)\(C\)",
        "value 1",
        "on its branch cut the real part has the sign of the argument's, a negative zero, as in NumPy",
    ),
    (
        r"np\.(equal|greater|greater_equal|less|less_equal|not_equal)\(I, 2\.5\)",
        "weak type",
        "bools are never weak",
    ),
    (r"np\.(heaviside|logaddexp2)\(I, 2\.5\)", "weak type", WEAK),
    (r"jax\.scipy\.(special|stats)\..*\(I, .*", "weak type", WEAK),
    (r"jax\.nn\.\w+\(I\)", "weak type", "floats that come from integers are not weak"),
    (r"np\.fmod\(B, B2\)", "value", "the remainder of True by True is 0"),
    (
        r"np\.(pow|power)\(I, U\)",
        "value",
        "2**200 has no lower 32 bits; JAX takes the exponent's lowest bits",
    ),
    (r"lax\.abs\(U\)", "error", "the size of an unsigned integer is itself"),
    (
        r"(lax|jax\.scipy\.special)\.digamma\(F\)",
        "value 4",
        "infinite with the sign of the limit, as in SciPy",
    ),
    (
        r"jax\.scipy\.special\.(beta|betaln|poch|zeta)\((F, F2|I, 2\.0)\)",
        "value",
        "poles, and operands below 0, as in SciPy",
    ),
    (
        r".*jax\.scipy\.special\.factorial.*\(G\b.*",
        "value 2",
        "near a zero of digamma effx keeps more digits",
    ),
    (r"jax\.random\.multivariate_normal\(.*dtype='float16'\)", "dtype", "the dtype that is asked for"),
    (
        r"(lax\.igammac|jax\.scipy\.special\.gammaincc)\(F, F2\)",
        "value 11",
        f"{OLDER}: of two infinities not a number, as in SciPy",
    ),
    (
        r"(lax\.igammac?|jax\.scipy\.special\.gammainc)\(F, (F2|2\.0)\)",
        "value 11",
        f"{OLDER}: the limit at infinity, and of two infinities not a number, as in SciPy",
    ),
    (r"(lax|jax\.scipy\.special)\.digamma\([HI]\)", "value", f"{OLDER}: infinite at 0, as in SciPy"),
    (r"jax\.scipy\.special\.(exp1\(F|expi\(I)\)", "value", f"{OLDER}: {LIMIT}"),
    (r"jax\.scipy\.special\.rel_entr\(F, F2\)", "value 12", f"{OLDER}: NaN of NaN"),
    (r"np\.hypot\(I, 2\.5\)", "weak type", f"{OLDER}: {WEAK}"),
    (r"np\.nanmedian\(E.*\)", "error", f"{OLDER}: NaN of nothing, as in NumPy"),
    (r"np\.(top_k|minmax)\(.*\)", "AttributeError", f"{OLDER}: newer functions"),
    (r".*(np\.spacing|nextafter).*", "NotImplementedError", f"{OLDER}: effx has the derivative"),
    (r".*jax\.scipy\.special\.exp1\(x\).*", "No constant handler", f"{OLDER}: effx has the derivative"),
    (r"jax\.scipy\.stats\.(truncnorm|uniform)\.\w+\(F.*\)", "value 12: nan", f"{OLDER}: NaN of NaN"),
    (r"jax\.random\.multinomial\(.*", "error", f"{OLDER}: shape is that of the batch"),
    (r"jax\.jit\(lambda: lax\.clz\(I\)\)\(\)", "value 0", f"{OLDER}: a negative number has no leading zeros"),
    (r"jax\.scipy\.special\.(expi|spence)\(F\)", "value", LIMIT),
    (r"jax\.scipy\.special\.(log_ndtr|ndtr|ndtri|spence)\(I\)", "error", INTEGERS),
    (r"jax\.nn\.(glu|sigmoid|silu|swish)\(I\)", "error", INTEGERS),
    (r"jax\.nn\.squareplus\(F\)", "value 0", LIMIT),
    (r"jax\.nn\.standardize\(H\)", "value", "16-bit floats are summed in 32 bits"),
    (r"np\.(nan)?arg(max|min)\(MC.*\)", "error", "complex numbers are ordered, as in NumPy"),
    (r"np\.var\(.*dtype='int32'\)", "dtype", "the dtype that is asked for, as in NumPy"),
    (r"np\.(arg)?partition\(W, ?3\)", "value", "the order on each side is not defined"),
    (r"np\.(delete|insert|histogram)\(.*\[.*", "error|structure", LISTS),
    (r"np\.polyfit\(W,X,2\)", "value", "the coefficient is 0 but for rounding"),
    (r".*\[-?10\].*", "IndexingError", STATIC_INDEX),
    (r".*jax\.scipy\.special\.i1\(x\).*", "value", "more digits, by a series of its own"),
    (r"jax\.scipy\.stats\.\w+\.(log)?pdf\(F.*\)", "value", LIMIT),
    (
        r"jax\.scipy\.stats\.\w+\.(log)?pmf\(P.*\)",
        "value",
        "between integers the probability is 0, as in SciPy",
    ),
    (
        r"jax\.random\.\w+\(jax\.random\.PRNGKey\(3\).*dtype='float16'\)",
        "value|error",
        "16-bit floats are drawn in 32 bits",
    ),
    (r"jax\.vmap\(lambda M: lax\.ragged_dot.*", "error", "JAX maps over the first axis only"),
    (r"jax\.jvp\(lambda P: lax\.(betainc|igamma_grad_a).*", "error", "effx has the derivative"),
    (r"lax\.pad\(W,0,\[\(0,0,0\)\]\)", "error", "a Python number takes the operand's dtype"),
    (
        r"jax\.random\.randint\(jax\.random\.key\(0\),\(2,\),0\.5,3\)",
        "error",
        "a bound that is no integer is an error",
    ),
]
"""A pattern of the whole expression, one that the difference contains, and the reason."""

_used: set[int] = set()


def find_reason(text: str, difference: str) -> str | None:
    """Returns the reason for a difference; None if there is none yet."""
    for i, (expression, pattern, reason) in enumerate(REASONS):
        if re.fullmatch(expression, text) and re.search(pattern, difference):
            _used.add(i)
            return reason
    return None


def unused_reasons() -> list[str]:
    """Returns the patterns of reasons for which no difference was found."""
    return [
        expression
        for i, (expression, _, reason) in enumerate(REASONS)
        if i not in _used and not reason.startswith((OLDER, NEWER))
    ]
