"""Machine messages as people paste them: marks of ranks, pods and quotations before each line, other quotes, lines broken at a width.

    > (EngineCore_0 pid=41) ModuleNotFoundError: No module named            [rank3]: OSError: [Errno 24] Too many
    > (EngineCore_0 pid=41) “torch”                                         [rank3]: open files

A symptom is written for the program's own words; here a text is brought back to them.
"""

from __future__ import annotations

import re

from envcheck.facts.secrets import mask_secrets

# What stands before the words of a program, and who puts it there:
_MARK = re.compile(
    r"(?:"
    r"(?:> ){1,8}|>$|[│┃║] ?"  # a quotation; the frame of a panel
    r"|\([^()\n]{0,60}\bpid=[^()\n]{1,60}\) ?"  # Ray, vLLM: (Worker.run pid=42, ip=10.0.0.3)
    r"|\[(?:rank|default)\d{1,6}\]: ?"  # torch, torchrun --tee
    r"|\[\d{1,4},\d{1,6}\]<std(?:err|out)>: ?"  # mpirun --tag-output
    r"|\d{1,5}:(?: |$)"  # srun --label, before an empty line too
    r"|\[pod/[^\]\s]{1,160}\] |[\w.-]{1,80}(?:/[\w.-]{1,80}){0,2} {1,40}\| ?"  # kubectl logs --prefix, docker compose, stern
    r"|[\[(]?\d{4}-\d\d-\d\d[T _]\d\d:\d\d:\d\d(?:[.,:]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?[\])]?(?: std(?:err|out) [FP]\b)?[ ,:-]{0,3}"
    r"|[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{1,9} {1,8}\d{1,9} [^\s\]]{1,80}\] ?"  # glog
    r"|\[ {0,8}\d{1,8}\.\d{1,9}\] |[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,80} kernel: "  # the kernel log
    r"|(?:ERROR|WARNING|INFO) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})? \[[^\]\n]{1,60}\] ?"  # vLLM
    r"|E {2,8}(?=\w)"  # pytest
    r")"
)
# Of these, those that a capital begins; most lines of a log begin with a letter and have no mark.
_CAPITAL = re.compile(r"[\w./-]{1,200} {1,40}\||[IWEF]\d{4} |E  |(?:ERROR|WARNING|INFO) \d|[A-Z][a-z]{2} [ \d]\d \d\d:")
_SMALL = frozenset("abcdefghijklmnopqrstuvwxyz")
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def bare(line: str) -> str:
    """One line without such marks, with single blanks."""
    line = line.strip()
    first = line[:1]
    if (first in _SMALL and "|" not in line) or (first in _LETTERS and not _CAPITAL.match(line)):
        return " ".join(line.split()) if "  " in line or "\t" in line else line
    for _ in range(4):
        match = _MARK.match(line)
        if match is None:
            break
        line = line[match.end() :].lstrip()
    return " ".join(line.rstrip(" │┃║").split())


_QUOTES = dict.fromkeys(map(ord, '"`\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u00b4\u2032\u00ab\u00bb'), "'") | {0xA0: " ", 0x202F: " "}


def one_quote(text: str) -> str:
    """The same text of the same length in which every kind of quote is "'", and a blank that breaks no line is a blank."""
    if text.isascii():
        return text.replace('"', "'").replace("`", "'")
    return text.translate(_QUOTES)


REWRAPPED = 1 << 14  # characters; longer texts were not copied off a screen
_WIDTHS = (50, 250)


def rewrapped(text: str) -> str | None:
    """A short text whose lines a screen broke in the middle of words, put together again; None where no line has the full width."""
    if len(text) > REWRAPPED:
        return None
    lines = text.split("\n")
    width = max(map(len, lines))
    if not _WIDTHS[0] <= width <= _WIDTHS[1] or len(lines) < 2:
        return None
    made: list[str] = []
    full = False
    for line in lines:
        if full and line and not line[0].isspace():
            made[-1] = _joined(made[-1], line)
        else:
            made.append(line)
        full = len(line) == width and not line[-1:].isspace()
    return "\n".join(made) if len(made) < len(lines) else None


def _joined(before: str, line: str) -> str:
    """One line of two. A secret at the beginning of the second would be none that can be told behind a word."""
    shown = mask_secrets(line)
    whole = before + line
    return before + shown if shown != line and mask_secrets(whole).endswith(line) else whole


# A message that somebody quotes need not have been printed there: source code, lists of changes, questions, documentation.
_CODE = re.compile(
    r"\b(?:raise|throw) [\w.:]{2,60}\(|\b(?:TORCH_(?:CHECK|WARN)\w{0,20}|AT_ERROR|NCCLCHECK|WARN|printf|print|puts|warn|echo"
    r"|log(?:ger|ging)?\.\w{3,9}|assert\w{1,20}|pytest\.raises|expect\w{0,10})\(|#error|\bstd::c(?:err|out)\b|^(?://|/\*) "
)
# A string of source code that stands on a line of its own: f"rank {rank} …", or "…" below "raise ValueError(".
_LITERAL = re.compile(r"""(?:[fr]{1,2}(?:"[^"]{1,400}"|'[^']{1,400}')|"[^"]{1,400}"|'[^']{1,400}')[,)]{0,3}$""")
_CHANGE = re.compile(
    r"^(?:[-*•+]|\d{1,3}[.)]) (?:\[[^\]\n]{1,40}\] ?|\w{2,20}: )?"
    r"(?i:fix|add|improve|remove|handle|support|change|update|avoid|prevent|resolve|raise|document|make|don.t)(?i:es|ed|e?s|d|ing)?\b"
    r"|\(#\d{2,6}\)\s{0,3}$|(?i:\b(?:changelog|release notes|fixed (?:a|an|the) (?:bug|issue|error)|fixes? #\d{1,6})\b)"
)
_TALK = re.compile(
    r"(?i:\b(?:if|when|in case|whenever) (?:you|users?|someone|one|it|this) "
    r"(?:see|get|encounter|run into|hit|meet|face|says?|shows?|receive)s?\b"
    r"|\b(?:what does|what is|what means|how (?:do|can|to|should) |why (?:do|does|would|is) )"
    r"|\b(?:you|we|one|users?) (?:may|might|will|would|could|can) (?:see|get|encounter|find|hit)\b"
    r"|\b(?:errors?|messages?|warnings?|something) (?:like|such as|similar to)\b"
    r"|\b(?:would|should|will|might|may|could) (?:print|raise|say|fail with|report|return (?:an? |different )?errors?)\b"
    r"|\b(?:users?|people|others|some) (?:have )?(?:reported|report|complained)\b|\b(?:is|was|been|got) fixed in \d"
    r"|\bin older (?:versions|releases)\b|\bused to (?:get|see|have|fail)\b)"
)


def hearsay(line: str, before: str) -> bool:
    """Whether a line quotes a message rather than being its print. `before` is the line above it.

    A line of code below `File "…", line 3, in f` is a traceback's: that one ran.
    """
    if _LITERAL.match(line) and (line[0] in "fr" or before.endswith("(") or _LITERAL.match(before)):
        return True
    if _CODE.search(line):
        return "line " not in before and "File " not in before
    return bool(_CHANGE.search(line) or _TALK.search(line) or (before.endswith(":") and _TALK.search(before)))


# A message that somebody says is not there: No `GPU has fallen off the bus`; none of "Xid", "AER"; 没有 IO_PAGE_FAULT.
_DENIED = re.compile(
    r"(?:(?<![\w.-])(?i:no|none of|nor|neither|without|not a single|never(?: an?y?)?|kein(?:e|en|er)?|weder|noch|ohne"
    r"|aucune?|sans|sin|ning[uú]na?"
    r"|nessuna?|nenhuma?|нет|ни|без|(?:not|(?:is|are|do|does|did|was|were|have|has|could|ca)n't)"
    r"(?: (?:see|seen|find|found|show|shown|contain|have|print|get|log|report|there|any|been)){1,3})"
    r"|(?:没有?|并无|并未|未|无)(?:任何|出现|看到|发现|找到|见|报)?)"
    r"(?: ?(?i:signs?|traces?|words?|lines?|entr(?:y|ies)|messages?|errors?"
    r"|any|such|more|a|an|the|these|of|like|with|as|for|GPUs?|cards?|NVRM:"
    r"|eine[rn]?|Zeilen?|Meldung(?:en)?|mit|wie)(?![\w-])){0,4}"
    r"[ :]{0,2}(?:'[^'\n]{1,120}'(?: ?[,/、，]| and| or| nor| und| oder|或|和)? ?){0,5}"
    r"(?:and |or |nor |und |oder |或|和)?(?:'[^'\n]{0,120})?$"
)
_LISTED = re.compile(r"(?:[-*•+]|\d{1,2}[.)]) ")
# The line above such a list
_NONE_OF_THESE = re.compile(
    r"(?i:\bnone of\b|\bno (?:\w{2,12} ){0,3}(?:errors?|messages?|lines?|entries|signs?|traces?|events?|faults?|warnings?)\b"
    r"|\bnothing (?:like|such)\b"
    r"|\bwithout any\b|(?:\bnot|n't) (?:see|find|show|contain|have|print|log) (?:any|one|these|the following)\b"
    r"|\bkeine?r? (?:\w{2,16} ){0,3}(?:Fehler|Meldung(?:en)?|Zeilen?|Einträge|davon)\b)|没有(?:以下|这些|任何|出现)|均无"
)
_SOME_OF_THESE = re.compile(r"(?i:\b(?:except|but|besides|apart|other than|only|außer|sondern)\b)|除了?")


def denied(before: str, above: str) -> bool:
    """Whether somebody says that a message is not there. `before` is what its line has in front of it, `above` the text over that line."""
    if _DENIED.search(one_quote(before[-400:])):
        return True
    if not _LISTED.match(before.lstrip()):
        return False
    heading = next((one for line in reversed(above.split("\n")) if (one := line.strip()) and not _LISTED.match(one)), "")
    return heading.endswith((":", "：")) and bool(_NONE_OF_THESE.search(heading)) and not _SOME_OF_THESE.search(heading)
