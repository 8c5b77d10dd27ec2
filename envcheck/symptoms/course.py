"""What became of a message: a warning that the run outlived, a line at warning level, an error that somebody only proposes to reword.

[W socket.cpp:601] [c10d] The client socket has failed to connect to [node0]:29500 …      outlived: steps follow
epoch 1 step 100 loss 0.31
"""

from __future__ import annotations

import re
from collections.abc import Callable

from envcheck.read.failed import says_failure

# glog's level in front of c10d's words: "[W socket.cpp:558]", "[W404 00:15:21.69 ProcessGroupNCCL.cpp:4561]"; [E …] is an error
_WARNING = re.compile(r"\[W(?:\d{3,4} [\d:.]{8,20})? ?[\w/.-]{3,60}:\d{1,5}\]")
_OF_PYTHON = "UserWarning: Failed to load "  # torchvision goes on without its images
# Ranks that meet: what is said until they have met is of no account afterwards.
_MEETING = re.compile(
    r"socket\.cpp|TCPStore|client socket|server socket|retrieved \(gai error|Waiting (?:in store based barrier|for the store)|retry"
    r"|address already in use",
    re.IGNORECASE,
)
_MET = re.compile(
    r"NCCL INFO [^\n]{0,120}Init COMPLETE|NCCL version \d|store_based_barrier_key:(?:[2-9]|\d{2,})\b"
    r"|\b(?:epoch|step|iter(?:ation)?|global_step)\b[^\n]{0,60}\bloss\b|\bloss['\"]?\s?[:=]\s?-?\d"
    r"|\d{1,3}%\|[^\n|]{0,80}\| \d{1,9}/\d{1,9}",
    re.IGNORECASE,
)
# A person's word is about the whole text.
_GOES_ON = re.compile(r"\b(?:training|the run|everything|it) (?:runs|works|starts|is fine|goes on)\b(?! out)", re.IGNORECASE)
_WORKS = re.compile(
    r"\b(?:training|the run|everything|all|both|it) (?:runs?|works?|starts|trains|is fine|goes on)\b(?! out| on (?:one|a single)\b)"
    r"|(?:^|[.!,;] )works? (?:well|fine|great)\b|训练正常|运行正常|läuft (?:alles|gut)\b",
    re.IGNORECASE | re.MULTILINE,
)
_BUT = re.compile(r"\b(?:but|except|until|unless|however|only (?:on|with|if|when)|not|never|aber|pero|mais)\b|但|\w't\b", re.IGNORECASE)
_BAD = re.compile(
    r"\b\w{0,40}(?:Error|error|Exception|ERROR)\b|NCCL WARN|\bout of memory\b"
    r"|\b(?:fail|crash|hang|hung|kill|stuck|slow|wrong|broken|abort|segfault)\w*",
    re.IGNORECASE,
)
POST = 64 << 10  # characters in which a person has said what the text is about; what goes on for longer is a log
_PROPOSED = re.compile(
    r"^\W{0,12}(?:feature request|feature(?=\])|proposal|enhancement|rfc|the doc issue|docs? (?:issue|request))\b"
    r"|\b(?:could|can|should) the (?:error |warning )?(?:message|text|log)\b"
    r"|\b(?:should|could) (?:also )?(?:have|get|contain) an? (?:\w{1,12} )?(?:section|page|paragraph|note|entry|table)\b"
    r"|\bthere (?:should|ought to|could) be (?:an? |some )?(?:\w{1,12} )?(?:logic|check|option|flag|way|mechanism|setting|switch|message)\b"
    r"|\bfeature request\b|\bproposal\.|\bjust curious\b"
    r"|(?<!find )(?<!found )(?<!nothing )(?<!looked )(?<!written )(?<!said )(?<!described )"
    r"\b(?:for|in) (?:our|the) (?:wiki|docs|documentation|runbook)\b"
    r"|\bwant to understand\b|\bwhat happens (?:if|when)\b"
    r"|\bsince then (?:everything|it|all|we) (?!can|does|do\b|fail|is not|isn|won|never|no\b|hang|crash|stop|get|throw|give|break|still)"
    r"|\bnothing (?:has )?happened (?:yet|so far)\b|^\W{0,12}docs?(?:\([\w -]{1,30}\))?: "
    r"|^\s{0,3}fix(?:es|ed):\s{0,3}$"
    r"|^\W{0,6}(?:test plan|differential revision|pull request resolved|signed-off-by)\b"
    r"|^(?:fix(?:es)?|close[sd]?|resolve[sd]?) (?:#\d{1,6}|https://\S{10,120}/issues/\d{1,6})\s{0,3}$"
    r"|\b(?:with|in) this (?:PR|pull request|patch)\b|^\W{0,6}this (?:PR|pull request|patch) [a-z]",
    re.IGNORECASE | re.MULTILINE,
)
_NOT_TICKED = re.compile(r"^\s{0,8}[-*] \[ ?\][^\n]{0,200}", re.MULTILINE)  # of a form's choices those that were not taken
_PRINTED = re.compile(r"Traceback \(most recent call last\)|^\[?(?:rank\d{1,5}\]?:|[EWI]\d{3,4} \d\d:)|^\S{0,20}\[[EW] ", re.MULTILINE)


def outlived(text: str) -> str:
    """The text without the warnings of ranks that meet, where later lines or the person say that they have met; where another error ends
    the run after that, without errors of an earlier start as well. Lines keep their place."""
    if "[W" not in text and "socket" not in text and "ddress already" not in text:
        return text
    met = max((match.start() for match in _MET.finditer(text)), default=0)
    if met and "Traceback (most recent call last)" in text[met:]:
        text = _without_meeting(text, met)
    end = len(text) if _GOES_ON.search(text) else max((match.start() for match in _MET.finditer(text)), default=0)
    return _without_meeting(text, end, at_warning_level)


def _without_meeting(text: str, end: int, among: Callable[[str], bool] = bool) -> str:
    """Up to a place, of these lines those of ranks that meet are emptied."""
    kept = ["" if _MEETING.search(line) and among(line) else line for line in text[:end].split("\n")]
    return "\n".join(kept) + text[end:]


_ASKED_AGAIN = re.compile(r"\bWARNING: Retrying \(Retry\(total=|\bRetrying in \d|\bretrying \w{1,20} due to\b|\bwill retry\b|\[Retry \d")
_FETCHED = re.compile(
    r"\bSuccessfully (?:installed|downloaded) |\bInstalled \d{1,4} packages? in |\bSaved \./|\bExecuting transaction: .{0,20}done\b"
)
_GAVE_UP = re.compile(r"\bERROR\b|^\W{0,8}error:|Traceback \(most recent call last\)|\w(?:Error|Exception): ")


def without_retries(text: str) -> str:
    """The text without an installer's words of asking again, where it goes on to say that all is installed. Lines keep their place."""
    if not _FETCHED.search(text) or not _ASKED_AGAIN.search(text):
        return text
    fetched, kept = False, []
    for line in reversed(text.split("\n")):
        again = _ASKED_AGAIN.search(line)
        fetched = bool(_FETCHED.search(line)) or (fetched and (bool(again) or not _GAVE_UP.search(line)))
        kept.append("" if fetched and again else line)
    return "\n".join(reversed(kept))


def said_to_work(text: str) -> bool:
    """Whether a person says that all goes well, takes nothing of it back, and shows no failure."""
    said = _WORKS.search(text, 0, POST) if len(text) <= POST else None
    return bool(said) and not _BUT.search(text, said.end() if said else 0) and not _BAD.search(text)


# What a program says of its end, and a person of a trouble that is over
_ENDED_WELL = re.compile(
    r"\b(?:training|train|run|job|fit|trainer|worker group)\b[^\n]{0,30}\b(?:finished|completed?|done|succeeded)\b(?!:? \d)"
    r"|\bfinished successfully\b|= \d{1,6} passed\b(?![^\n]{0,80}\b(?:failed|error))|\bchecks passed\b",
    re.IGNORECASE,
)
_IS_OVER = re.compile(
    r"\b(?:fixed|solved|resolved|cured) (?:it |this |that )?(?:by|with)\b|\b(?:is|are) gone\b|\ball is (?:well|fine|good)\b"
    r"|一切正常|训练已完成|\balles (?:ist )?(?:in Ordnung|gut)\b",
    re.IGNORECASE,
)
COUNTED_NONE = re.compile(r"\b(?:0|no|zero|without) (?:errors?|failures?|problems?|warnings?|failed)\b", re.IGNORECASE)
_ASKS_AGAIN = re.compile(r"[?？]|\b(?:help|why|how)\b", re.IGNORECASE)


def ended_well(text: str) -> bool:
    """Whether the last word is that the run ended as it should, or that the trouble is over: what was printed before was got over."""
    ends = [match.start() for pattern in (_ENDED_WELL, _IS_OVER) for match in pattern.finditer(text)]
    if not ends:
        return False
    last, before = text[max(ends) :], text[max(max(ends) - 20, 0) : max(ends)].rpartition("\n")[2]
    return not (_BUT.search(before + last) or _BAD.search(COUNTED_NONE.sub("", last)) or says_failure(last) or _ASKS_AGAIN.search(last))


_FIELDS = 'List of valid properties to query for the switch "--query-'


def without_field_lists(text: str) -> str:
    """The text without what nvidia-smi's --help-query-gpu says of fields: a field about failures is none. Lines keep their place."""
    if _FIELDS not in text:
        return text
    kept, inside = [], False
    for paragraph in text.split("\n\n"):
        inside = paragraph.startswith(_FIELDS) or (inside and paragraph.startswith(('"', "Section about ")))
        kept.append("\n" * paragraph.count("\n") if inside else paragraph)
    return "\n\n".join(kept)


# "h:10:20 [1] NCCL INFO misc/socket.cc:47 -> 2": one frame of an error's way through NCCL, by who prints it
_FRAME = re.compile(r"^(.{0,200}?)NCCL INFO [\w./-]{1,120}:\d{1,6} -> \d{1,2}$")


def innermost(text: str) -> str:
    """The text with only the first frame of each such way: the others lead back to the call. Lines keep their place."""
    if " -> " not in text or "NCCL INFO" not in text:
        return text
    lines = text.split("\n")
    inside: set[str] = set()
    for number, line in enumerate(lines):
        if "NCCL" not in line:
            continue
        frame = _FRAME.match(line.rstrip())
        who = frame[1] if frame else line.partition("NCCL")[0]
        if frame and who in inside:
            lines[number] = ""
        elif frame:
            inside.add(who)
        else:
            inside.discard(who)
    return "\n".join(lines)


def at_warning_level(line: str) -> bool:
    """Whether a line is a warning by the word of the program that printed it."""
    return bool(_WARNING.search(line)) or _OF_PYTHON in line


# The title of a change, "[CUDA] Fix …", "docs: …"; a person who asks for help writes in the first person
_OF_A_CHANGE = re.compile(
    r"\W{0,8}(?:\[[^\]\n]{1,30}\] ?){0,2}(?:[\w./-]{1,20} ?: ?)?"
    r"(?:fix(?:es|ed)?|refactor|bump|implement|force|allow|print|handle|improve|clarify|reword|rename) (?!this|please|me\b)\w",
    re.IGNORECASE,
)
# With the run of a service that builds and tests it, or the change that it follows, these are titles of changes too.
_OF_A_TESTED_CHANGE = re.compile(
    r"\W{0,8}(?:\[[^\]\n]{1,30}\] ?){0,2}(?:[\w./-]{1,20} ?: ?)?"
    r"(?:use|add|update|pin|unpin|skip|enable|disable|remove|move|upgrade|downgrade|switch|make|set|support|build|install|revert|don't)"
    r" (?!this|please|me\b|of\b|with\b|to\b|fail)\w",
    re.IGNORECASE,
)
_TESTED = re.compile(r"https://\S{10,120}/(?:actions/runs|pull|pipelines|jobs)/\d{1,20}|\bhud\.pytorch\.org/")
_ASKS = re.compile(r"[?？]|\b(?:I|my|help me|need help|any help)\b|[我您]")


def proposed(text: str) -> bool:
    """Whether a text speaks of a message without having met it now: a feature request, or a change, with no print in it."""
    titled = _OF_A_CHANGE.match(text) or (_OF_A_TESTED_CHANGE.match(text) and _TESTED.search(text, 0, POST))
    change = titled and not _ASKS.search(text, 0, POST)
    said = _NOT_TICKED.sub("", text[:POST])
    return bool(change or _PROPOSED.search(said)) and not _PRINTED.search(text)
