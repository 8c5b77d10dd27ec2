"""How a program ended, as people and tools write it: an exit code or a signal in any language, and what the number means.

Exited (132) 3 seconds ago     Exit Code:    137     退出码 139     Prozess wurde beendet, Exitcode 137     0xC000001D
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts.snapshot import TextEvidence
from envcheck.read.found import LINE_LIMIT, line_at


def words(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern whose \\b is the edge of a word in Latin letters: others write no space between their words and those."""
    return re.compile(pattern.replace(r"\b", r"(?a:\b)"), flags)


_CODE = words(
    r"(?:\b[Ee]xit(?:ed|s|ing)?(?:[ -]?(?:code|Code|status|value|with))*|\b[Ee]xitcode|\b[Rr]eturn(?:ed)?[ -](?:code|value)"
    r"|\bgot code|\breturned (?=-\d)|\bcode:? (?=-\d)"
    r"|退出代码|退出码|返回码|返回值|状态码|错误码|退出状态|退出|终止|\bsignal\b|[Cc]ode de (?:sortie|retour)|Rückgabewert"
    r"|Rückgabecode|Fehlercode"
    r"|с кодом|[Кк]од(?:ом)? (?:возврата|выхода|завершения)|終了コード|código de (?:salida|saída)|codice di uscita)"
    r"[\s:：=('\"`]{0,8}(?:is|was|of|with|code|为|是|в|ist|mit)?[\s:：=('\"`]{0,4}(?P<code>-?\d{1,10}"
    r"|0[xX][0-9a-fA-F]{8})(?![0-9A-Za-z_]|\.\d)"
)
_HEX = words(r"\b0[xX][cC]0000(?:005|01[dD]|135)\b|(?<!\d)(?:3221225477|3221225501|3221225781|-1073741819|-1073741795|-1073741515)(?!\d)")
_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
_WINDOWS = {0xC0000005: "SIGSEGV", 0xC000001D: "SIGILL"}
_RULES = {
    "SIGILL": ("cpu-too-old", ""),
    "SIGBUS": ("shm-small", ""),
    "SIGKILL": ("host-memory-low", "killed"),
}
_IMPORTS = words(r"\b(?:import|importing|from) torch\b")
_ASKED_ABOUT = words(r"\b(?:if|when|what does|what is|what are|meaning of)\b(?! (?:I|it|we|the)\b)[^.\n]{0,30}$|如果", re.IGNORECASE)
# Who ends a program for no fault of it
_ENDED_BY_US = words(
    r"\bdocker (?:stop|kill)\b|\bkill -9\b|\bI (?:killed|stopped)\b|\bCtrl ?[-+]? ?C\b|手动(?:停止|终止|结束)", re.IGNORECASE
)


def signal_of(code: str) -> str | None:
    """The signal that an exit code stands for: 132 and -4 are SIGILL, as is Windows' 0xC000001D in any spelling."""
    number = int(code, 16) if code.lower().startswith("0x") else int(code)
    number = number + (1 << 32) if -(1 << 31) <= number < -255 else number
    if number in _WINDOWS:
        return _WINDOWS[number]
    return _SIGNALS.get(number - 128 if 128 < number < 160 else -number if number < 0 else 0)


def endings(text: str) -> Iterator[TextEvidence]:
    """A sign for the one code that a text names. Several that differ are a list of what codes mean, or a job of many ranks."""
    found = [(match, signal) for match in _CODE.finditer(text) if (signal := signal_of(match["code"]))]
    found += [(match, signal) for match in _HEX.finditer(text) if (signal := signal_of(match[0]))]
    if len({signal for _, signal in found}) != 1 or _ENDED_BY_US.search(text):
        return
    match, signal = found[0]
    if _ASKED_ABOUT.search(text[max(match.start() - 40, 0) : match.start()]):
        return
    line = line_at(text, match.start())[0].strip()[:LINE_LIMIT]
    if signal in ("SIGSEGV", "SIGABRT") and _IMPORTS.search(text):
        yield TextEvidence("complaints", line, "torch-import-crashed", "ended-by-code", {"signal": signal}, confidence="likely")
    elif signal in _RULES:
        rule, variant = _RULES[signal]
        yield TextEvidence("complaints", line, rule, "ended-by-code", {"signal": signal}, variant=variant, confidence="likely")
