"""Agreement of a group's processes while they write one checkpoint: process 0 collects, decides, and broadcasts.

Saves are numbered in the order of their calls, which is the same in all processes, whatever else these exchange
meanwhile.

They agree in two rounds: on the tree, then on the commit.
"""

import itertools
import json
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias, cast, final

from effx.errors import CheckpointError, DistributedError, EffxError, ProcessMismatchError
from effx.lower.placement.processes import Group, current_group

Message: TypeAlias = dict[str, object]

# In which saves are done, one after another: two of one directory would remove each other's arrays.
queue = ThreadPoolExecutor(1, "effx-checkpoint")
_numbers = itertools.count()
_ERRORS: dict[str, type[EffxError]] = {
    "CheckpointError": CheckpointError,
    "ProcessMismatchError": ProcessMismatchError,
}


@final
class SaveAgreement:
    """One save's part in what the processes exchange.

    Attributes:
        number: of this process.
        count: how many processes there are.
    """

    def __init__(self, function_name: str, seconds: float = math.inf) -> None:
        group = current_group[0] if current_group else None
        self._what, self._seconds = function_name, seconds
        self._group: Group | None = group if group is not None and group.num_processes > 1 else None
        # Saves have keys of their own, since background saves run concurrently with `multihost_utils`.
        self._key, self._round = f"effx/checkpoints/{next(_numbers)}", 0
        self.number = 0 if group is None else group.process_id
        self.count = 1 if group is None else group.num_processes

    def settle(self, mine: Message, decide: Callable[[Sequence[Message]], Message]) -> Message:
        """Sends a message to process 0, and returns what it makes of all processes' messages.

        Args:
            mine: with "error" where this process has failed.
            decide: called in process 0. What it raises is raised in all.

        Raises:
            DistributedError: a process has failed.
            TimeoutError: the time is over.
            CheckpointError: a process has failed, or process 0 decides so; and other errors of effx.
        """
        group = self._group
        if group is None:
            return decide([mine])
        key = f"{self._key}/{self._round}"
        self._round += 1
        if self.number != 0:
            group.put(f"{key}/{self.number}", json.dumps(mine).encode())
            return self._read_answer(json.loads(group.get(self._what, f"{key}/all", 0, self._seconds)))
        everyone = [mine]
        for k in range(1, self.count):
            everyone.append(json.loads(group.get(self._what, f"{key}/{k}", k, self._seconds)))
            group.delete(f"{key}/{k}")
        if self._round > 1:
            # Who sends a message has read the last answer; only that of the last round stays, a few bytes.
            group.delete(f"{self._key}/{self._round - 2}/all")
        try:
            answer = decide(everyone)
        except BaseException as error:
            message = error.message if isinstance(error, EffxError) else f"{type(error).__name__}: {error}"
            failed = {"error": message, "kind": type(error).__name__}
            group.put(f"{key}/all", json.dumps(failed).encode())
            raise
        group.put(f"{key}/all", json.dumps(answer).encode())
        return answer

    def refuse(self, error: EffxError) -> None:
        """Notifies the other processes, instead of a first message, that this one cannot save."""
        if self._group is None:
            return
        message = {
            "error": f"{self._what}: {_process_failure(self.number, self.count, self._what, error.message)}"
        }
        if self.number == 0:
            self._group.put(f"{self._key}/0/all", json.dumps({**message, "kind": "CheckpointError"}).encode())
        else:
            self._group.put(f"{self._key}/0/{self.number}", json.dumps({"error": error.message}).encode())

    def _read_answer(self, answer: Message) -> Message:
        if "error" not in answer:
            return answer
        kind = _ERRORS.get(cast("str", answer["kind"]), DistributedError)
        raise kind(cast("str", answer["error"]))


def check_no_failure(function_name: str, everyone: Sequence[Message]) -> None:
    """Checks that no process has failed.

    Raises:
        CheckpointError: one has.
    """
    for k, message in enumerate(everyone):
        if "error" in message:
            raise CheckpointError(
                f"{function_name}: {_process_failure(k, len(everyone), function_name, cast('str', message['error']))}"
            )


def _process_failure(number: int, count: int, function_name: str, message: str) -> str:
    return f"process {number} of {count} failed: {message.removeprefix(f'{function_name}: ')}"
