"""Split functions with custom rules: like calls, without their rules. jvp has applied the rules already
where a derivative was needed. Tangents with only a known transpose are not split.
"""

from effx.handlers.linear.control import split_call
from effx.handlers.linear.partial_eval import OperationParts, splitter
from effx.ir.ops.control import Call
from effx.ir.ops.custom import CustomCall


@splitter(CustomCall)
def split_custom_call(op: CustomCall, linear_in: tuple[bool, ...], must_run_once: bool) -> OperationParts:
    return split_call(Call(op.program), linear_in, must_run_once)
