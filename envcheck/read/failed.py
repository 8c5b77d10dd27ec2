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
from envcheck.read.not_finite import may_be_not_finite, not_finite

# Of these nobody writes to say that all is well.
_ENDED = re.compile(
    r"[Ss]egmentation fault|[Ss]egfault|Kernel panic|\bAlarm clock\b|User defined signal|Stack overflow"
    r"|\b[Aa]bort(?:ed)?(?= *\(|$)|[Ff]loating point exception|\bBus error\b|[Ii]llegal instruction"
    r"|[Bb]reakpoint trap|stack smashing|double free|free\(\): |malloc\(\): |terminate called|time limit exceeded"
    r"|Assertion (?:[`‘'\"]|.{0,200}failed)"
    r"|(?:^|[\s\]])(?:Killed|Terminated|killed|terminated)$|\d Killed \S|\bKilled by\b|code=killed|core dump|Exited \([1-9]"
    r"|(?<![Nn]o )(?<!\b0 )(?<!\bfor )(?<!\bany )(?<![Ww]ithout )(?<!\b[Oo]n )\b[Aa]bnormal termination\b"
    r"(?!\W{1,2}0\b| (?:count|hook|handler|detection|(?:was|is|has|has been) (?:not|never|handled|caught))\b)|^Aborted!$"
    r"|^(?:\w{1,40}\.){1,8}(?:errors?|exceptions?|exc|errorfactory)\.(?!\w{0,80}(?:Warning|Deprecated(?:Since\d+)?)(?::|$)"
    r"|\w{1,80}: (?:0$|registered|attempt|\w{1,40}=0\b))"
    r"[A-Z]\w{2,80}(?:: |$)"
    r"|\bJob allocation \d{1,12} has been revoked\b|\bJob was held(?:\.?$| due | because | for insufficient)"
    r"|^\[Inferior \d{1,3} .{0,40}exited with code 0{0,2}[1-9]"
    r"|AddressSanitizer:(?=\w| \w)(?!.{0,60}?(?:\b(?:off|OFF|ON|yes|true|false|no|none|[Ee]nabled|[Dd]isabled|checks|0 errors)\b|\bon$))"
    r"|^Finished: (?:ABORTED|FAILURE)$"
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
    r"|\bunexpectedly\b|\b(?:NaN|nan) detected\b"
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
# A program of one's own says how another one ended, and what a kernel, a cluster or a check says of a machine: whatever stands around it.
_OF_OTHERS = re.compile(
    r"\b(?:finish|end|exit|complet|return|terminat|stopp|quitt?|left)(?:ed|s|ing)?\b[^\n.;]{0,24}?\b(?:(?:with|by) (?:an? )?)?"
    r"(?:(?:exit|return|error) ?)?(?:code|status|rc)\W{1,3}(?:-|0x0{0,8})?(?![23]\d\d\b)[1-9]"
    r"|\b(?:ended|status of .{1,40} is|ended in|ended with):? (?:13[1-9]|14\d|255)\b"
    r"|\(return value [1-9]|\b\d{1,6} finished, [1-9]\d{0,5} (?:not|failed)\b"
    r"|\[Hardware Error\]|\bMachine check events|\bAER: (?!enabled).{0,40}(?:Uncorrect|[Ff]atal)|\bEDAC .{0,40}\b[1-9]\d{0,9} UE\b"
    r"|\b[Uu]ncorrect(?:able|ed) (?:\(Fatal\) )?(?:\w{1,10} ){0,3}(?:on|at|in|detected|received|occurred|encountered|found)\b"
    r"|(?<!\b0 )\b(?:[Pp]od|[Nn]ode|[Ww]orker|[Ii]nstance|[Jj]ob|[Cc]ontainer)s?\b"
    r".{0,80}(?<!entries )(?<!\b0 pods )\b(?:evicted|reclaimed)\b|\bNotReady\b"
    r"|\b[Nn]ode\b.{0,80}\bnot ready\b|\b[Bb]ail(?:ing)? out\b|\bsoft lockup\b|\bblocked for more than \d"
    r"|\b(?:[Vv]isible|[Aa]vailable|[Dd]etected|[Ff]ound) GPUs\s?[:=]\s{0,2}0(?! ?[\w,.:\])(])|\b(?:[Ff]ound|[Dd]etected|[Ss]ees) 0 GPUs?\b"
    r"|\b0 GPUs? (?:are |were )?(?:visible|available|found|detected)|\bdevice_count(?:\(\))?\W{1,4}0(?![\w.])"
    r"|(?:\b|_)(?:[Ss]tat(?:us|e)|STAT(?:US|E)|[Hh]ealth|[Rr]esult|[Cc]onclusion|[Oo]utcome)['\"]?\s?[:=]\s{0,3}['\"]?"
    r"(?i:dead|failed|failure|error|lost|unhealthy|degraded|crashed|killed|aborted|unsuccessful|red)\b(?!\W{1,3}0\b)"
    r"|['\"](?:level|severity)['\"]\s?:\s?['\"](?i:error|fatal|critical)\b"
    r"|\b[Oo]nly (?P<some>\d{1,6}) (?:out )?of (?!(?P=some)\b)\d{1,6} (?:\w{1,12} )?(?:node|rank|worker|host|process|peer|replica|pod|task)"
    r"(?!\w{0,3} (?:left|remain|used|to go))"
    r"|(?<!no )(?<!0 )(?<!for )\b[Nn]on-?finite (?:loss|norm|value|weight|param|output|activation|number|entr)"
    r"|(?<!no )(?<!0 )(?<!for )\b[Nn]on-?finite grad(?!.{0,60}(?:passed|check|skip|[:=] ?0\b))"
    r"|\b(?:is|are|was|were|became|become) non-?finite\b|(?<!\b0 )\b[Uu]nsuccessful(?:ly)?\b(?!\W{1,3}0\b)"
    r"|(?:\b(?:[Ff]ile|[Cc]heckpoint|[Aa]rchive|[Ss]hard)|\.(?:pth?|bin|safetensors|tar|zip|ckpt|npz?|parquet))\b.{0,60}\btruncated\b"
    r"(?! (?:to|at|after|from|for|by)\b| ?\(max)|\b[Tt]runcated (?:file|archive|zip|tar|checkpoint)\b"
    r"|\b(?:has|have) stopped working\b|\b[Dd]etected KeyboardInterrupt\b|^\^\\Quit|\b[Aa]borting\.$"
    r"|\b(?:gave|giving) up\.?$|\bFail - |['\"]exit['\"]\s?: ?-?[1-9]|\b[Rr]eceived SIG(?:TERM|INT|KILL|HUP)\b"
    r"|^\W{0,8}[Oo]ut of [Mm]emory\b|\bENOSPC\b|\[Errno (?:5|12|28|122)\]|\b[Dd]isk (?:is )?full\b|\b[Uu]nexpected (?:EOF|end of file)\b"
    r"|\b(?:checksum|CRC|md5|hash) mismatch\b|\b(?:checkpoint|shard|file) is corrupt|\bGPU \d{1,2} needs (?:a )?reset\b"
    r"|\bdouble[ -]bit (?:ECC )?error|\blink (?:is )?down (?:on|at)\b|\b[Jj]ob (?:was )?cancel+ed\b|\b[Ii]nterrupted by user\b"
)
_ENDED_ABROAD = re.compile(
    r"\bGetötet\b|\bTué\b|[Vv]iolación de segmento|Violação de segmento|Arrêt du processus|강제 종료"
    r"|セグメンテーション|コアダンプ|強制終了|段错误|核心已转储|已杀死|已放弃|已终止"
    r"|[Оо]шибка сегментирования|\bУбито\b|Аварийный останов|세그멘테이션|メモリ不足|\b중지됨"
    r"|\b(?:код|кодом|código|kodem) -?(?![23]\d\d\b)[1-9]"
)
# "failed, crashed, died, was stopped" in other languages, and what says there that it is not so
_SAID_ABROAD = re.compile(
    r"失败|失敗|崩溃|崩潰|出错|异常退出|异常终止|異常終了|中断されました|停止しました|落ちました|エラー|实际退出"
    r"|죽었|실패|중단되었|비정상 종료|오류|упал[аи]?\b|[Оо]шибк|[Сс]бой|аварийно|не удалось|помилк|\bвпа[влд]"
    r"|è (?:morto|fallito|crashato)|si è (?:interrotto|bloccato)|cayó|falló|murió|se detuvo|ha fallado|tombé|échou|planté|arrêté"
    r"|abgestürzt|padł|nie powiód|zabity"
    r"|terminó con error|est mort|\btué|训练终止|杀死|意外退出|死んだ|메모리 부족|\bумер|прерван|[❌✗✘✖⛔💥]"
    r"|çöktü|başarısız|öldü|bị giết|thất bại|\blỗi\b|توقف|فشل|خطأ|تعطل"
)
_NONE_ABROAD = re.compile(
    r"[无無没沒不零率]|なし|ゼロ|ない|ません|없|\b0\b"
    r"|[✓✔✅]|optional|disabled|skipp|early stopping|tỷ lệ"
    r"|(?<!\w)(?:нет|без|не было|sin|sans|senza|ohne|keine?|brak|bez|sem|yok|không|لا|بدون)(?!\w)"
)
# These stand in lines of healthy programs as well: what they warn of or try, what was counted as none.
_SAID = re.compile(
    r"\b(?:failed|failure|crashed|aborted|aborting|died|hung|timed out|unhandled|diverged|not responding|unreachable)\b|\bFAILED\b|\bFAIL\b"
    r"|\bis NaN\b|\b(?:CRITICAL|FATAL|FAILURE|ERROR)\b|\blevel=(?:error|fatal)\b|\b[A-Za-z_][\w.]{0,80}(?:Error|Exception)\b"
    r"|##\[error\]|::error|\b(?:giving|gave) up\b(?! 0)|\b[Cc]ould not find\b|\berrored\b"
    r"|(?<!non-)(?<!not )\b[Ff]atal\b(?!\W{1,3}(?:0|false|False)| (?:\w{1,8} )?handler)|\b[Tt]earing down because\b"
    r"|(?<!\b0 jobs )(?<!\b0 pods )\breached the specified backoff limit\b(?!: (?:0\b|False))"
    r"|(?<![Oo]ld )(?:\b[Tt]oken|\b[Cc]ertificate|\b[Aa]ccess|\b[Kk]ey) has been revoked\b"
    r"|\bRESOURCE_EXHAUSTED: (?!.{0,80}(?:\bnext config|halved|succeeded|retried|continuing))"
    r"|\blost contact\b|\bmemory exhausted\b|\bkilled by\b"
    r"|(?<!0 )\b(?:fehlgeschlagen|gescheitert|gestorben|ist abgebrochen|(?:Prozess|Job) wurde beendet|wurde abgebrochen"
    r"|falhou|morreu)\b(?!\W{1,3}0)"
    r"|\b(?:[Nn]ode|[Rr]ank|[Ww]orker|[Pp]eer|[Hh]ost|GPU|[Pp]rocess)\S{0,20} (?:\d{1,6} )?(?:is |was |has |are )?(?:gone|lost|missing"
    r"|vanished|stuck|hung up|thrown out|dropped out|dead|crashed|no longer)\b"
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
    {"abandon", "abgebrochen", "abnormal", "abort", "abortado", "aborted", "aborting", "addresssanitizer", "alarm", "arr", "assert",
    "assertion", "backoff", "beendet", "boot", "breakpoint", "broken", "bug", "bus", "cancelled", "cannot", "closed", "cmake", "command",
    "corrupted", "could", "crashed", "crashloopbackoff", "create", "critical", "dead", "deadline", "deadlineexceeded", "denied", "died",
    "diverged", "double", "dropped", "dump", "dumped", "err", "erreur", "errimagepull", "error", "errored", "errorfactory", "errors",
    "evicted", "exc", "exceeded", "exception", "exceptions", "exhausted", "exit", "exitcode", "exited", "exiting", "exits", "externally",
    "fail", "failed", "failure", "falhou", "falla", "fallen", "fatal", "fehlgeschlagen", "fell", "finish", "floating", "found", "gave",
    "gescheitert", "gestorben", "giving", "gone", "hangup", "held", "hung", "illegal", "imagepullbackoff", "inferior", "insufficient",
    "invalid", "keyboardinterrupt", "killed", "left", "longer", "lost", "malloc", "maschinenbefehl", "missing", "module", "morreu", "mpi",
    "nan", "notfound", "oom", "oomkilled", "open", "out", "overflow", "panic", "panicked", "permise", "permission", "preempted", "process",
    "processes", "processo", "rc", "removed", "resolve", "resource", "responding", "response", "restarting", "return", "returncode",
    "returned", "revoked", "route", "segfault", "segmentation", "segmento", "sending", "sigabrt", "sigbus", "sigfpe", "sigill", "sigkill",
    "signal", "sigsegv", "smashing", "solution", "space", "spawnprocess", "specified", "speicherabzug", "speicherzugriffsfehler", "status",
    "stopiteration", "stopped", "stuck", "such", "systemexit", "tearing", "terminate", "terminated", "thrown", "time", "timed", "timeout",
    "timing", "traceback", "unable", "unauthorized", "unavailable", "unexpectedly", "unhandled", "unreachable", "vanished", "wall",
    "walltime", "zsh"}
)  # fmt: skip
_WORDS_OF_OTHERS = frozenset(
    {"aborting", "aer", "bail", "bailing", "blocked", "canceled", "cancelled", "checksum", "code", "conclusion", "corrupt", "corrupted",
    "crc", "device", "disk", "double", "edac", "ended", "enospc", "eof", "errno", "evicted", "exit", "fail", "finished", "finite", "gave",
    "giving", "gpu", "gpus", "hardware", "hash", "health", "interrupted", "keyboardinterrupt", "level", "link", "lockup", "machine",
    "md5", "memory", "mismatch", "needs", "nonfinite", "notready", "only", "outcome", "quit", "rc", "ready", "received", "reclaimed",
    "result", "return", "severity", "state", "status", "stopped", "truncated", "uncorrectable", "uncorrected", "unexpected",
    "unsuccessful", "unsuccessfully"}
)  # fmt: skip
_NAMES = ("Error", "Exception", "^C")
LINE = 600  # characters of a line that are looked at, from either end


def says_failure(text: str) -> bool:
    """Whether a line of a text says so."""
    return _may_say(text) and any(map(_says, text.split("\n")))


def _may_say(text: str) -> bool:
    words = words_in(text)
    return (
        not text.isascii()
        or any(name in text for name in _NAMES)
        or not (_WORDS.isdisjoint(words) and _WORDS_OF_OTHERS.isdisjoint(words))
        or may_be_not_finite(text, words)
    )


def _says(line: str) -> bool:
    line = line.rstrip()
    line = line if len(line) <= 2 * LINE else f"{line[:LINE]} … {line[-LINE:]}"
    if not line.isascii() and (_ENDED_ABROAD.search(line) or (_SAID_ABROAD.search(line) and not _NONE_ABROAD.search(line))):
        return True
    words = words_in(line)
    if may_be_not_finite(line, words) and not_finite(line):
        return True
    if not _WORDS_OF_OTHERS.isdisjoint(words) and _OF_OTHERS.search(line):
        return True
    if _WORDS.isdisjoint(words) and not any(name in line for name in _NAMES):
        return False
    return _ENDED.search(line) is not None or (_SAID.search(line) is not None and not _LEVEL.search(line) and not _NONE.search(line))
