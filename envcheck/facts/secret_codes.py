"""Secrets that people read out: a number or a code of letters that opens something, and the answer to a question that an account asks.

A number tells nothing by itself. It is a secret behind a word that names no other code (PIN, PUK), behind a word for a code and what that
opens, in whichever order a language has them, and behind a word for a code in a sentence that has told a secret already."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts.secret_words import ANSWERS, ASKED, CODE, CODES, FAULTS, OPENED, OPENED_WITHIN, QUESTIONS, any_of

_COPULA = (
    "(?:is|was|are|now|lautet|ist|war|es|era|son|est|était|é|è|sono|to|jest|brzmi|je|er|är|var|on|oli|adalah|ialah|là|este|van|это|будет|єсть"
    "|είναι|هو|הוא|dir|dır|zní|reads)"
)
_ARTICLE = r"(?:\s(?:le|la|el|der|die|das|the|o|il|now|still|jetzt))?"
# Words as far as a verb, or as far as a sign
_GLUE = (
    rf"(?:(?:\x20[^\W\d_][\w'’-]{{0,20}}){{0,5}}?\x20{_COPULA}\b{_ARTICLE}"
    r"|(?:\x20[^\W\d_][\w'’-]{0,20}){1,3}?\x20?(?=[:=：—–→]))?[\x20\"'*`:=：＝—–→»は是为為은는]{0,6}"
)
_CALLED_CODE = r"(?:[-\x20]?(?i:[ck]od\w{0,5}|koodi\w{0,3}|kód\w{0,3}|nummer|number|numero|код\w{0,2}|номер|码|番号|コード|번호)|s)?"
NUMBER = re.compile(
    rf"((?<![A-Za-z0-9_-])(?:(?:PIN|ПИН){_CALLED_CODE}|OTP|TOTP|m?TAN|MFA|2FA)(?![A-Za-z0-9_])"
    rf"|(?<![A-Za-z0-9_-])(?i:pin|пин)(?:-?(?i:[ck]od\w{{0,5}}|код))?(?=\s?[:=]|[\w\x20]{{0,60}}\s{_COPULA}\s)|{any_of(CODES)}[\w]{{0,6}})({_GLUE})"
    r"(\d{4,8}|\d{3}[\x20-]\d{3})(?![A-Za-z0-9_-]|[.,:]\d)"
)
# Eight digits that unlock a SIM: nothing else is called that, whatever words stand between
PUK = re.compile(
    r"((?<![A-Za-z0-9_-])(?:PUK|Puk|ПУК)(?![A-ZА-Я])[^\W\d_]{0,8}[^\n\d]{0,48}?(?<![\w.]))(?:\d{8}|\d{4}\x20\d{4})(?![\w-]|[.,:]\d)"
)
BARE_CODE = re.compile(
    r"((?<![\w-])(?i:the|my|your|sms|text|access|login|door|new)\s(?i:code)\s(?:is|was)\s(?:now\s)?[\"']?|(?<![\w-])(?i:il|tu|su|mi|o|seu|meu|votre|mon|le|ihr|dein|mein|der|de|din|kod|koden|twój)\s"
    r"(?i:code|código|codice|kod|kode|koodi|koden)\s(?:is|ist|lautet|est|es|é|è|to|je|er|är|on)\s[\"']?|(?<!\w)(?i:код)(?:\s(?:это|такой)|(?:\s(?:из|от|для|по)\s\S{1,12}){0,2}\s?[:—–-])?\s)(\d{4,8})(?![\w.-])"
)
_OF_NOBODY = re.compile(rf"(?i){any_of(FAULTS)}")


def is_number(found: re.Match[str]) -> bool:
    return not _OF_NOBODY.search(found[0])


def is_bare_code(found: re.Match[str]) -> bool:
    """Whether the code is somebody's: no error, exit or product is spoken of before on its line."""
    before = found.string[max(0, found.start() - 60) : found.start()].rpartition("\n")[2]
    return not _OF_NOBODY.search(before + found[0])


# ------------------------------------------------------------------ a code, and what it opens

_WORD = re.compile(rf"(?i:{any_of(CODE)})[^\W\d_]{{0,8}}(?![\w(=\[/\\@.])")
# As far as the value: a clause, also one that goes on in the next line
_WAY = (
    r"((?:[^\n.,;!?:：=—→\d\[\]{}<>|/\\_`，。；！？、]|\n(?=[a-zà-ÿа-я])){0,70}?)"
    r"((?:[\x20\xa0]{0,2}[:：=—–→])?[\x20\xa0\"'`*«「]{1,4}|[：:は是为為은는][\x20\"'「]{0,2})"
)
_VALUE = (
    r"(\d{4,10}|\d{3}[\x20-]\d{3}|\d{2}(?:[\x20-]\d{2}){1,4}|[#*]\d{3,8}#?"
    r"|(?=[A-Z-]{0,40}\d)[A-Z0-9]{3,8}(?:-[A-Z0-9]{3,8}){1,7}|(?=[a-z-]{0,40}\d)[a-z0-9]{4,6}(?:-[a-z0-9]{4,6}){1,7}"
    r"|(?=\d{0,8}[A-ZА-Я])(?=[A-ZА-Я]{0,8}\d)[A-ZА-Я0-9]{4,10})(?:[#*](?!\w))?(?![\w-]|[.,:]\d)"
)
_TO_VALUE = re.compile(_WAY + _VALUE)
_NEXT_VALUE = re.compile(rf"([,，、]?(?=[^\n.;]{{3,60}}\d)){_WAY}{_VALUE}")  # "…, and that of the door is …"
_BESIDE = re.compile(
    rf"(?:[\x20,;/]{{1,3}}|,?\x20(?:and|und|et|y|e|en|og|och|ja|i|a|и|та|ve|és|și)\x20|\s{{0,2}}\n\s{{0,8}}(?:[-*•]\s)?){_VALUE}"
)  # a list of them
_SIGN = re.compile(rf"[:：=—–→はは是为為은는]|\s{_COPULA}{_ARTICLE}\Z", re.IGNORECASE)
_WHOLE = any_of(one for one in OPENED if len(one) < 5)
_STEMS = any_of(one for one in OPENED if len(one) > 4)
_OPENED = re.compile(rf"(?i)(?<![^\W\d_])(?:{_STEMS}|(?:{_WHOLE})(?![^\W\d_]))|{any_of(OPENED_WITHIN)}")
_LAST_CLAUSE = re.compile(r"[^\n.,;:!?()\[\]{}<>|=\"，。；：！？、]{0,40}\Z")
# Also a door in some languages, but what follows is no code of it
_PORT = re.compile(r"(?i)(?:port\w{0,2}|порт\w{0,2}|ポート|端口)\Z")
_COUNTED = re.compile(
    r"(?i)\s?(?:%|[kmgt]i?b\b|bytes?\b|octets?\b|bits?\b|lines?\b|times\b|tokens?\b|steps?\b|files?\b|m?s\b|zeilen|lignes|líneas|linhas|righe|regels|rader"
    r"|linier|wierszy|linii|řádk|строк|行|줄)"
)
_DIRECT = re.compile(r"(?i)code")  # of a machine in English as often as of a door: there a verb or a sign has to say that it is told
_TURNED = re.compile(r"[^\W\d_]+|\d+")


# What is typed with the key that ends it: digits of no issue and no note
_TYPED = re.compile(r"(?<![\w#*./-])([#*]?\d{4,8}(?:#(?!\w)|\*(?=[,.;!)]|\s{0,4}(?:\n|\Z))))")


def _typed(found: re.Match[str]) -> bool:
    head = _LAST_CLAUSE.search(found.string, max(0, found.start() - 40), found.start())
    return bool(head and _OPENED.search(head[0]) and not _OF_NOBODY.search(head[0]))


def coded(text: str, mask: str) -> str:
    """Text without the codes that a sentence tells, with what they open or behind another secret."""
    parts, last = [], 0
    for word in _WORD.finditer(text):
        if word.start() < last:
            continue
        for start, end in _values(text, word, mask):
            parts += [text[last:start], mask]
            last = end
    text = "".join([*parts, text[last:]]) if parts else text
    return _TYPED.sub(lambda found: mask if _typed(found) else found[0], text) if "#" in text or "*" in text else text


def _values(text: str, word: re.Match[str], mask: str) -> Iterator[tuple[int, int]]:
    """From where to where the codes of one sentence are written."""
    code = _TO_VALUE.match(text, word.end())
    if code is None or not _told(text, word, code, mask):
        return
    while code is not None:
        yield code.start(code.re.groups), code.end()
        code = _another(text, code)


def _another(text: str, last: re.Match[str]) -> re.Match[str] | None:
    """One more code of a list, or of something else that the same sentence speaks of."""
    beside = _BESIDE.match(text, last.end())
    if beside and len(beside[1]) == len(last[last.re.groups]) and _looks(text, beside):
        return beside
    code = _NEXT_VALUE.match(text, last.end())
    return code if code and _OPENED.search(code[2]) and not _OF_NOBODY.search(code[2]) and _looks(text, code) else None


def _told(text: str, word: re.Match[str], found: re.Match[str], mask: str) -> bool:
    """Whether the value behind a word for a code is one that opens something."""
    head = _LAST_CLAUSE.search(text, max(0, word.start() - 40), word.start())
    before = head[0] if head else ""
    way, sign = found[1], found[2]
    if not _looks(text, found) or _OF_NOBODY.search(f"{before}{word[0]}{way} "):
        return False
    signed = bool(_SIGN.search(way + sign.rstrip()))
    # a compound has what is opened right before the code
    if any(_OPENED.search(one) for one in (before, before + word[0], way)):
        return signed or (found[3][0].isdigit() and not _PORT.search(way) and bool(before[-1:].strip() or not _DIRECT.match(word[0])))
    return signed and way.strip() != "" and mask in text[max(0, word.start() - 160) : word.start()]


def _looks(text: str, found: re.Match[str]) -> bool:
    """Whether a code looks like this: digits that count nothing, or what changes between letters and digits."""
    value = found[found.re.groups]
    if _COUNTED.match(text, found.end()):
        return False
    return not value.isalnum() or value[:4].isdigit() or len(_TURNED.findall(value)) > 2


# ------------------------------------------------------------------ the answer to a question

_ANY_ANSWER = rf"(?:{any_of(ANSWERS)})[^\W\d_]{{0,6}}"
_ANY_QUESTION = rf"(?:{any_of(QUESTIONS)})[^\W\d_]{{0,9}}"
_IS = r"(?:is|was|ist|lautet|est|es|é|è|to|je|är|er|on|это)"
_GIVEN = rf"(?:[\"']?\s{{0,4}}(?::|=|=>|：|→|—)\s{{0,4}}|[\"']?\s{_IS}\s)[\"']?"
ANSWER = re.compile(
    r"((?i:(?:security|secret|recovery|challenge|memorable)[\x20_-]?(?:question)?(?:['’]?s)?[\x20_-]?answers?(?:[\x20_-]?\d)?|(?:sicherheits|geheim)antwort"
    r"|\bréponse\s(?:secrète|de\ssécurité)|\brespuesta\s(?:secreta|de\sseguridad)|\bresposta\s(?:secreta|de\ssegurança)|\brisposta\s(?:segreta|di\ssicurezza)"
    r"|密保答案|安全问题答案|秘密の答え|보안\s?답변"
    rf"|\b{_ANY_ANSWER}(?:\s[^\W\d_]{{1,8}}){{0,3}}?\s{_ANY_QUESTION}(?:\s\d{{1,2}})?(?:\s?[(„«“\"'][^()\n„”»“\"]{{1,120}}[)”»“\"'])?"
    rf"|(?:{any_of(ASKED)})[^\W\d_]{{0,8}}(?!\sproject)(?:\s(?!{_IS}\s)[^\W\d_][\w'’]{{0,20}}){{0,4}}\)?){_GIVEN}"
    rf"|(?i:{_ANY_QUESTION})(?:\s?\([^()\n]{{1,120}}\){_GIVEN}|[^\n]{{1,160}}?(?:\n[^\n]{{0,20}}?)?(?:(?i:{_ANY_ANSWER})|(?<!\w)A)\s{{0,4}}[:：=]\s{{0,4}}[\"']?))"
    r"(?![\s\"']{0,8}\[secret\]|[\s<{$*,;.)])(?:(?<=\")[^\"\n]{2,200}|(?<=')[^'\n]{2,200}|[^\n\"']{2,200})"
)
