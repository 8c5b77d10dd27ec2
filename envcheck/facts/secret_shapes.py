"""Secrets that no list of kinds tells: by the word before them, by what chance alone writes, and by what a mask has left of them.

Each judges a token by how sure its place makes it: after a word for a password what people think of is enough, beside a word for a key or
in a login's call what is no word, and anywhere only what chance has written."""

from __future__ import annotations

import functools
import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import NamedTuple

from envcheck.facts.secret_references import is_reference, is_state
from envcheck.facts.secret_words import CHANGED, FOREIGN, SINCE, TO, VERBS, any_of

# ------------------------------------------------------------------ what a token is made of

_PIECES = re.compile(r"[A-Z]{1,99}(?![a-z])|[A-Z]?[a-z]+|\d+")
# Three letters with a vowel among them and no four consonants in a row
_WORD = re.compile(r"(?=[A-Z]?[a-z]{0,2}[aeiouy])(?![A-Za-z]{0,20}?(?![AEIOUYaeiouy])[A-Za-z][b-df-hj-np-tv-xz]{3})[A-Z]?[a-z]{3,}")
# A letter and those that follow it in English more often than by chance: of 93 % of the pairs in 8,000 words, a third of all pairs
_FOLLOWED = (
    "abcdgiklmnprstuvy baeilorsu cacehiklorstu dadeilosu eacdefgilmnpqrstvx faefilortu gaehinrsu haeior iabcdefglmnoprstvz keis"
    " ladeilostuy mabeimopsu nacdefgiklnopstuv oabcdfgilmnoprstuvw paeiloprstuy qu racdegiklmnorstuy sacehilopstuy tacehilorstuy"
    " uabceilmnprst vaei waeior xipt yp ze"
)
_PAIRS = frozenset(letters[0] + other for letters in _FOLLOWED.split() for other in letters[1:])
_BETWEEN = re.compile(r"[^A-Za-z0-9]|(?<=\d)[xX]\d+")  # also 128x64
_CAPITALS = re.compile(r"[A-Z]+")
_OF_A_COMMIT = re.compile(r"(?i)\b(?:commit|tree|parent|object|revision)[\s:=\"'(]{1,4}\Z")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_LONG = re.compile(r"[A-Za-z0-9]{11}")  # names of several words have shorter ones
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HEX = re.compile(r"[0-9a-f]{32,}")
_BASE32 = re.compile(r"(?=[A-Z]{0,60}[2-7])[A-Z2-7]{16,128}")  # of what shows numbers for one time
_KEY_LETTERS = re.compile(r"[\w+/=.~-]{12,}")
# Versions, paths, addresses, variables, calls, names of files and of modules, dates: they tell a cause, and are nobody's secret
_FACT = re.compile(
    r"(?i)v?\d{1,20}(?:[.:/-]\d{1,20}){0,8}(?:\S{0,3}|(?:[.+_-]?(?:post|dev|rc|pre|alpha|beta|cu|cpu|rocm|git)[\d.]{0,12}){1,3})|[a-z]{1,40}-?\d{1,9}(?:\.\d{1,9}){1,6}\S{0,40}|\w{1,80}:|[a-z][\w-]{0,62}(?:\.[\w-]{1,63}){1,8}\]?:\d{1,5}|(?-i:[A-Z][A-Z0-9]{0,60}(?:_[A-Z0-9]{1,60}){1,20})"
)
_BEGINS = re.compile(
    r"[$<{*…%\[/~-]|(?:FILE|WRFILE|DIR|KCM|KEYRING|MEMORY):|\.{1,2}/|[A-Za-z]:[\\/]|0x[0-9a-f]|[\w.:]{1,80}\(|\w{1,80}\[|[\w.]{1,80}(?:=[^=]|[=<>!]=)|[\w.-]{1,80}(?:\[[\w,.-]{1,60}\])?[=<>!~]=\d|[\u3040-\u9fff\uac00-\ud7af]"
)
_HOLDS = re.compile(
    r"://|\w/\w{1,80}/|\.(?:py|so|dll|dylib|lib|exe|pyd|sh|js|json|ya?ml|toml|txt|cfg|conf|ini|log|md|html?|cpp|cuh?|c|h|hpp|gz|zip|whl|env|pem|key|keytab"
    r"|com|org|net|io|de|internal|local)(?:[:#(]|\Z)"
)
_NAME = re.compile(r"[a-z_]{1,80}(?:[._-][a-z0-9]{1,80}){0,20}|[a-z]{1,80}\d+|_{0,2}(?:[A-Z]{1,8}[a-z]{1,40}){1,20}")


def is_fact(token: str) -> bool:
    return bool(_FACT.fullmatch(token) or _BEGINS.match(token) or _HOLDS.search(token))


def by_chance(token: str) -> bool:
    """Whether chance alone has written this: in names capitals, small letters and digits stand together, in base64 they change."""
    bare = _BETWEEN.sub("", token)
    if len(bare) < 18 or len(set(map(_kind, set(bare)))) < 3 or 10 * len(_CAPITALS.findall(bare)) < len(bare) or not _LONG.search(token):
        return False
    return 8 * len(_PIECES.findall(bare)) >= 3 * len(bare) - 6 and not _of_words(bare, 3)


def _of_words(token: str, most: int) -> bool:
    """Whether more than one letter of so many belongs to what can be a word."""
    return most * sum(len(word) for word in _WORD.findall(token) if _spelt(word.lower())) >= len(token)


def _spelt(word: str) -> bool:
    """Whether the letters follow each other as in words."""
    return 5 * sum(one + other in _PAIRS for one, other in zip(word, word[1:], strict=False)) >= 3 * (len(word) - 1)


def _kind(letter: str) -> str:
    return "A" if letter.isupper() else "a" if letter.isalpha() else "0" if letter.isdigit() else "_" if letter in "._-/" else "!"


def thought_of(token: str, named: bool) -> bool:
    """Whether people think of a password such as this. `named`: a colon, an arrow or a quotation mark says that here it is."""
    if len(token) < (6 if named else 8) or token.isalpha():
        return False
    kinds = set(map(_kind, set(token)))
    if not kinds & {"A", "a"}:
        return False
    capitals = {"A", "a"} <= kinds and ("0" in kinds or any(map(str.isupper, token[1:])))
    if len(kinds & {"0", "!"}) + capitals + (named and "_" in kinds) < 2:
        return False
    if _NAME.fullmatch(token) and not (named and "0" in kinds and "_" in kinds):
        return False
    return not is_fact(token)  # the last question: it takes the longest


def _told(token: str) -> bool:
    """Whether letters and digits are a password where a verb before them says so: of a name with a number behind it three are asked for."""
    digits, letters = sum(map(str.isdigit, token)), sum(map(str.isalpha, token))
    return len(token) > 7 and letters > 2 and digits > (2 if _NAME.fullmatch(token) else 1) and not is_fact(token)


def drawn(token: str) -> bool:
    """Whether a program has drawn this: a key in hex, a UUID, letters and digits among each other."""
    if token.isalpha() or not _KEY_LETTERS.fullmatch(token) or is_fact(token):
        return False
    if _UUID.search(token) or (_BASE32.fullmatch(token) and not _of_words(token.lower(), 3)):
        return True
    digits = sum(map(str.isdigit, token))
    turns = sum(1 for _ in groupby(token, str.isdigit)) - 1
    return by_chance(token) or (digits > 2 and 5 * turns >= len(token) and (bool(_HEX.fullmatch(token)) or not _of_words(token, 3)))


# ------------------------------------------------------------------ behind a word

_PASSWORD = re.compile(
    r"(?i:(?<!/etc/)passw(?:or)?[dt]|pass_?phrase|pass[\x20_-]?code|passkey|pre-?shared[\x20_-]key|(?:secret|shared|seed)[\x20_-]phrase|(?:access|unlock)[\x20_-]codes?"
    rf"|{any_of(FOREIGN)})(?:(?<![\u3040-\u9fff\uac00-\ud7af])\w{{0,12}}|(?:(?![是为為は])[\u3040-\u9fff\uac00-\ud7af]){{0,12}})"
    r"|(?<![\w.])(?:user\s(?:add|create)|(?:add|create)_?user|AUTH)(?=\s)"
    r"|\b(?:pass\sshow|vault\s(?:kv\s)?(?:get|read)|(?:op|bw|lpass|gopass)\s(?:read|get|show))\b"
    r"|(?<![A-Za-z0-9-])(?:PW|[Pp]w|[Pp]wd|[Pp]sw|[Mm]dp|(?:[Cc]redentials?|[Cc]reds?|CREDS)(?=[\s:=]))(?![\w-])"
    r"|(?<![A-Za-z0-9-])(?:[Pp]ass|[Cc]lave|[Ss]enha|PIN|[Pp]sk|PSK)(?=\s{0,20}[:=→»—–]|\s(?:is|was|es|est|é)\s)"
    r"|(?<![A-Za-z0-9./-])(?:mk|ww|пасс)(?=:\s)"
)
_KEY = re.compile(
    r"(?i)(?:api|access|secret|private|account|auth|customer|service|license|licence|recovery|unlock|activation|send|deploy)[\x20_-]?keys?(?![a-z])"
    r"|(?<![a-z])(?:auth_?|access_?)?tokens?(?![a-z_-])|licen[cs]es?(?![a-z])|(?:serial|product|bitlocker|set-?up|entry)\skey|(?:authenticator|[th]?otp|2fa|mfa)[\x20_-](?:seed|secret|key)(?![a-z])|(?<![a-z])secret(?:[\x20_-]key)?(?![a-z_])|(?<![a-z-])(?:log_?in|authorize|authenticate|access\simport)(?![a-z\d_])"
)
_GROUPS = re.compile(r"[A-Z0-9]{4,6}(?:-[A-Z0-9]{4,6}){2,8}")  # of a key of a product
_GAP = re.compile(r"(?:[\s\"'`「『«“‘(\[<:：=→>—–|.…?·»*#&;,!)\]}]|\\{1,3}[nrt\"']|-(?=[\s>])|[是为為は](?=[「『“\"'\x20]|[!-~])){0,80}")
_NAMING = re.compile(r"[:：=→>»?|…—–\n\"'`「『«“‘是为為は]|\.\.\.")
_BELOW = re.compile(r":\n[\x20\t]{1,40}\w")  # further lines that belong to this one
_ALONE = re.compile(r":\s?\n\s?\n\s{0,8}\Z")  # a blank line, and what was spoken of on one of its own
_CLOSED = {'"': '"', "'": "'", "`": "`", "「": "」", "『": "』", "«": "»", "“": "”", "‘": "’"}
_TOKEN = re.compile(r"[^\s，。；、」』”’»\"`|]{1,400}")
_ENDS = ".,;:!?)]}>'"
_NEXT_NAME = re.compile(r"[A-Za-z_][\w.-]{0,80}=(?!=)")
_STARRED = re.compile(r"[*•●]{3}[\"'`)\]}>,;.]{0,3}(?:\s|\Z)")  # what was here is hidden, and the next line speaks of something else
_COPULA = re.compile(
    r"(?i)is|was|now|still|est?|era|[éè]|ist|war|lautet|brzmi|zní|este|είναι|jest|je|to|[äe]r|on|là|adalah|ialah|olan|sono|sarà|vale|isto|будет|такой|это"
)
_CHANGED = re.compile(rf"(?i){any_of(CHANGED)}[^\W\d_]{{0,8}}")
# "auf … geändert": the value stands before the verb
_BEFORE_CHANGED = re.compile(rf"(?i)\s[\"'„»]?\S{{6,60}}\s{_CHANGED.pattern.removeprefix('(?i)')}")
_IS = re.compile(rf"\s(?:{_COPULA.pattern.removeprefix('(?i)')})[\s\"'`]{{1,2}}\Z", re.IGNORECASE)
# "… for the guests is 88120934", where it counts nothing
_DIGITS = re.compile(
    r"(?:\s(?:for|of|to|on|für|vom|van|voor|de|del|della|du|des|da|do|dla|от|для|till|til|pour|para|per|di)\b[^\n.,;:!?\d=]{1,40}?)?\s"
    rf"(?:{_COPULA.pattern.removeprefix('(?i)')})[\s\"'`]{{1,2}}(\d{{6,12}})(?![\w-]|[.,:]\d|\s(?:char|zeich|caract|s\b|byte|tok|symb|знак|simb|stell|posi|bits?))",
    re.IGNORECASE,
)
_KEPT = 16_384  # places of a text: more than the tokens behind a word reach
_NEAR = 6  # tokens behind a word; further away a sign has to say that here it is


def _says_more(text: str, start: int, end: int, said: int) -> int:
    """How sure what follows a word is the value: 1 behind an adverb or what may be a verb, 2 behind a verb, -1 behind "changed"."""
    word = text[start:end].lower()
    if word in SINCE and said >= 0:
        return 2 if said else 1
    if word in TO and (said == -1 or (word in ("auf", "zu", "naar") and _BEFORE_CHANGED.match(text, end))):
        return 2
    if word in VERBS:
        return 2
    if _COPULA.fullmatch(text, start, end):
        return 1
    return -1 if _CHANGED.fullmatch(text, start, end) else 0


class _Step(NamedTuple):
    """The next token of a sentence, and the gap before it."""

    gap: str
    start: int
    end: int
    naming: bool  # a sign says that here it is
    name: bool  # a name and "=" stood before it
    last: bool  # the sentence ends with it


def _step(text: str, at: int, broken: bool) -> _Step | None:
    """What stands at a place of a sentence, `broken` where a line has ended since the word."""
    gap = _GAP.match(text, at)
    if gap is None or _STARRED.search(gap[0]):
        return None
    at, name = gap.end(), None
    closing = _CLOSED.get(gap[0][-1:])
    to = text.find(closing, at, at + 200) if closing else -1
    if closing and to > at and "\n" not in text[at:to]:
        while text[to + 1 : to + 2] == closing == "'" or text[to - 1] == "\\":  # doubled or escaped, it belongs to the value
            further = text.find(closing, to + 2, at + 200)
            if further < 0:
                break
            to = further
    elif found := _TOKEN.match(text, at):
        name = _NEXT_NAME.match(found[0]) if broken or "\n" in gap[0] else None
        at += name.end() if name else 0
        to = max(at, found.end() - len(found[0]) + len(found[0].rstrip(_ENDS)))
    else:
        return None
    last = text[to : to + 1] in tuple(".;!") and text[to + 1 : to + 2] in ("", " ", "\n")
    return _Step(gap[0], at, to, bool(_NAMING.search(gap[0])), bool(name), last)


def _likely(token: str, named: int) -> tuple[bool, bool]:
    """Whether the token looks like a password behind the word for one, and whether like what is a secret behind any."""
    return thought_of(token, named > 0) or (named > 1 and _told(token)), drawn(token) or bool(_GROUPS.fullmatch(token))


class _Read:
    """What has been read of a text: where such words stand close together, each token stands behind many of them."""

    def __init__(self, text: str) -> None:
        once = functools.lru_cache(_KEPT)
        self.text = text
        self.step = once(functools.partial(_step, text))
        self.says_more = once(functools.partial(_says_more, text))
        self.likely = once(_likely)

    def behind(self, at: int, most: int) -> Iterator[tuple[int, int, int]]:
        """The next tokens of a sentence: from, to, and how sure it is that this is the value. They end with it, or on the second line."""
        breaks, said = 0, 0
        most_breaks = 4 if _BELOW.match(self.text, at) else 1
        for number in range(most):
            step = self.step(at, breaks > 0)
            if step is None:
                return
            breaks += step.gap.count("\n")
            if breaks > most_breaks and not (breaks == 2 and _ALONE.match(step.gap)):
                return
            named = said if said > 0 else int(step.naming)
            named = named or int(step.name)
            if step.end > step.start and (number < _NEAR or (named and not breaks)):
                yield step.start, step.end, named
            said = self.says_more(step.start, step.end, said)
            at = max(step.end, step.start + 1)
            if step.last:
                return


def spoken(text: str, mask: str) -> str:
    """Without what stands behind a word for a password and looks like one, or behind a word for a key and is drawn."""
    hidden: list[tuple[int, int]] = []
    read = _Read(text)
    for word, most, judges in ((_PASSWORD, 16, True), (_KEY, 10, False)):
        hidden += filter(None, (_spoken_of(read, found, most, mask, judges=judges) for found in word.finditer(text)))
    return _without(text, hidden, mask)


_GIVEN = re.compile(r"[\"'\])]{0,3}\s{0,8}[:=]{1,2}\s{0,8}[\"'&]?")
# Nothing, or what stands for it, up to the end of the line: the next one speaks of something else
_LEFT_OPEN = re.compile(
    r"[\"'\])]{0,3}[\x20\t]{0,8}(?:=[\x20\t]{0,8}(?=\r?\n\S)|[:=]{1,2}[\x20\t]{0,8}[\"']?(?:<[^<>\n]{1,60}>?"
    r"|\((?:sensitive|hidden|redacted|masked|unchanged|not\sset|none|empty|known\safter)[^()\n]{0,30}\))[\"']?[\x20\t]{0,8}(?=\r?\n|\Z))"
)
_BLANK = (
    re.compile(r"<(?:(?:[\w'-]{1,20}\x20){1,5}|[A-Z][A-Z_]{0,40}_)\Z"),
    re.compile(r"[\w\x20'-]{0,30}>"),
)  # <your secret key>, <HUB_TOKEN>
# An error: what it goes on to say on the next line is no password
_AT_FAULT = re.compile(
    r"(?i)\b(?:invalid|incorrect|wrong|bad|expired|unknown|ung[uü]ltige[rsn]?|falsche[rsn]?|onjuiste?|ongeldige?|невер\w{2,4}|mauvais)\s\Z"
)


def _spoken_of(read: _Read, word: re.Match[str], most: int, mask: str, *, judges: bool) -> tuple[int, int] | None:
    text = read.text
    left_open = _LEFT_OPEN.match(text, word.end())
    if not left_open and "<" in text[max(0, word.start() - 60) : word.start()]:
        left_open = _BLANK[1].match(text, word.end()) and _BLANK[0].search(text, max(0, word.start() - 60), word.start())
    if left_open:
        return None
    if judges and (digits := _DIGITS.match(text, word.end())):
        return digits.span(1)
    ends = text.find("\n", word.end()) % (len(text) + 1) if _AT_FAULT.search(text, max(0, word.start() - 16), word.start()) else len(text)
    hidden = mask.strip("[]")
    unread: list[int] = []  # where the tokens before begin: what they refer to is asked where a secret may follow, and few have one
    for start, end, named in read.behind(word.end(), most):
        token = text[start:end]
        if hidden in token:
            return None
        unread.append(start)
        if "=" in token and _IS.search(text, max(0, start - 12), start):  # no name and its value: the sentence has said what this is
            token = token.replace("=", "+")
        thought, sure = read.likely(token, named)
        if not sure and not (judges and thought and (" " not in token or _quoted(text, start, word.end()))):
            continue
        if _COMMIT.fullmatch(token) and _OF_A_COMMIT.search(text, max(0, start - 12), start):
            continue
        for one in unread:
            if one > ends:
                return None
            if not is_reference(text, word.start(), one):
                continue
            if is_state(text, word.start(), one):  # the next line speaks of something else
                ends = text.find("\n", one) % (len(text) + 1)
            elif _GIVEN.fullmatch(text, word.end(), one):  # that is the value
                return None
            if one == start:
                break
        else:
            return start, end
        unread = []
    return None


def _quoted(text: str, start: int, word: int) -> bool:
    """Whether quotation marks begin here, right behind the word: several words may be one password."""
    return start - word < 12 and text[start - 1 : start] in _CLOSED


def _without(text: str, hidden: list[tuple[int, int]], mask: str) -> str:
    parts, last = [], 0
    for start, end in sorted(hidden):
        if start >= last:
            parts += [text[last:start], mask]
        last = max(last, end)
    return "".join([*parts, text[last:]]) if parts else text


# ------------------------------------------------------------------ anywhere

_CHANCE = re.compile(
    r"(?<![\w+/.#-])(?<!\?id=)(?<!\bsha\d)(?<!\bsha\d{3}[-:])(?<!SHA256:)"
    r"(?!_Z|ZN|AAAA|sha\d|0x|LS0tLS1CRUdJTiBDRVJU)[A-Za-z0-9+/_-]{20,400}={0,2}(?![\w@?/+])(?!\.\w)"
)
_ADDRESS = re.compile(r"((?:://|(?<![\w./@:~-]))[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}(?::\d{1,5})?)(/[^\s\"'<>?]{16,400})")
_SEGMENT = re.compile(r"(?<![\w-])(?<!/d/)(?<!/folders/)(?<!/id/)[\w-]{18,400}")
_DOTTED = re.compile(
    r"(?<![\w+/#-])(?<!\bsha\d:)(?<!\bsha\d{3}[-:])(?<!SHA256:)"
    r"(?!_Z|ZN|AAAA|sha\d|0x|LS0tLS1CRUdJTiBDRVJU)(?=[A-Za-z_-]{0,60}\d)[A-Za-z0-9_-]{20,400}(?![\w@?+/=-])"
)
_REST_OF_DOTTED = re.compile(r"(?<=\[secret\])(?:[.:][\w-]{12,400}){1,6}")
_TWO = re.compile(r"(?<![\w:/.@-])([A-Za-z0-9_-]{16,80}:)([A-Za-z0-9_-]{20,100})(?![\w:.@/-])")
_FORM = re.compile(
    r"(\[secret\](?:[\"']?\s{1,4}(?:-[Fd]|--(?:form|data)\S{0,20})[\s=]\s{0,4}[\"']?|&)[\w-]{1,40}=)"
    r"([\w-]{16,200})(?![\w.-])"
)
_POSITIONAL = re.compile(
    r"(\b(?i:alias|mount|remote|host|account|config|login|connect|server|profile|registry)\b[^\n|;&]{0,80}?\shttps?://\S{1,200}\s{1,4}[\w.@-]{2,60}\s{1,4})([^\s\"'|;&-][^\s\"'|;&]{7,200})"
)
# `-u ana … -p …` of any program, "use ana / …"
_FLAG_OF_USER = re.compile(
    r"((?<=\s)-[ulU]\s{1,4}[A-Za-z][\w.@-]{0,60}\s{1,4}(?:[^\s|;&]{1,80}\s{1,4}){0,2}?-[pPwW]\s{1,4})"
    r"([^\s\"'|;&-][^\s\"'|;&]{5,80})"
)
_SLASHED = re.compile(r"(\b(?i:with|use|as|login|account|credentials?):?\s[\w.@-]{2,40}\s/\s)(\S{6,80})")
# The word before a checksum
_SUM = re.compile(
    r"(?i)(?:\b(?:request|host|trace|span|correlation)\sid|amz-id-2|public[\x20_-]?key|pubkey|\bpeer|finger_?print|check_?sum|digest|(?<!password_)(?<!passwd_)(?<!pw)hash|integrity|e-?tag|md5|sha\d{1,3}|crc\d{0,2}|\bh1|(?<!session)(?<!secret)(?<!token)(?<!role)(?<!sess)(?:[_-]id|(?<=[a-z])(?-i:Id)))[\s:=\"'(]{0,6}\Z"
)
_PARAMETER = re.compile(r"(?<=[?&])(?!(?:id|v)=)([\w.-]{1,40}=)([\w+/=%.-]{14,400})(?=[&\s\"'#]|\Z)")
_CALL = re.compile(
    r"((?i:log_?in|auth\w{0,20}|sign_?in|create_?\w{0,12}user|add_?user|credentials?|unlock|connect(?=\([^\"'()\n]{0,40}[\"'][^\"'\n]{0,80}[\"'],)|change_password|set_password)\((?:[^\"'()\n]{0,40}[\"'][^\"'\n]{0,80}[\"'],){0,4}"
    r"[^\"'()\n]{0,40}[\"'])([^\"'\s]{6,200})(?=[\"']\s{0,4}[,)])"
)
_FIRST_OF_TWO = re.compile(
    r"((?i:auth)\w{0,10}\s{0,4}[=(]\s{0,4}\(?\s{0,4}[\"'])([^\"'\s]{8,200})(?=[\"']\s{0,4},\s{0,4}(?:\"\"|'')\s{0,4}\))"
)
_ONE_LETTER = re.compile(r"((?<=\s)-(?:[A-Za-z]|-(?:session|auth|account|access|login))(?:\s{1,4}|=))([\w+/-]{16,200}={0,2})(?![\w./:@-])")
_PREFIXED = re.compile(
    r"(?<![A-Za-z0-9_/-])(?:live|prod|pat|tok|token|key|api|apikey|secret|sk|ak|rk|xk|ms|auth|access|refresh|svc|org|usr)[_-]"
    r"(?=[a-z_-]{0,40}\d)[A-Za-z0-9-]{16,200}(?![\w./-])"
)


_AT_HOST = re.compile(r"((?<![\w@/.:-])[A-Za-z][\w.-]{0,40}:)([^\s'\"@/:]{6,80})(?=@[A-Za-z0-9][\w.-]{0,253}(?:[/:\s]|\Z))")
_SMALL = re.compile(r"(?<![\w+/.#-])(?:[a-z][a-z0-9]{1,5}[_-])?(?=[a-z0-9]{0,80}[g-z])[a-z0-9]{24,50}(?![\w@/-]|\.\w)")


# What services call a request, an answer, a call of a tool, a run: OpenAI, Anthropic
OF_A_REQUEST = r"(?:(?:chat)?cmpl|resp|msg|call|(?:srv)?toolu|fp|req|run|step|thread|asst|file|batch|ftjob|rs|fc|gen)[_-]"
_OF_A_REQUEST = re.compile(OF_A_REQUEST)


def scattered(text: str, mask: str) -> str:
    """Without what chance has written, wherever it stands, and what programs have drawn in an address, a call or a command."""

    def drawn_by_chance(found: re.Match[str]) -> str:
        named = _OF_A_REQUEST.match(found[0]) or _is_sum(found)
        return mask if by_chance(found[0]) and not named and not _says(found[0]) else found[0]

    if "(" in text:
        for call, judge in ((_CALL, lambda one: thought_of(one, True) or drawn(one)), (_FIRST_OF_TWO, lambda one: True)):
            text = call.sub(_judged(judge, mask), text)
    if "://" in text:
        text = _POSITIONAL.sub(_judged(lambda one: thought_of(one, False) or drawn(one), mask), text)
    if "/" in text:
        text = _ADDRESS.sub(lambda found: found[1] + _SEGMENT.sub(drawn_by_chance, found[2]), text)
    text = _PARAMETER.sub(_judged(drawn, mask), text)
    text = _ONE_LETTER.sub(_judged(drawn, mask), text)
    for pattern in (_FLAG_OF_USER, _SLASHED):
        text = pattern.sub(_judged(lambda one: thought_of(one, False), mask), text)
    text = _PREFIXED.sub(lambda found: mask if drawn(found[0].partition("-" if "-" in found[0][:8] else "_")[2]) else found[0], text)
    if ":" in text:
        text = _TWO.sub(lambda found: found[1] + mask if drawn(found[1][:-1]) and drawn(found[2]) else found[0], text)
    if "@" in text:
        text = _AT_HOST.sub(_judged(lambda one: thought_of(one, False), mask), text)
    text = _SMALL.sub(lambda found: mask if drawn(found[0]) and not _is_sum(found) else found[0], text)
    text = _DOTTED.sub(drawn_by_chance, _CHANCE.sub(drawn_by_chance, text))
    if mask not in text:
        return text
    return _FORM.sub(_judged(drawn, mask), _REST_OF_DOTTED.sub("", text))


def _is_sum(found: re.Match[str]) -> bool:
    """Whether this is a checksum, by the word before it."""
    return bool(_SUM.search(found.string[max(0, found.start() - 40) : found.start()]))


def _says(token: str) -> bool:
    """Whether this is base64 of a text, which is judged by itself."""
    try:
        return b64decode(token + "=" * (-len(token) % 4)).decode().replace("\n", " ").isprintable()
    except ValueError:
        return False


def _judged(judge: Callable[[str], bool], mask: str) -> Callable[[re.Match[str]], str]:
    return lambda found: found[1] + mask if judge(found[2]) else found[0]


# ------------------------------------------------------------------ behind a mask

_TAIL = re.compile(
    r"((?:&#?\w{2,6};|''|\"\"|\\{1,3}[\"':]|[,;:&<^|!'+#%*\\])(?!//)"
    r"([^\s=,;:&'\"<>()\[\]{}\\]{4,80}))(?![=\w(\[]|:/|:\s)"
)


def without_tails(text: str, mask: str) -> str:
    """Without the rest of what was hidden as far as a sign that a password may hold, too."""
    parts, last = [], 0
    while (at := text.find(mask, last)) >= 0:
        end = at = at + len(mask)
        while (found := _TAIL.match(text, end)) and _rest(found[2], found[1]):
            end = found.end()
        parts.append(text[last:at])
        last = end
    return "".join([*parts, text[last:]])


def _rest(said: str, whole: str) -> bool:
    if whole.startswith(("''", '""', "\\", "&#")):
        return True
    return not is_fact(said) and (thought_of(said, True) or (len(said) > 5 and not said.islower() and not said.isdigit()))
