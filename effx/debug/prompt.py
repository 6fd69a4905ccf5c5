"""A prompt on stopped frames, with the commands of pdb that make sense for values that do not change."""

import cmd
import pprint
import sys
from bdb import BdbQuit
from collections.abc import Sequence
from typing import IO

from effx.debug.frames import StoppedFrame

__all__ = ["Prompt", "stop"]


class Prompt(cmd.Cmd):
    """Reads commands until one resumes the program.

    Args:
        frames: innermost first.
        stdin, stdout: the files of commands and answers.
        completekey: the key that completes a command.
    """

    prompt = "(effx) "

    def __init__(
        self,
        frames: Sequence[StoppedFrame],
        stdin: IO[str] | None = None,
        stdout: IO[str] | None = None,
        completekey: str = "tab",
    ) -> None:
        super().__init__(completekey, stdin, stdout)
        self.use_rawinput = stdin is None
        self.frames = list(frames)
        self.index = 0

    @property
    def frame(self) -> StoppedFrame:
        """The current frame."""
        return self.frames[self.index]

    def run(self) -> None:
        """Reads commands until the user resumes the program.

        Raises:
            BdbQuit: the user quits.
        """
        self.cmdloop("stopped at " + self.frame.where())

    def say(self, text: object) -> None:
        """Writes a line."""
        self.stdout.write(f"{text}\n")

    def value(self, expression: str, show: bool) -> None:
        """Computes and shows an expression."""
        try:
            evaluated = self.frame.evaluate(expression)
            self.say(pprint.pformat(evaluated) if show else repr(evaluated))
        except Exception as error:  # noqa: BLE001 - the user's expression may raise anything
            self.say(f"*** {type(error).__name__}: {error}")

    def move(self, by: int) -> None:
        """Looks at another frame."""
        index = self.index + by
        if not 0 <= index < len(self.frames):
            self.say("*** there is no frame further " + ("out" if by > 0 else "in"))
            return
        self.index = index
        self.say(self.frame.where())

    def emptyline(self) -> bool:
        """Does nothing."""
        return False

    def default(self, line: str) -> None:
        """Takes what is no command for an expression."""
        if line == "EOF":
            self.say("")
            raise BdbQuit
        self.value(line.removeprefix("!"), False)

    def do_p(self, arg: str) -> None:
        """P expression: shows the value of an expression of the frame's variables."""
        self.value(arg, False)

    def do_pp(self, arg: str) -> None:
        """Pp expression: shows a value on several lines."""
        self.value(arg, True)

    def do_list(self, arg: str) -> None:
        """l(ist): shows the lines of source around the place."""
        self.say(self.frame.listing())

    def do_where(self, arg: str) -> None:
        """w(here), bt: shows all frames, the innermost last."""
        for i in reversed(range(len(self.frames))):
            self.say(("> " if i == self.index else "  ") + self.frames[i].where())

    def do_args(self, arg: str) -> None:
        """a(rgs): shows the frame's variables."""
        self.say(self.frame.text())

    def do_up(self, arg: str) -> None:
        """u(p): looks at the caller's frame."""
        self.move(1)

    def do_down(self, arg: str) -> None:
        """d(own): looks at the frame that was called."""
        self.move(-1)

    def do_continue(self, arg: str) -> bool:
        """c(ontinue): goes on with the program."""
        return True

    def do_quit(self, arg: str) -> bool:
        """q(uit): ends the program with bdb.BdbQuit."""
        raise BdbQuit

    do_l, do_w, do_bt, do_a, do_u, do_d = do_list, do_where, do_where, do_args, do_up, do_down
    do_c = do_cont = do_continue
    do_q = do_exit = do_quit


def stop(
    frames: Sequence[StoppedFrame], stdin: IO[str] | None, stdout: IO[str] | None, completekey: str
) -> None:
    """Opens a prompt where somebody can answer; else writes the innermost frame."""
    if stdin is None and not (sys.stdin is not None and sys.stdin.isatty()):
        (stdout or sys.stdout).write(f"breakpoint at {frames[0].text()}\n")
        return
    Prompt(frames, stdin, stdout, completekey).run()
