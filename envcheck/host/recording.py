"""A machine's answers in a file: `RecordingHost` writes down what a host says, `ReplayHost` says it again anywhere."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from envcheck.facts.record import record
from envcheck.facts.secrets import mask_values
from envcheck.host.access import READ_LIMIT, Completed, Host
from envcheck.host.syscalls import Disk, Resolved, Trial

Answers = Mapping[str, Any]


def _same(answer: Any) -> Any:
    return answer


@record
class Question:
    """One method of `Host` in a recording. All but the last are given the arguments of the call."""

    key: Callable[..., str]  # under which the answer is kept
    restored: Callable[..., Any]  # (what is kept, *arguments) → the answer
    absent: Callable[..., Any]  # (all that is kept, *arguments) → the answer where none is kept: no file, no binary
    kept: Callable[[Any], Any] = _same  # the answer → JSON


def _of_path(name: str, restored: Callable[..., Any], absent: Callable[..., Any], kept: Callable[[Any], Any] = _same) -> Question:
    """A question about one path or name."""
    return Question(lambda path, *_, **__: f"{name} {path}", restored, absent, kept)


def _of_machine(name: str, restored: Callable[..., Any], absent: Callable[..., Any], kept: Callable[[Any], Any] = _same) -> Question:
    """A question that a machine has one answer to, whatever the arguments."""
    return Question(lambda *_, **__: name, restored, absent, kept)


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _names(answer: Any, *_: Any, **__: Any) -> tuple[Any, ...]:
    return tuple(answer)


def _in_pairs(answer: Any) -> tuple[tuple[Any, Any], ...]:
    return tuple((first, second) for first, second in answer)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _fields(answer: Any) -> dict[str, Any] | None:
    return None if answer is None else dict(answer._asdict())


def _completed(done: Completed) -> dict[str, Any]:
    return {
        "code": done.code, "stdout": done.stdout, "stderr": done.stderr, "seconds": _rounded(done.seconds), "timed_out": done.timed_out,
        "not_found": done.not_found, "not_executable": done.not_executable,
    }  # fmt: skip


# In the order of `Host`.
QUESTIONS: Mapping[str, Question] = {
    "run": Question(
        lambda argv, **_: "run " + "\0".join(argv),
        lambda answer, argv, **_: Completed(tuple(argv), **answer),
        lambda _, argv, **__: Completed(tuple(argv), not_found=True),
        _completed,
    ),
    "read": _of_path("read", lambda answer, path, limit=READ_LIMIT: str(answer)[:limit], _nothing),
    "listdir": _of_path("listdir", _names, _nothing),
    "exists": _of_path(
        "exists",
        lambda answer, path: bool(answer),
        lambda answers, path: any(answers.get(f"{verb} {path}") is not None for verb in ("read", "listdir")),
    ),
    "realpath": _of_path("realpath", lambda answer, path: str(answer), lambda _, path: path),
    "access": Question(lambda path, mode: f"access {mode} {path}", lambda answer, *_: bool(answer), lambda *_: False),
    "which": _of_path("which", lambda answer, name: str(answer), _nothing),
    "readlink": _of_path("readlink", lambda answer, path: str(answer), _nothing),
    "variables_of": Question(
        lambda pid, names: f"variables_of {pid} {' '.join(names)}", lambda answer, *_: dict(answer), lambda *_: {}, dict
    ),
    "platform": _of_machine("platform", _same, lambda _: {}, dict),
    "cpus": _of_machine("cpus", _names, lambda _: (None, None)),
    "groups": _of_machine("groups", _names, lambda _: ()),
    "limits": _of_machine(
        "limits", lambda answer: dict(_in_pairs((name, tuple(pair)) for name, pair in answer.items())), lambda _: {}, dict
    ),
    "disk": _of_path("disk", lambda answer, path: Disk(**answer), _nothing, _fields),
    # Where no trial is kept, a file system that gives what it is asked for.
    "allocate_shm": _of_machine("allocate_shm", lambda answer, size: Trial(**answer), lambda _, size: Trial(size, size), _fields),
    "resolve": _of_path(
        "resolve",
        lambda answer, *_, **__: Resolved(**{**answer, "addresses": tuple(answer.get("addresses", ()))}),
        lambda *_, **__: Resolved((), "not recorded"),
        lambda answer: {**answer._asdict(), "seconds": _rounded(answer.seconds)},
    ),
    "reverse": _of_machine("reverse", lambda answer, *_, **__: float(answer), _nothing, _rounded),
    "full_name": _of_path("full_name", lambda answer, *_, **__: str(answer), _nothing),
    "addresses": _of_machine("addresses", _in_pairs, lambda _: ()),
    "links": _of_machine("links", lambda answer: tuple(tuple(row) for row in answer), lambda _: ()),
    "today": _of_machine("today", str, _nothing),
    "clock": _of_machine("clock", str, _nothing),
    "libraries": _of_path("libraries", _names, lambda *_: ()),
    # Arguments name folders of this installation; the program alone is the question.
    "child": _of_path(
        "child",
        lambda answer, program, *rest, **_: Completed((program, *rest), **answer),
        lambda _, program, *rest, **__: Completed((program, *rest), not_found=True),
        _completed,
    ),
}


class ReplayHost:
    """A recorded machine: a `Host` whose every method is a row of QUESTIONS.

    `answers` uses their keys ("read /proc/meminfo", "run nvidia-smi\\0-L", "which nvcc").
    """

    def __init__(self, answers: Answers, env: Mapping[str, str] | None = None) -> None:
        self._answers = answers
        self._env = dict(env or {})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ReplayHost:
        with open(path, encoding="utf-8") as file:
            recorded = json.load(file)
        return cls(recorded["answers"], recorded.get("env", {}))

    @property
    def env(self) -> Mapping[str, str]:
        return self._env

    def __getattr__(self, name: str) -> Any:
        if name not in QUESTIONS:
            raise AttributeError(name)
        question = QUESTIONS[name]

        def replay(*arguments: Any, **options: Any) -> Any:
            answer = self._answers.get(question.key(*arguments, **options))
            if answer is None:
                return question.absent(self._answers, *arguments, **options)
            return question.restored(answer, *arguments, **options)

        return replay


class Variables(Mapping[str, str]):
    """Variables that keep those that are asked for by name: the others are nobody's business."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.given = given
        self.asked: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        value = self.asked[name] = self.given[name]
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self.given)

    def __len__(self) -> int:
        return len(self.given)


class RecordingHost:
    """A `Host` that keeps every answer of another one, and gives it as a replay would: what is rounded there is rounded here."""

    def __init__(self, inner: Host) -> None:
        self.inner = inner
        self.env = Variables(inner.env)
        self.answers: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name not in QUESTIONS:
            raise AttributeError(name)
        question, ask = QUESTIONS[name], getattr(self.inner, name)

        def keep(*arguments: Any, **options: Any) -> Any:
            key = question.key(*arguments, **options)
            # Two probes ask for one file (/proc/meminfo), at two moments: a recording has one answer, and both get it.
            self.answers.setdefault(key, question.kept(ask(*arguments, **options)))
            return getattr(ReplayHost(self.answers), name)(*arguments, **options)

        return keep

    def rendered(self) -> str:
        """The recording as a file: passwords, tokens and the values of variables that are named after a secret are masked."""
        masked = mask_values({"env": self.env.asked, "answers": self.answers})
        return json.dumps(masked, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
