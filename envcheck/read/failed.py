"""Whether a text says in the words of shells, programs and schedulers that something failed, whatever it was.

Aborted (core dumped)             a shell's word of a process that died, in several languages
Process completed with exit code 1.
train-0 0/1 CrashLoopBackOff      a scheduler's
Loss diverged to NaN. Stopping training.

Nothing of this names a cause. It only keeps a text from being called healthy for what else it shows.
"""

from __future__ import annotations

import re

from envcheck.read.clean import words_in

# Of these nobody writes to say that all is well.
_ENDED = re.compile(
    r"[Ss]egmentation fault|[Ss]egfault|Kernel panic|\bAlarm clock\b|User defined signal|Stack overflow"
    r"|\b[Aa]bort(?:ed)?(?= *\(|$)|[Ff]loating point exception|\bBus error\b|[Ii]llegal instruction"
    r"|[Bb]reakpoint trap|stack smashing|double free|free\(\): |malloc\(\): |terminate called|time limit exceeded|Assertion .{0,200}failed"
    r"|(?:^|[\s\]])(?:Killed|Terminated|killed|terminated)$|\d Killed \S|\bKilled by\b|code=killed|core dump|Exited \([1-9]"
    r"|terminated by signal|exited on signal|due to signal"
    r"|SIG(?:SEGV|ABRT|KILL|BUS|ILL|FPE)\b|^zsh: (?!no matches|suspended)|^Hangup$|^Stopped$|sending signal (?:SIG)?[A-Z]"
    r"|\b[Ee]xit(?:ed|s)?(?:[ _-]?(?:with|status|code|a|non-zero|of|signal)\b){1,5}\"?'? ?[:=]? ?(?:-|0x0{0,8})?[1-9]"
    r"|(?<![|&;{] )\b[Ee]xit(?:ed)?\W{1,3}[1-9]\d{0,2}$|\bwith non-zero\b|\b[Rr]eturn code\W{1,3}[1-9]"
    r"|^\[\d{1,5}\] {0,4}[+-]? {0,4}(?:\d{1,9} {1,4})?(?:[Ee]xit|[Aa]bort|[Kk]illed|[Tt]erminated)"
    r"|\bbut [1-9]\d{0,5} process(?:es)? returned|\breturned (?:non-zero|[1-9]\d{0,2}$)"
    r"|\b(?:rc|exitCode|returncode)\b\"? ?[:=] ?-?[1-9]\d{0,9}(?![\w.])|\] Error \d|^\S{1,80}: error: "
    r"|(?:^|[\]\d,] |- )(?:ERROR|FATAL|CRITICAL)\b(?!\W{0,3}0)|^(?:[\w.]{1,80})?(?:[Ee]rror|Exception): \D|\bERR! |^E: |^fatal: "
    r"|\bTraceback \(most recent|\bKeyboardInterrupt$|\bSystemExit: [^0\n]|\bpanicked at\b|^panic: |ASSERT FAILED|Check failed: "
    r"|\b(?:TIMEOUT|OUT_OF_MEMORY|NODE_FAIL|BOOT_FAIL|PREEMPTED)\b(?!=)|\b[Dd]eadline ?[Ee]xceeded|\bexceeded limit\b"
    r"|\bspecified deadline\b"
    r"|\b(?:hit|reached) the (?:wall ?time|time limit)|\bwas preempted\b|\bhas been removed\b|Unauthorized|access denied|\(NotFound\)"
    r"|\bunexpectedly\b|\b(?:NaN|nan) detected\b|(?:loss|norm)\W{1,4}(?:nan|NaN|NAN)\b"
    r"|\b(?:did|has|could|can) ?not (?:finish|complete|start|continue)|CMake Error"
    r"|No module named|[Cc]annot open|\bTerminated by\b|\bStopIteration\b|^Process \w{1,40}-\d{1,6}:$|\^C$|\bExiting\.$|Error response"
    r"|CrashLoopBackOff|ImagePullBackOff|ErrImagePull|OOMKilled|\bEvicted\b|Back-off restarting|oom-kill|create failed|\d/\d +Error +\d"
    r"|low on resource|\d Insufficient \S|\bstep aborted\b|\bjob killed\b|\bCANCELLED AT\b|An error occurred in MPI_|\bBUG: "
    r"|command not found$|: not found$|can't open file|(?:^|: )(?:No such file or directory|Permission denied)$"
    r"|\bquota exceeded$|\b(?:memory|limit) exceeded$|No route to host|No space left on device|temporarily unavailable|\btiming out\b"
    r"|externally[ -]managed|closed by remote host|Could not resolve host|Broken pipe$"
    r"|\b[Uu]nhandled exception|No solution found|subprocess-exited-with-error|^No devices were found|(?:fell|fallen) off the bus"
    r"|Speicherabzug|Speicherzugriffsfehler|\bAbgebrochen\b|[Ee]rreur de segmentation|\bAbandon \(|\bAbortado\b|\(killed\)"
    r"|Processo terminato"
    r"|\bBeendet$|Instruction non permise|Maschinenbefehl|Processus arr|Falla de segmentaci"
)
_ENDED_ABROAD = re.compile(
    r"\bGetötet\b|\bTué\b|[Vv]iolación de segmento|Violação de segmento|Arrêt du processus|강제 종료"
    r"|セグメンテーション|コアダンプ|強制終了|段错误|核心已转储|已杀死|已放弃|已终止"
    r"|[Оо]шибка сегментирования|\bУбито\b|Аварийный останов|세그멘테이션|\b중지됨"
)
# These stand in lines of healthy programs as well: what they warn of or try, what was counted as none.
_SAID = re.compile(
    r"\b(?:failed|failure|crashed|aborted|aborting|died|hung|timed out|unhandled|diverged|not responding|unreachable)\b|\bFAILED\b|\bFAIL\b"
    r"|\bis NaN\b|\b(?:CRITICAL|FATAL|FAILURE|ERROR)\b|\blevel=(?:error|fatal)\b|\b[A-Za-z_][\w.]{0,80}(?:Error|Exception)\b"
    r"|##\[error\]|::error|\bgiving up\b|\b[Cc]ould not find\b|\berrored\b"
)
_LEVEL = re.compile(
    r"\b(?:INFO|DEBUG|TRACE|NOTICE|WARN|WARNING|Warning)\b|\[W\d{0,4}\b|^[IW]\d{4} |\w(?:Warning): |\b(?:info|debug|warning)\b(?=[\]:\"])"
)
_NONE = re.compile(
    r"\b0 (?:\w{1,20} )?(?:errors?|fail\w{0,5}|crash\w{0,3})"
    r"|\b(?:no|zero|none|without|never|not(?! responding| found| find)|ignored?|ignoring|skipp(?:ed|ing)|retry(?:ing)?|recovered)\b"
    r"|\b(?:expected|handled)\b"
    r"|\bcaught\b|\b(?:fail(?:ed|ures?)?|errors?)(?: \w{1,20}){0,2}\"? ?[:=]? ?0\b|(?:Squared|Absolute|Percentage|Log)\w{0,20}Error|\bok\b",
    re.IGNORECASE,
)
# One of them stands in each line that they find, but for those with letters of other languages and for the names of exceptions.
_WORDS = frozenset(
    {"abandon", "abgebrochen", "abort", "abortado", "aborted", "aborting", "alarm", "arr", "assert", "assertion", "beendet",
    "boot", "breakpoint", "broken", "bug", "bus", "cancelled", "cannot", "closed", "cmake", "command", "corrupted", "could",
    "crashed", "crashloopbackoff", "create", "critical", "deadline", "deadlineexceeded", "denied", "died", "diverged", "double",
    "dump", "dumped", "err", "erreur", "errimagepull", "error", "errored", "evicted", "exceeded", "exit", "exitcode", "exited",
    "exiting", "exits", "externally", "fail", "failed", "failure", "falla", "fallen", "fatal", "fell", "finish", "floating", "found",
    "giving", "hangup", "hung", "illegal", "imagepullbackoff", "insufficient", "invalid", "keyboardinterrupt", "killed", "left",
    "malloc", "maschinenbefehl", "module", "mpi", "nan", "notfound", "oom", "oomkilled", "open", "out", "overflow", "panic",
    "panicked", "permise", "permission", "preempted", "process", "processes", "processo", "rc", "removed", "resolve", "resource",
    "responding", "response", "restarting", "return", "returncode", "returned", "route", "segfault", "segmentation", "segmento",
    "sending", "sigabrt", "sigbus", "sigfpe", "sigill", "sigkill", "signal", "sigsegv", "smashing", "solution", "space",
    "spawnprocess", "specified", "speicherabzug", "speicherzugriffsfehler", "status", "stopiteration", "stopped", "such",
    "systemexit", "terminate", "terminated", "time", "timed", "timeout", "timing", "traceback", "unable", "unauthorized",
    "unavailable", "unexpectedly", "unhandled", "unreachable", "wall", "walltime", "zsh"}
)  # fmt: skip
_NAMES = ("Error", "Exception", "^C")
LINE = 600  # characters of a line that are looked at, from either end


def says_failure(text: str) -> bool:
    """Whether a line of a text says so."""
    return _may_say(text) and any(map(_says, text.split("\n")))


def _may_say(text: str) -> bool:
    return not text.isascii() or any(name in text for name in _NAMES) or not _WORDS.isdisjoint(words_in(text))


def _says(line: str) -> bool:
    line = line.rstrip()
    line = line if len(line) <= 2 * LINE else f"{line[:LINE]} … {line[-LINE:]}"
    if not line.isascii() and _ENDED_ABROAD.search(line):
        return True
    if _WORDS.isdisjoint(words_in(line)) and not any(name in line for name in _NAMES):
        return False
    return _ENDED.search(line) is not None or (_SAID.search(line) is not None and not _LEVEL.search(line) and not _NONE.search(line))
