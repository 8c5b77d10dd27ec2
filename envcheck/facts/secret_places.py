"""Secrets told by the place where they stand: behind a joined name, in an element, in a file that is shown, in what client and server say
to each other, as a word of a command."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from envcheck.facts.secret_codes import ANSWER, BARE_CODE, NUMBER, PUK, is_bare_code, is_number
from envcheck.facts.secret_references import PREFIX, TYPE, is_reference
from envcheck.facts.secret_shapes import drawn, is_fact, thought_of
from envcheck.facts.secret_words import ASKED, CODES

_KEPT = r"(?![\"']?(?:\[secret\]|[$<{*…%]|\.\.\.))"
_WORD = r"(?:'[^'\n]{2,200}'|\"[^\"\n]{2,200}\"|[^\s\"';|&\\]{3,200})"
_QUOTED_OR_WORD = r"(?:(?<=\")[^\"\n]{3,200}|(?<=')[^'\n]{3,200}|[^\s\"'<>,;&]{3,200})"

# ------------------------------------------------------------------ names that are joined: StoragePass, APPKEY, dbpass

_JOINED = re.compile(
    r"((?:Pass(?:wd|word)?|Pwd|Pw|Psk|Pin|PIN|Key|PASS|PWD|PSK|KEY|pass|pwd|psk)(?![A-Za-z])\w{0,3}"
    r"(?:\[\d{0,3}\]\s{0,4}=\s{0,4}[\"']?|[\"']?\]?\s{0,8}(?::\s{0,4}"
    rf"{TYPE}\s{{0,4}}=|:=|=>|[:=](?!\s{{0,4}}{TYPE}\s{{0,4}}=))(?!=)\s{{0,8}}{PREFIX}[\"']?|"
    r"[\"']?>\s{0,4}|[\"']\s{0,4},\s{0,4}[\"']|\s{1,8}[\"']))"
    rf"{_KEPT}({_QUOTED_OR_WORD})"
)
_HEAD = re.compile(r"[A-Za-z0-9_.-]{1,60}\Z")
_NO_PASSWORD = re.compile(
    r"(?i)(?:by|com|sur|tres|over|under|low|high|band|render|shader|first|second|third|single|multi|two|one|fore|back|forward|num|max|min|all|cur|last|next|sub|is|did)_?\Z"
)
_NO_KEY = re.compile(
    r"(?i)(?:cache|sort|partition|row|primary|foreign|public|pub|dispatch|hot|map|dict|state|lookup|object|host|group|routing|idempotency|unique|dedupe?"
    r"|hash|build|index|column|field|metric|param|registry|translation|i18n|project|issue|tur|mon|don|whis|joc|hoc|storage|compile|guard|event|tag|label"
    r"|message|error|config|name|data|model|layer|sub|join|order|by|graph|autotune)_?\Z"
)
_PINNED = re.compile(r"(?i)(?:mpi|cpu|gpu|omp|numa|core|thread|led|gpio|reset|input|output|s|to|un|o)_?\Z")
_ANY_WORD = re.compile(r"(?i)(?!(?:true|false|none|null|yes|auto|default|required|optional|forward)\Z)[a-z][^\n]{2,200}")
_GROUPS = re.compile(r"[A-Za-z0-9]{4,8}(?:-[A-Za-z0-9]{4,8}){2,8}")


def _joined(found: re.Match[str]) -> bool:
    """Whether a secret stands behind a name that ends like this: another word stands before it, and the value is one."""
    head, ending, value = _HEAD.search(found.string, max(0, found.start() - 60), found.start()), found[1][:2], found[2]
    if not head or not _another_word(head[0], ending):
        return False
    if ending.lower() == "pi":
        return value.isdigit() and 3 < len(value) < 9 and not _PINNED.search(head[0])
    if ending.lower() == "ke":
        return not _NO_KEY.search(head[0]) and (drawn(value) or bool(_GROUPS.fullmatch(value)) or _in_hex(value))
    if _NO_PASSWORD.search(head[0]):
        return False
    return thought_of(value, True) or drawn(value) or (ending[0] == "P" and bool(_ANY_WORD.fullmatch(value)) and not is_fact(value))


def _another_word(head: str, ending: str) -> bool:
    """Whether a new word begins with the ending: smtpPass, SMTPPASS, smtppass, but no aPASS, and no pass behind nine small letters."""
    if ending.isupper():
        return head[-1].isupper() or head[-1].isdigit() or ending == "PI"
    return not ending.islower() or (head[-1].islower() and 1 < len(re.split(r"[_.-]", head)[-1]) < 9)


def _in_hex(value: str) -> bool:
    return len(value) in (16, 24, 32, 40, 48, 64) and all(one in "0123456789abcdefABCDEF" for one in value) and not value.isdigit()


# ------------------------------------------------------------------ a key as a list of its bytes

_BYTE = r"(?:0[xX][0-9a-fA-F]{1,2}|\d{1,3})"
_BYTES = re.compile(
    r"((?:Key|KEY|key|[Pp]sk|PSK|[Ss]ecret|SECRET)[\"']?(?:\[\w{0,20}\])?\s{0,8}(?::=|=>|[:=])(?:[^\n\d\"'\[{(]{0,30}(?:\[\d{0,4}\]\s{0,4}\w{0,8})?[\[{(]{1,2}\s{0,8}|\s{0,4}\n\s{0,12}-\s))"
    rf"({_BYTE}(?:(?:,\s{{0,12}}|\s{{1,12}}(?:-\s)?){_BYTE}){{7,63}})(?![\w.])"
)


def _in_bytes(found: re.Match[str]) -> bool:
    """Whether these are a key's bytes and no sizes or shapes: as many as keys have, in no order, and few twice."""
    head = _HEAD.search(found.string, max(0, found.start() - 60), found.start())
    if found[1][:1] in "kK" and (not head or _NO_KEY.search(head[0])):
        return False
    said = [int(one, 16 if one[:2] in ("0x", "0X") else 10) for one in re.findall(_BYTE, found[2])]
    return (
        len(said) % 8 == 0
        and 63 < max(said) < 256
        and said not in (sorted(said), sorted(said)[::-1])
        and 4 * len(set(said)) >= 3 * len(said)
    )


# ------------------------------------------------------------------ an element, up to its end

_ELEMENT = re.compile(
    r"(<([\w:.-]{1,60})(?:\s[^<>\n]{0,160})?>\s{0,8}(?:<!\[CDATA\[)?)(?!\[secret\](?:</|\]\]>))([^<>\n]{3,400}?)(?=\s{0,8}(?:\]\]>)?</)"
)
_ELEMENT_NAME = re.compile(r"(?i)(?:^|[:._-])(?:pass|pwd?|psk|auth|pin)$|(?<=[a-z])(?-i:Pass|Pwd|Pw|Psk|PSK)$")


# <string name="api_key">, <key>ApiToken</key> <string>, <setting name="ApiKey" …> <value>
_NAMED_BY = re.compile(r"\s(?i:name|key|id)=[\"']([\w.:/-]{1,80})[\"']")
_NAMED_BEFORE = re.compile(
    r"(?:<(?i:key|name)>([\w.:-]{1,80})</(?i:key|name)>"
    r"|<[\w:.-]{1,40}\s(?:[^<>\n]{0,80}\s)?(?i:name|key)=[\"']([\w.:-]{1,80})[\"'][^<>\n]{0,80}>)\s{0,40}\Z"
)


def _name_of(found: re.Match[str]) -> str:
    """What an element's attribute, or the element before it, calls what it holds."""
    if by := _NAMED_BY.search(found[1]):
        return str(by[1])
    if found[2].lower() not in ("value", "string", "data"):
        return ""
    before = _NAMED_BEFORE.search(found.string, max(0, found.start() - 300), found.start())
    return (before[1] or before[2]) if before else ""


def _element(named: Callable[[str], bool]) -> Callable[[re.Match[str]], bool]:
    def judge(found: re.Match[str]) -> bool:
        if re.match(r"[$<{*…%]|true\b|false\b|none\b|null\b", found[3]) or is_reference(found.string, found.start(3), found.start(3)):
            return False
        if found[2].lower() == "auth":
            return bool(re.fullmatch(r"[\w+/]{8,}={0,2}", found[3]))
        if (name := _name_of(found)) and (named(name) or _ELEMENT_NAME.search(name)):
            return " " not in found[3] and not found[3].isalpha()
        return bool(_ELEMENT_NAME.search(found[2])) or named(found[2])

    return judge


# ------------------------------------------------------------------ a file whose name says that it holds one

_NAME_OF_FILE = (
    r"(?:[\w.@~$%{}:+-]{0,80}[/\\]){0,12}(?:[\w.-]{0,60}[._-])?(?:my|db|auth-user-|vpn|api|root|mail|wifi|smb|svc)?(?i:pass(?:wd|word|phrase|_?file)?|pw(?:d|_?file)?|"
    r"secrets?|token|cred(?:ential)?s?|psk|pin|(?:api|private|auth|access|account|master|session)[_-]?key|pgpass|smbcredentials|kennwort|passwort)"
    r"(?![_-](?:count|id|type|len|freq|stat|map|embed))(?:[_-][\w-]{0,30}|\d{1,3})?(?:\.(?:txt|key|pw|pass|secret|dat|cred|creds|auth|old|bak|conf))?"
)
_SHOWN = re.compile(
    r"(?:(?<![\w./-])(?:cat|type|less|more|head|tail|bat|gc|Get-Content|nl|strings)\s{1,4}(?:-\S{1,12}\s{1,4}(?:\d{1,4}\s{1,4})?){0,3}[\"']?"
    rf"({_NAME_OF_FILE})[\"']?[\x20\t]{{0,4}}\r?\n|==>\s({_NAME_OF_FILE})\s<==\r?\n"
    rf"|(?<![^\n])(?:#|//|;|--|REM)\s{{1,4}}(?=[^\s/\\.]{{0,80}}[/\\.])({_NAME_OF_FILE}):?\r?\n)"
)
_BELOW = re.compile(r"([\x20\t]{0,8})([^\n]{1,200}?)([\x20\t\r]{0,8}(?:\n|\Z))")
_PROMPT = re.compile(
    r"[^\s]{0,80}[\w)~\]/\\:-]?[$#>%](?:\s|\Z)|PS\s|\[[\w.-]{1,40}[@\]\s]|[A-Z]:\\|==>|In\s\["
    r"|[\w.-]{1,40}@[\w.-]{1,60}[:\s]|-{2,}|\d{4}-\d\d|\d\d:\d\d:\d\d"
)
_OF_THE_SYSTEM = re.compile(r"(?:/etc/|^)(?:passwd|shadow)$")
_OF_ACCOUNTS = re.compile(r"(?i)cred|auth|user|smb|vpn|account|login|zugang")
_USER = re.compile(r"[a-z][a-z0-9._@-]{1,40}")
_STATEMENT = re.compile(r"[^\s]{1,60}:\s|[^=\n]{1,60}=[^=]|.{0,200}[({\[]")


def _shown_files(text: str, mask: str) -> str:
    """Text without the lines of a file that is shown and whose name says what it holds: up to a prompt or what has a name of its own."""
    parts, last = [], 0
    for found in _SHOWN.finditer(text):
        name = found[1] or found[2] or found[3]
        if found.start() < last or _OF_THE_SYSTEM.search(name):
            continue
        lines = list(_lines_below(text, found.end(), mask))
        if len(lines) > 1 and _OF_ACCOUNTS.search(name) and _USER.fullmatch(lines[0][2]) and not thought_of(lines[0][2], True):
            lines = lines[1:]
        for line in lines:
            if mask not in line[2] and not is_reference(text, line.start(), line.start(2)):
                parts += [text[last : line.start(2)], mask]
                last = line.end(2)
    return "".join([*parts, text[last:]])


def _lines_below(text: str, at: int, mask: str) -> Iterator[re.Match[str]]:
    for _ in range(6):
        line = _BELOW.match(text, at)
        if not line or (line[2] != mask and (_PROMPT.match(line[2]) or _STATEMENT.match(line[2]) or line[2].count(" ") > 4)):
            return
        yield line
        at = line.end()


# ------------------------------------------------------------------ behind a digest's or a cipher's name

_CIPHER = r"(?i:sha(?:-?\d{1,3})?|md5|aes(?:-?\d{1,3})?(?:-?[a-z]{3})?|3?des)"
_CIPHERED = re.compile(rf"(?<![\w.-])({_CIPHER}(?:\s\d{{3}})?\s{{1,4}}[\"'])([^\"'\n]{{4,80}})(?=[\"'])")
_DEVICE = re.compile(
    rf"((?:\b(?:createUser|net-snmp-create-v3-user|snmp-server\x20user|snmp-server\x20group|usmUser)\x20[^\n|;&]{{1,120}}?\x20{_CIPHER}"
    rf"|\bauthentication(?:-key)?\x20\d{{1,5}}\x20(?:md5|sha\d{{0,3}})|\bmessage-digest-key\x20\d{{1,3}}\x20md5|\bauth\x20(?:sha\d{{0,3}}|md5)|\bpriv\x20(?:aes|3?des))"
    rf"(?:\x20\d{{3}}(?=\x20))?\x20{{1,4}}(?:[05678]\x20)?)(?!(?i:auth|priv|{_CIPHER})\b|-|\d{{1,3}}\x20){_KEPT}{_WORD}"
    rf"|(\b(?:snmp-server|snmp)\x20(?:community\x20(?:[078]\x20)?|host\x20\S{{1,60}}\x20(?:(?:traps|informs)\x20)?(?:version\x20(?:1|2c)\x20)|host\x20\S{{1,60}}\x20community\x20)"
    rf"|(?<![^\n])[\x20\t]{{0,8}}r[ow]community6?[\x20\t]{{1,8}})(?!public\b){_KEPT}{_WORD}"
    r"|((?<![\w.])\d{1,5}\x20(?:SHA\d{1,3}|MD5|AES\d{3})\x20(?:HEX:|ASCII:))[^\s]{4,200}"
    r"|(\b(?:crypto\x20isakmp\x20key|key-string|neighbor\x20\S{1,60}\x20password|(?:tacacs|radius)(?:-server)?\x20(?:host\x20\S{1,60}\x20)?key|ppp\x20\w{1,6}\x20password)"
    rf"\x20(?:[05678]\x20)?){_KEPT}{_WORD}"
    r"|((?:[>#]\x20?|(?<![^\n]))enable\x20(?:secret|password)\x20(?:level\x20\d{1,2}\x20)?(?:\d\x20)?)(?!\[secret\])[^\s,]{3,120}(?=,|\x20{0,4}(?:\n|\Z|\\))"
    rf"|(\busername\x20\S{{1,60}}\x20(?:privilege\x20\d{{1,2}}\x20(?:secret|password)\x20(?:\d\x20)?|(?:secret|password)\x20\d\x20)){_KEPT}{_WORD}"
)


def _ciphered(found: re.Match[str]) -> bool:
    value = found[2]
    if _in_hex(value) or re.search(r"\.\w{2,12}\Z", value) or re.match(_CIPHER, value):
        return False
    return thought_of(value, True) or drawn(value) or (" " in value and any(map(str.isdigit, value)))


# ------------------------------------------------------------------ keys in groups

_IN_GROUPS = re.compile(r"(?<![\w./:+-])(?:[A-Z0-9]{4,8}(?:-[A-Z0-9]{4,8}){3,7}|[a-z0-9]{4,8}(?:-[a-z0-9]{4,8}){3,7})(?![\w/-]|\.\w)")
_THREE_GROUPS = re.compile(r"-[A-Za-z0-9]{4,8}-[A-Za-z0-9]{4,8}-[A-Za-z0-9]{4,8}(?![A-Za-z0-9])")
_OF_A_LICENCE = re.compile(
    r"(?i)(?:key|licen[cs]e|lizenz|serial|activat|product|unlock|install|register|registr|volume|/ipk|/upk|cd-?key|(?<!uni)code|许可|序列号|激活|密钥|シリアル|ライセンス)"
    r"[^\n]{0,60}\Z"
)
_NUMBERED = re.compile(r"[A-Za-z]*\d*|\d+[A-Za-z]+")


def _in_groups(found: re.Match[str]) -> bool:
    """Whether this is a key of a product: groups of one length that chance has written, or any behind the word for one."""
    groups = found[0].split("-")
    before = found.string[max(0, found.start() - 90) : found.start()]
    if re.search(r"(?i)\b(?:product|part|system)[\x20_-]?(?:id|number|no|uuid)\b[^\n]{0,12}\Z", before):
        return False
    if _OF_A_LICENCE.search(before) and len(set(map(len, groups))) < 3:
        return any(map(str.isdigit, found[0]))
    return found[0].isupper() and len(set(map(len, groups))) == 1 and sum(not _NUMBERED.fullmatch(one) for one in groups) > 1


# ------------------------------------------------------------------ connections without a scheme

_CONNECTION = re.compile(
    r"((?<![\w@/.:-])[A-Za-z][\w.$-]{0,40}:)(?!\[secret\])[^\s\"'`]{2,120}(?=@(?:(?:tcp[46]?|unix|udp|pipe|ssh|\w{0,12}sql)?\([^()\s]{1,200}\)|/\w)/?)"
    r"|(\b(?:sqlplus|sqlldr|sqlcl|rman|userid|target)\b(?:[=\s]\x20{0,4}|\x20-\S{1,12}){1,4}[\"']?[\w$#.-]{1,40}/)(?!\[secret\])(?:\"[^\"\n]{3,80}\"|[^\s\"'@/;]{3,80})"
    r"|((?:SQL>\x20{0,4}(?i:conn(?:ect)?)\x20{1,4}|\b(?:expd?p?|impd?p?)\x20{1,4}(?=\S{1,80}@)|(?i:connect|session|pool)\w{0,12}\([\"'](?=[^\"'\s]{1,80}@))[\w$#.-]{1,40}/)"
    r"(?!\[secret\])[^\s\"'@/;]{3,80}"
    r"|((?i:(?:pwd|password|passwd)%3D))(?!\[secret\])(?:(?!%3B|%26)[^\s&\"']){3,200}",
)
_AT_PORT = re.compile(r"((?<![\w./:@-])[A-Za-z][\w$#]{1,30}/)(?!\[secret\])[^\s\"'@/:]{4,60}(?=@(?://)?[A-Za-z][\w.-]{1,80}:\d{4,5}\b)")

# ------------------------------------------------------------------ a key in the place of an account

# "curl -u KEY:", with no password behind it, or named after a key
_KEY_AS_ACCOUNT = re.compile(
    r"((?<=\s)(?:-[ua]|--(?:user|auth|basic-auth))[=\s]\s{0,4}[\"']?)"
    r"((?:(?:secret|sk|rk|pk|ak|key|api|apikey|tok|token)[_-][\w.~+-]{12,200}(?=:)|[\w.~+-]{16,200}(?=:[\"']?(?:\s|\Z))))"
)


def _key_as_account(found: re.Match[str]) -> bool:
    return sum(map(str.isdigit, found[2])) > 2


# ------------------------------------------------------------------ a line of a map: host, account, password

_OF_A_MAP = re.compile(
    r"((?<![\w.+@/=-])(?!git@)[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}:|(?<=\w\]:)\w{1,12}[\x20\t]{1,40}[\w.+-]{1,64}:)"
    r"(?!\[secret\]|\d{1,5}(?!\S))([^\s/\"'(),:][^\s/\"'(),]{3,120})(?=[\s\"'),]|\Z)"
)
_HOST = re.compile(r"(?:(?<![^\n])[\x20\t]{0,8}|[\w.*@+\[\]-]{0,80}[.*@\]][\w.*@+\[\]-]{0,80}(?::\w{1,12})?(?:[\x20\t]{1,40}|:)|\]:)\Z")
_MAP = re.compile(r"(?i)passw|sasl|secret|credential")
_COPIED = re.compile(r"(?i)\b(?:scp|rsync|sftp|ssh|cp|clone|remote|fetch|push|pull)\b")


def _of_a_map(found: re.Match[str]) -> bool:
    """Whether a password stands behind an account, which has a host before it as a rule: what a copy names is a file there."""
    before = found.string[max(0, found.start() - 200) : found.start()]
    line = before.rpartition("\n")[2]
    if not _HOST.search(line) or _COPIED.search(line):
        return False
    return thought_of(found[2].replace("=", "+"), True) or drawn(found[2]) or bool(_MAP.search(before))


def mapped(text: str, mask: str) -> str:
    """Text without the passwords of `HOST USER@DOMAIN:PASSWORD` and its like."""
    return _OF_A_MAP.sub(_judged(_of_a_map, mask), text)


# ------------------------------------------------------------------ what client and server say

_DIALOGUE = re.compile(
    r"(\b334[\x20-][^\n]{0,200}\n[^\n]{0,24}?(?<![\w+/]))[A-Za-z0-9+/]{4,400}={0,2}(?=(?:\\{1,3}[rn]){0,4}[\"']?[\x20\r]{0,2}(?:\n|\Z|,\s))"
    r"|((?<![\w.-])(?:[A-Za-z]{0,6}\d{1,6}|\.)\sLOGIN\s(?:\"[^\"\n]{1,80}\"|[^\s\"]{1,80})\s)(?!\[secret\])(?:\"[^\"\n]{1,200}\"|[^\s\"\\]{1,200})"
    r"|(\bAUTHENTICATE\s(?:(?:PLAIN|LOGIN|XOAUTH2|EXTERNAL|SCRAM-\S{1,20})(?:\s|\\{1,3}[rn]){1,4}(?:[^\n]{0,24}\+[^\n]{0,24}\n[^\n]{0,24}?(?<![\w+/]))?)?)(?!PLAIN|LOGIN|EXT|SCRAM|XOA)[A-Za-z0-9+/]{8,800}={0,2}(?![\w-])"
    r"|((?:\b(?:Command|Client|CLIENT|C|client|send|sent)[:>]|->|>>)\s{0,4}[\"']?PASS\s)(?!\*|\[secret\])[^\s\"'\\/]{3,200}"
    r"|(\d>\s{1,4}(?i:auth)\s(?:[^\s\"']{1,80}\x20)?[\"']?)(?!(?:\S{1,80}\x20)?\[secret\])[^\s\"']{3,200}"
    r"|(\"(?i:auth)\"\s(?:\"[^\"\n]{1,80}\"\s)?\")(?!\[secret\])[^\"\n]{3,200}(?=\")"
    r"|(\bAUTH(?:\\r\\n|\r?\n)(?:\$\d{1,4}(?:\\r\\n|\r?\n)[^\s\\]{1,80}(?:\\r\\n|\r?\n))?\$\d{1,4}(?:\\r\\n|\r?\n))(?!\[secret\])[^\s\\]{2,200}"
    r"|(\bftp>\s{1,4}user\s\S{1,60}\s{1,4})(?!\[secret\])[^\s]{3,200}"
    r"|((?i:nickserv|chanserv|\bns)[\s:]{1,4}(?i:identify|register|ghost|recover)\s{1,4}(?:[^\s\[,]{1,40}\x20(?=[^\s(]))?)(?!(?:\S{1,40}\x20)?\[secret\])[^\s\"';\\]{3,200}"
    r"|((?:(?<![^\s>\"'])/oper|(?<![^\n>:])OPER)\s\S{1,40}\s)(?!\[secret\])[^\s\"'\\]{3,200}"
    r"|((?i:\b(?:user|auth)password|\bunicodepwd|\bolcrootpw|\bsamba(?:nt|lm)password|\bkrbprincipalkey)::?\s{1,4})(?!\[secret\])[^\n\\]{3,400}"
)

# ------------------------------------------------------------------ words of commands

_TO = r"\b[^\n|;&]{0,160}?\x20"
_COMMAND = re.compile(
    r"((?:\brootpw\x20{1,4}(?:--?\w{1,20}\x20{1,4}){0,4}"
    r"|\bhtpasswd\x20(?:-[A-Za-z]{1,8}\x20{1,4}){0,3}-(?:\w{0,6}n\w{0,6}b\w{0,6}|\w{0,6}b\w{0,6}n\w{0,6})\x20{1,4}(?:-\w{1,8}\x20{1,4}){0,3}[^\s:-]\S{0,80}\x20{1,4}"
    r"|\bhtpasswd\x20(?:-[A-Za-z]{1,8}\x20{1,4}){0,3}-[Bcdmps25]{0,6}b[Bcdmps25]{0,6}\x20{1,4}(?:-\w{1,8}\x20{1,4}){0,3}[^\s-]\S{0,200}\x20{1,4}[^\s-]\S{0,80}\x20{1,4}"
    r"|\bnet1?\x20user\x20{1,4}[^\s/;|&][^\s;|&]{0,60}\x20{1,4}(?![/*])|\bsmbclient\x20{1,4}(?:-\S{1,40}\x20{1,4}){0,4}[\"']?[/\\]{2,4}[^\s;|&]{1,120}\x20{1,4}|\bset_network\x20\d{1,2}\x20\w{0,16}(?:psk|passw\w{1,4}|wep_key\d)\x20{1,4}"
    rf"|\bnet-snmp-[\w-]{{1,30}}{_TO}-[AX]\x20{{1,4}}|\bipmitool{_TO}user\x20set\x20password\x20\d{{1,2}}\x20{{1,4}}|\bpasswd/[\w-]{{4,40}}\x20(?:password|string)\x20{{1,4}}|\bmysqladmin{_TO}password\x20{{1,4}}"
    rf"|\b(?:rabbitmqctl|change_password){_TO}?(?:change_password|authenticate_user)\x20\S{{1,80}}\x20{{1,4}}|\bsamba-tool\x20user\x20(?:create|add)\x20\S{{1,80}}\x20{{1,4}}"
    rf"|\b(?:kadmin(?:\.local)?|addprinc|add_principal|cpw|change_password){_TO}-pw\x20{{1,4}}|\bkadmin{_TO}-w\x20{{1,4}}|\bldappasswd{_TO}-[sa]\x20{{1,4}}|\bslappasswd{_TO}-s\x20{{1,4}}"
    r"|\bopenssl\x20passwd\x20{1,4}(?:-(?:salt\x20\S{1,40}|\w{1,8})\x20{1,4}){0,4}|\bmkpasswd\x20{1,4}(?:-{1,2}[\w-]{1,20}(?:[=\s][\w-]{1,20})?\x20{1,4}){1,4}"
    rf"|\x20/rp\x20{{1,4}}|\bwep_key\d=|\b(?:un)?rar\x20{_TO}-h?p(?=\S)|\b(?:wifi-sec|wireless-security)\.(?:psk|wep-key\d)\x20{{1,4}}|\bhash-password{_TO}--plaintext\x20{{1,4}}"
    rf"|\bipa(?:-\w{{1,8}}){{1,3}}{_TO}-[apw]\x20{{1,4}}|\bset\x20iDRAC\.Users\.\d{{1,2}}\.Password\x20{{1,4}}|\bvncpasswd\x20-f\x20<<<\x20{{0,4}}|\bkeyctl\x20add\x20user\x20\S{{1,80}}\x20{{1,4}}"
    rf"|\bqpdf{_TO}--encrypt\x20\S{{1,60}}\x20{{1,4}}|\bpdftk{_TO}(?:user_pw|owner_pw|input_pw)\x20{{1,4}}|\bexpect\x20-c\x20'[^']{{0,160}}?\bsend\x20{{1,4}}\"))"
    rf"(?!-){_KEPT}{_WORD}"
)
# cloud-init's list of accounts
_CLOUD = re.compile(
    r"\bchpasswd:[^\n]{0,80}\n(?:[^\n]{1,80}\n){0,2}?[\x20\t]{1,20}list:[^\n]{0,20}\n((?:[\x20\t]{1,40}(?:-\s)?[^\s:#-][^\s:]{0,60}:[^\n]{1,200}(?:\n|\Z)){1,60})"
)
_ACCOUNT = re.compile(r"(?<=:)(?!\[secret\])[^\s:][^\n]{0,200}")

# ------------------------------------------------------------------ all of them

# In lower case, what a text holds at least where an expression finds something: to look for these takes a tenth of the time
_BY_WORD: tuple[tuple[tuple[str, ...], re.Pattern[str], Callable[[re.Match[str]], bool] | None], ...] = (
    (("@(", "@tcp", "@unix", "@udp", "@/", "sql(", "sqlplus", "sqlldr", "sqlcl", "rman ", "userid", "target ",
      "sql>", "exp", "imp", "connect", "%3d"), _CONNECTION, None),
    (("puk", "пук"), PUK, None),
    (("pin", "пин", "otp", "tan", "mfa", "2fa", *(one.lower() for one in CODES)), NUMBER, is_number),
    (("code ", "codice ", "código ", "kod", "код"), BARE_CODE, is_bare_code),
    (("answer", "security q", "antwort", "frag", "fråg", "vra", "question", "pregunta", "pergunta", "domanda", "întreb", "pytani", "otáz",
      "pitanj", "вопрос", "питанн", "въпрос", "kysymy", "kérdés", "sorus", "gizli", "spørg", "spørs", "ερώτη", "pertany", "câu hỏi",
      "密保", "问题", "問題", "質問", "秘密", "보안", *ASKED), ANSWER, None),
    (("pass", "pwd", "pw", "psk", "pin", "key"), _JOINED, _joined),
    (("sha", "md5", "aes", "des"), _CIPHERED, _ciphered),
    (("createuser", "snmp", "usmuser", "authentication", "message-digest", "auth ", "priv ", "hex:", "ascii:",
      "isakmp", "key-string", "neighbor ", "tacacs", "radius", "ppp ", "enable ", "username ", "community"), _DEVICE, None),
    (("334", " login ", "authenticate ", "pass ", "> auth", "\"auth", "auth\r", "auth\n", "auth\\r", "serv ",
      "serv:", "ns ", "oper ", "ftp>", "userpassword", "authpassword", "unicodepwd", "olcrootpw", "ntpassword",
      "lmpassword", "krbprincipalkey"), _DIALOGUE, None),
    (("rootpw", "htpasswd", "net user", "net1 user", "smbclient", "net-snmp-", "set_network", "ipmitool", "passwd/",
      "mysqladmin", "change_password", "authenticate_user", "samba-tool", "kadmin", "princ", "cpw ", "ldappasswd",
      "slappasswd", "openssl passwd", "mkpasswd", "/rp ", "wep_key", "rar ", ".psk", ".wep-key", "plaintext", "ipa",
      "idrac.", "vncpasswd", "keyctl", "qpdf", "pdftk", "expect -c"), _COMMAND, None),
    (("net-snmp-", "pdftk"), _COMMAND, None),  # a command may hold two
)  # fmt: skip


def placed(text: str, mask: str, named: Callable[[str], bool]) -> str:
    """Text without the secrets that their place tells."""
    if "\n" in text:
        text = _shown_files(text, mask)
        text = _CLOUD.sub(lambda found: found[0].replace(found[1], _ACCOUNT.sub(mask, found[1])), text) if "chpasswd:" in text else text
    if "</" in text:
        text = _ELEMENT.sub(_judged(_element(named), mask), text)
    if "@" in text:
        text = _AT_PORT.sub(_behind(mask), text)
    if _THREE_GROUPS.search(text):
        text = _IN_GROUPS.sub(lambda found: mask if _in_groups(found) else found[0], text)
    if text.count(",") > 6 or text.count("\n") > 7:  # the bytes of a key are eight at least
        text = _BYTES.sub(_judged(_in_bytes, mask), text)
    if " -" in text and ":" in text:
        text = _KEY_AS_ACCOUNT.sub(_judged(_key_as_account, mask), text)
    lower = text.lower()
    for words, pattern, judge in _BY_WORD:
        if any(word in lower for word in words):
            text = pattern.sub(_judged(judge, mask) if judge else _behind(mask), text)
    return text


def _judged(judge: Callable[[re.Match[str]], bool], mask: str) -> Callable[[re.Match[str]], str]:
    """All but the last group, and the mask where the judge says so."""

    def shown(found: re.Match[str]) -> str:
        last = found.re.groups
        return found.string[found.start() : found.start(last)] + mask if judge(found) else found[0]

    return shown


def _behind(mask: str) -> Callable[[re.Match[str]], str]:
    return lambda found: f"{found[found.lastindex or 0]}{mask}"
