"""Commands that start processes, as people paste them: of a shell, a job script, a notebook, in a sentence.

    $ CUDA_VISIBLE_DEVICES=1,2 torchrun --nproc_per_node=4 \\        srun -n 8 python start.py   # start.py calls: deepspeed main.py
        train.py --lr 0.1                                           !accelerate launch --num_processes 2 train.py

A number that the text leaves to a variable ("--nproc_per_node $GPUS") is not known. What a program, a page or a hint advises was not
started: "use torchrun", "usage: torchrun [-h]".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts.launch_flags import find, names, own, plain
from envcheck.facts.record import mutable, record, replace
from envcheck.facts.secrets import mask_secrets, mask_words
from envcheck.facts.snapshot import LaunchCommand

MOST = 16  # commands of a text
_WORDS = 200  # of a command
_NEAR = 3  # lines above a command in which the script that it is a part of may be named

_NAMES = (
    "torchrun", "deepspeed", "accelerate launch", "mpirun", "mpiexec", "srun", "salloc", "sbatch", "horovodrun", "vllm serve", "fabric run",
    "lightning run", "ray start", "python", "colossalai run",
)  # fmt: skip
_START = re.compile(
    r"(?<![\w./=\\-])(?:[\w.~-]{0,40}/){0,8}(?P<name>torchrun|deepspeed|accelerate launch|mpirun|mpiexec|srun|salloc|sbatch|horovodrun"
    r"|vllm serve|(?:fabric|lightning) run(?: model)?|ray start|python[\d.]{0,5}(?:\.exe)?)(?= )"
)
_MODULES = {
    "torch.distributed.run": "torch.distributed.run",
    "torch.distributed.launch": "torch.distributed.launch",
    "accelerate.commands.launch": "accelerate",
    "vllm.entrypoints.openai.api_server": "vllm",
}
_KINDS = {"mpiexec": "mpirun", "accelerate launch": "accelerate", "vllm serve": "vllm", "ray start": "ray"}
# Flags that take no value, by which the script behind them is told from a value.
_ALONE = frozenset({
    "standalone", "use-env", "no-python", "run-path", "module", "no-local-rank", "multi-gpu", "use-deepspeed", "use-fsdp", "cpu",
    "debug", "quiet", "exclusive", "pty", "label", "unbuffered", "overlap", "oversubscribe", "allow-run-as-root", "tag-output",
    "report-bindings", "use-hwthread-cpus", "no-kill", "wait-all-nodes", "force-multi", "head", "block", "same-network", "no-bind",
    "kill-on-bad-exit", "l", "u", "m", "v", "K", "O", "I", "B", "E", "s", "S",
})  # fmt: skip
_TWO_VALUES = frozenset({"mca", "gmca"})
_SCRIPT = re.compile(r"[^\s=]{1,200}\.(?:py|sh|bash|slurm|sbatch|sub)$")
_TOOLS = re.compile(r"(?:.*/)?(?:setup|collect_env|get-pip|manage|convert\w*|download\w*)\.py$")  # they train nothing
_RUNNERS = frozenset({"python", "python3", "bash", "sh", "env", "singularity", "apptainer", "numactl", "nsys", "conda", "uv"})
# Words in front of a command that is not one that was started.
_ADVICE = re.compile(
    r"(?i)(?<!\bI )(?<!\bwe )\buse\b"
    r"|\b(?:usage|hint|try|should|could|instead|e\.g|example|like so|recommend(?:ed)?|prefer|docs?|prepend|deprecated"
    r"|works|worked|fine|is there|how (?:do|can|to)|or|whether|if you|must|please|solved|fix(?:ed)?)\b"
)
_QUESTION = re.compile(r"(?i)(?:^|[.!?] )\W{0,3}(?:is|does|do|can|would|will|which|what)\b[^.]{0,300}$")
# "(env) me@box:~/x$ ", "- ", "2. ", "!"
_PROMPT = re.compile(
    r"(?:[-*>|]\s{1,4}|\d{1,2}[.)]\s{1,4})?(?:\([\w.-]{1,40}\)\s{0,4})?"
    r"(?:[^\s$#>%]{0,80}(?: [^\s$#>%]{1,80})?\s?[$#>%]{1,4}\s{0,4})?!?\s{0,4}$"
)
_VALUE = r"(?:\"[^\"\s]{0,200}\"|'[^'\s]{0,200}'|[^\s\"'`]{0,200})"
_ASSIGNMENTS = re.compile(
    r"(?:(?<=\s)|^|(?<=[`!$>(]))(?:(?:export|env|nohup|time|sudo|exec|CMD) ){0,4}(?P<all>(?:[A-Za-z_]\w{0,60}=" + _VALUE + r" ){0,12})$"
)
_ASSIGNED = re.compile(r"([A-Za-z_]\w{0,60})=(" + _VALUE + ") ")
# export NAME=value, $env:NAME = "value", set NAME=value, os.environ["NAME"] = "value", %env NAME=value
_EXPORT = re.compile(
    r"\s{0,20}(?:[$#>%!]\s{1,4})?(?:(?:export |set |%env |\$env:)(?P<name>[A-Za-z_]\w{0,60})\s?=\s?"
    r"(?P<value>\"[^\"]{0,200}\"|'[^']{0,200}'|[^\s\"';&]{0,200})"
    r"|os\.environ\[[\"'](?P<key>\w{1,60})[\"']\]\s?=\s?(?P<text>\"[^\"]{0,200}\"|'[^']{0,200}'))"
)


@record
class Line:
    """One line as the shell reads it: continued lines are one."""

    text: str
    number: int


def logical_lines(text: str) -> Iterator[Line]:
    """Lines joined where a backslash (PowerShell: a backtick, cmd: ^) ends one."""
    held, start = "", 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.rstrip()
        if not held:
            start = number
        ending = line[-1:] in ("\\", "^") or line.endswith(" `")
        joined = f"{held} {line.strip()}" if held else line
        if ending and len(joined) < 4000:
            held = joined[:-1].rstrip()
            continue
        held = ""
        yield Line(joined, start)
    if held:
        yield Line(held, start)


def split(text: str) -> tuple[list[str], str]:
    """The words of a command up to an operator, a comment or a quotation mark that nobody closed; and the operator."""
    words: list[str] = []
    at = 0
    while at < len(text) and len(words) < _WORDS:
        if text[at].isspace():
            at += 1
            continue
        if text[at] == "#" or (text[at] in ";|&<>()`"):
            return words, text[at : at + 2].strip()
        end = _word_end(text, at)
        if end is None:
            return words, ""
        if text[end : end + 1] in ("<", ">") and text[at:end].isdecimal():
            return words, ">"
        words.append(text[at:end])
        at = end
    return words, ""


def _word_end(text: str, at: int) -> int | None:
    """Where the word that begins here ends; None where a quotation mark in it is not closed."""
    while at < len(text):
        char = text[at]
        if char.isspace() or char in ";|&<>()`":
            return at
        if char in "\"'":
            close = text.find(char, at + 1)
            if close < 0:
                return None
            at = close + 1
        elif text.startswith("$(", at):
            close = text.find(")", at)
            if close < 0:
                return None
            at = close + 1
        else:
            at += 2 if char == "\\" else 1
    return len(text)


# ------------------------------------------------------------------ one command


def _program_at(words: list[str], first: int) -> int | None:
    """Where the script, the module behind -m or the program stands: behind the launcher's own flags."""
    at = first
    while at < len(words):
        word = words[at]
        if word in ("-m", "--module"):
            return at + 1 if at + 1 < len(words) else None
        if not word.startswith("-"):
            return at
        name = word.lstrip("-").partition("=")[0].replace("_", "-")
        if name in _TWO_VALUES:
            at += 3
        elif "=" in word or name in _ALONE or re.match(r"-[a-zA-Z]\d", word):
            at += 1
        else:
            follows = words[at + 1] if at + 1 < len(words) else ""
            at += 1 if follows.startswith("-") or _SCRIPT.match(follows) or follows in _RUNNERS else 2
    return None


def _number(word: str | None) -> int | None:
    return int(word) if word is not None and word.isdecimal() and len(word) < 6 else None


def value_of(words: list[str], launcher: str, what: str) -> int | None:
    """A number that a launcher is told; None where there is none, or a variable."""
    found = find(words, names(launcher, what))
    if found is None:
        return None
    value = found[2]
    if what == "nodes" and re.fullmatch(r"\d{1,5}[:-]\d{1,5}", value):  # --nnodes=1:4, -N 2-4: as many as there are
        least, most = re.split("[:-]", value)
        return int(least) if least == most else None
    if what == "gpus" and ("gpu" in value or ":" in value):  # --gres=gpu:a100:4, --gpus-per-node=a100:4; a kind alone is one of it
        first = value.split(",")[0]
        last = first.rpartition(":")[2]
        return _number(last) if last.isdecimal() else 1 if first.startswith("gpu") and "$" not in first else None
    return _number(value)


def build(launcher: str, words: list[str], program: str | None = None) -> LaunchCommand:
    """A command with the numbers that its words hold."""
    mine = words[: own(words, launcher, program)]
    each, tasks, nodes = (value_of(mine, launcher, what) for what in ("each", "tasks", "nodes"))
    port = find(mine, names(launcher, "port"))
    if launcher == "accelerate" and tasks is not None and find(mine, ("config-file",)) is None:
        each = tasks // (nodes or 1) if tasks % (nodes or 1) == 0 else None
    elif launcher == "vllm" and each is None:
        each = 1
    elif launcher == "deepspeed" and (include := find(mine, ("i", "include"))):
        slots = re.fullmatch(r"localhost:([\d,]{1,60})", include[2])
        each = len(slots[1].strip(",").split(",")) if slots else each
    return LaunchCommand(
        launcher,
        tuple(words),
        each=each,
        tasks=tasks,
        nodes=nodes,
        node_rank=value_of(mine, launcher, "node_rank"),
        gpus=value_of(mine, launcher, "gpus"),
        gpus_per_task=value_of(mine, launcher, "gpus_per_task"),
        port=port[2] if port else None,
        program=program,
    )


@mutable
class Started:
    """The commands of a text, in order."""

    rows: list[LaunchCommand]
    lines: list[Line]  # of each row
    exported: dict[str, str]
    above: list[str]  # the last lines with something in them
    near: list[str]  # of each row: what stands above it and in front of it


def read_commands(text: str) -> Started:
    """All commands of a text that start processes."""
    seen = Started([], [], {}, [], [])
    for line in logical_lines(text):
        if len(line.text) > 6000 or len(seen.rows) >= MOST:
            continue
        if match := _EXPORT.match(line.text):
            seen.exported[match["name"] or match["key"]] = plain(match["value"] or match["text"] or "")
        if any(name in line.text for name in _NAMES):
            _of_line(seen, line)
        if line.text.strip():
            seen.above = [*seen.above[1 - _NEAR :], line.text]
    _put_inside(seen)
    return seen


def _of_line(seen: Started, line: Line) -> None:
    outer: int | None = None
    until = 0  # the command whose words go on up to here
    for match in _START.finditer(line.text):
        before = line.text[: match.start()]
        inner = outer if match.start() < until else None
        if inner is None and _only_spoken_of(before.partition("#")[2] or before):
            continue
        made = _command(seen, line.text, match, before, inner)
        if made is None:
            continue
        command, length = made
        if command.launcher == "python" and inner is not None and seen.rows[inner].launcher not in ("srun", "mpirun", "salloc", "sbatch"):
            continue  # its launcher starts it: one command
        seen.rows.append(command)
        seen.lines.append(line)
        seen.near.append("\n".join([*seen.above, before]) if inner is None else "")
        outer, until = len(seen.rows) - 1, match.start() + length


def _only_spoken_of(before: str) -> bool:
    """Whether the words in front of a command ask about it, or advise it. A prompt is no words: its folder may be ~/docs."""
    return not _PROMPT.match(before) and bool(_ADVICE.search(before) or _QUESTION.search(before))


def _command(seen: Started, text: str, match: re.Match[str], before: str, inner: int | None) -> tuple[LaunchCommand, int] | None:
    rest, name = text[match.start("name") :], match["name"]
    if before.count("`") % 2 and "`" in rest:
        rest = rest[: rest.index("`")]
    words, stop = split(rest)
    parts = name.split(" ")
    if words[: len(parts)] != parts or len(words) <= len(parts):
        return None
    launcher, first = _launcher(words, len(parts), name)
    if launcher is None:
        return None
    at = _program_at(words, first)
    program = plain(words[at]) if at is not None else None
    if not _begins(words[first] if first < len(words) else "", launcher):
        return None
    assigned = _ASSIGNMENTS.search(before)
    given = dict(_ASSIGNED.findall(assigned["all"])) if assigned else {}
    words = _without_prose(words, at, before[: assigned.start()] if assigned else before) if inner is None else words
    hidden = list(mask_words(words))
    variables = {**seen.exported, **{key: plain(value) for key, value in given.items()}}
    variables = {key: mask_secrets(value) for key, value in variables.items() if value and "$" not in value}
    return replace(build(launcher, hidden, program), variables=variables, inside=inner, beside=stop == "&"), len(rest)


def _launcher(words: list[str], first: int, name: str) -> tuple[str | None, int]:
    """Which launcher it is and where its flags begin; a `python` that runs no script is none."""
    if not name.startswith("python"):
        return _KINDS.get(name, "fabric" if "run" in name.split(" ") else name), first
    at = first
    while at < len(words) and words[at] in ("-u", "-O", "-B", "-E", "-s"):
        at += 1
    if words[at : at + 1] == ["-m"] and at + 1 < len(words):
        module = words[at + 1]
        if module in _MODULES:
            return _MODULES[module], at + 2
        return "python" if "train" in module or "finetune" in module else None, at
    if at < len(words) and _SCRIPT.match(plain(words[at])) and not _TOOLS.match(plain(words[at])):
        return "python", at
    return None, first


def _begins(word: str, launcher: str) -> bool:
    """Whether a command goes on so: with a flag, a script, a variable, or a program that srun and mpirun are often given."""
    if word.startswith(("-", "$", '"$')) or _SCRIPT.match(plain(word)):
        return True
    return launcher == "vllm" or (launcher in ("srun", "mpirun") and plain(word) in (*_RUNNERS, "torchrun", "accelerate", "deepspeed"))


def _without_prose(words: list[str], program: int | None, before: str) -> list[str]:
    """The words of a command within a sentence: what follows its script is the sentence, unless it looks like flags."""
    if "`" in before or _PROMPT.match(before) or program is None:
        return words
    kept = program + 1
    while kept < len(words) and (words[kept].startswith("-") or (words[kept - 1].startswith("-") and "=" not in words[kept - 1])):
        kept += 1
    words = words[:kept]
    words[-1] = words[-1].rstrip(",;:!?.") or words[-1]
    return words


def _put_inside(seen: Started) -> None:
    """A command of a script that another one runs: the script's name stands in front of it or in the lines above it."""
    scripts = [(index, one.program.rpartition("/")[2]) for index, one in enumerate(seen.rows) if one.program and _SCRIPT.match(one.program)]
    scripts += [(index, name) for index, one in enumerate(seen.rows) if one.launcher in ("srun", "mpirun") for name in _scripts_of(one)]
    for index, one in enumerate(seen.rows):
        if one.inside is not None or one.launcher in ("sbatch", "salloc"):
            continue
        for outer, name in scripts:
            near = [text for text in seen.near[index].split("\n") if text.strip()]
            if outer != index and name and any(name in text for text in _mentions(near, seen.lines[outer].text, seen.lines[index].text)):
                seen.rows[index] = replace(one, inside=outer)
                break


def _scripts_of(one: LaunchCommand) -> list[str]:
    return [plain(word).rpartition("/")[2] for word in one.words if _SCRIPT.match(plain(word))]


def _mentions(near: list[str], outer: str, own: str) -> list[str]:
    """Of the lines above a command those that may say whose part it is: not the outer command itself, unless in its comment."""
    return [text.partition("#")[2] if own == outer else text for text in near if own == outer or text != outer]
