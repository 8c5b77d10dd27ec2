"""The exceptions that reach `cli.main`, and what their messages propose."""

from __future__ import annotations

from collections.abc import Iterable

INTERRUPTING = ("SIGINT", "SIGTERM", "SIGHUP")
# What else people, terminals, batch systems and limits send to end a program, which a caller may use for himself.
ENDING_TOO = ("SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGXCPU")


class UsageError(Exception):
    """What the user asked for cannot be done; the message is one line and ends up on stderr with exit 2."""


class MachineFault(UsageError):
    """What the machine refuses to the check, whoever asked for what: no reason for `envcheck run` not to start a command."""


class EndedBySignal(Exception):
    """A command of the user's was: we end by the same signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def raise_if_of_a_signal(error: Exception) -> None:
    """Raise what a signal raised while a class was being made: Python before 3.12 puts it into a RuntimeError there."""
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, KeyboardInterrupt | SystemExit):
        raise error.__cause__ from None


MEANT = {"cn": "zh", "chinese": "zh", "mandarin": "zh", "中文": "zh"}  # names of what is known under another word


def near_word(word: str, known: Iterable[str]) -> str | None:
    """What was probably meant: what alone begins so, else what is spelled much like it."""
    import difflib

    word, names = word.lower(), sorted(known)
    if MEANT.get(word) in names:
        return MEANT[word]
    begun = [one for one in names if len(word) > 2 and one.startswith(word)]
    longer = [one for one in names if len(one) > 1 and word.startswith(one)]  # "zh-hans" of zh
    return begun[0] if len(begun) == 1 else next(iter([*difflib.get_close_matches(word, names, 1, 0.55), *longer]), None)
