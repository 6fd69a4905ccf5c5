"""The awaitable future of saving and loading in the background, which has the tree's structure."""

import asyncio
import contextvars
from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future
from typing import Generic, TypeVar, final

from effx.errors import EffxError, current_source, set_error_position
from effx.tree.registry import PyTree

T = TypeVar("T")


@final
class PyTreeFuture(Future[T], Generic[T]):
    """A future of what is saved or loaded in the background; `await` works too.

    What fails in the background is raised by `result` and `await`. It cannot be cancelled: other processes take part.

    Attributes:
        pytree: the tree with a ShapeDtypeStruct for each array.
    """

    def __init__(self, pytree: PyTree) -> None:
        super().__init__()
        self.pytree = pytree
        self.set_running_or_notify_cancel()

    def __await__(self) -> Generator[object, None, T]:
        return asyncio.wrap_future(self).__await__()


def start_in_background(executor: Executor, pytree: PyTree, work: Callable[[], T]) -> PyTreeFuture[T]:
    """Starts work in the background, with the settings that are in force here."""
    result: PyTreeFuture[T] = PyTreeFuture(pytree)
    around, source = contextvars.copy_context(), current_source()

    def do() -> None:
        try:
            result.set_result(around.run(work))
        except EffxError as error:
            # In this thread there is no line of the user's.
            set_error_position(error, source)
            result.set_exception(error)
        except BaseException as error:  # noqa: BLE001  raised by `result`
            result.set_exception(error)

    executor.submit(do)
    return result
