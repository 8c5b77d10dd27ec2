"""What stands where a secret would and is none: a variable's name, code that reads it, a file's path, what is to be filled in, and what
people and programs say of a secret."""

from __future__ import annotations

import re

from envcheck.facts.secret_words import STATES, any_of

_END = r"(?=[\"'`,;)\]}<>&|\\]|[.:?!]{0,2}(?:\s|\Z))"
_END_OF_WORD = r"(?=[\"'`,;:)\]}.?!]{0,3}(?:\s|\\|\Z))"
# self.password, secrets.HF_TOKEN, var.db_password; no digit, which a password has sooner
_OWNER = (
    "(?:self|this|cls|args|opts?|options|cfg|conf(?:ig)?|settings|env|vars?|locals?|secrets|params?|process|request|req|ctx|context|user|account"
    "|creds?|credentials|inputs?|data|random_password|module|[Vv]alues|props|state|kwargs|each|github|steps|needs|os|sys|app|client)"
)
_READS = (
    "(?:get|read|load|fetch|look_?up|input|prompt|ask|find|decrypt|resolve|retrieve|require|env|environ|getenv|open|parse|pop|param|query"
    "|var)"
)
_CODE = (
    rf"(?<![\"'`])(?:{_OWNER}(?:\.|->|::)[A-Za-z_][A-Za-z_.]{{1,80}}{_END}"
    r"|[A-Za-z_$][\w.$]{0,60}(?:\[[\"'][\w./-]{1,60}[\"']\]){1,4}"
    rf"|(?:[A-Za-z_]\w{{0,40}}(?:\.|::|->)){{0,6}}(?i:{_READS})\w{{0,40}}\()"
)
_ASKED_FOR = "(?i:key|token|pass|secret|credential|pwd?|pin|code|value|name|string|user|account|id)"
_PLACEHOLDER = (
    rf"\[?(?i:your)[_-][A-Za-z_-]{{0,40}}?{_ASKED_FOR}[A-Za-z_-]{{0,40}}\]?{_END}"
    r"|(?:(?i:insert|paste|put|enter|add|replace)[_-][A-Za-z_-]{1,40}[_-](?i:here|me|this)|[A-Z][A-Z_]{2,40}_HERE)" + _END
    + rf"|(?:[A-Za-z]{{2,6}}[_-]){{0,2}}(?:[xX]{{3,60}}|[*•]{{3,60}})(?:[_-][xX*]{{2,60}}){{0,8}}{_END}"
)  # fmt: skip
_VARIABLE = rf"%[A-Za-z_]\w{{1,60}}%|%\(\w{{1,60}}\)s|@@?[A-Z_]{{3,60}}@|(?:env|file):(?=[/A-Z])|op://|`(?:echo|printf)\x20|#\{{|\$|\{{\{{|{_OWNER}\.[A-Z_]{{3,60}}{_END}"
_REFERENCE = re.compile(rf"[\"'`]?(?:{_VARIABLE}|{_PLACEHOLDER})|{_CODE}")
# `class Token:` and what is below it
_STATEMENT = re.compile(r"(?:pass|return|raise|yield|def|class|import|from|if|for|with|try)(?![^\s(])")
_OF_A_FILE = re.compile(r"(?i)(?:file(?:_?name)?|path|dir(?:ectory)?|location|folder)[\"'\])]{0,3}\s{0,8}(?:=>|:?=|:)\s{0,60}[\"']?\Z")
_PATH = re.compile(r"(?:~|\.{1,2}|\$\w{1,40}|%\w{1,40}%)?[/\\]|[A-Za-z]:[\\/]|[\w.-]{1,80}[/\\]|[\w-]{1,80}\.[a-z]{1,8}" + _END)
_FILE = re.compile(
    r"(?:~|\.{0,2}|[A-Za-z]:)(?:[/\\][\w.@+-]{1,80}){1,20}\.(?:pem|key|crt|cer|json|txt|p12|pfx|jks|ya?ml|conf|ini|keytab|env|toml)" + _END
)
# What shells and libraries say behind a name and a colon, and what people say of a password
_PHRASE = (
    r"(?:unbound|undefined|readonly|unset)\svariable|parameter\s(?:null|not)|bad\ssubstitution|(?:command\s)?not\s(?:set|found|valid|provided|given"
    r"|defined|allowed|supplied|configured|specified|in|a|an|the)|permission\sdenied|no\ssuch|is\sa\sdirectory|access\sdenied|cannot|can't|could\snot"
    r"|couldn't|does\snot|doesn't|did\snot|must|should|has\s|have\s|is\s|was\s|are\s|were\s|field\srequired|value\sis|too\s(?:short|long|weak|many)"
    r"|authentication\s|already\s|failed|failure|this\s|please\s|enter\s|expected\s|at\sleast\s|string\s|about\s|zu\s|très\s"
)
_STEMS = any_of(one for one in STATES if len(one) > 4)
_WHOLE = any_of(one for one in STATES if len(one) < 5)
_STATE = re.compile(
    rf"(?i:{_PHRASE}|{_WHOLE}|{_STEMS}[^\W\d_]{{0,8}}){_END_OF_WORD}|(?i:{_PHRASE})(?<=\s)|(?=[\u3040-\u9fff\uac00-\ud7af])(?:{_WHOLE}|{_STEMS})"
)
_AROUND = 2000  # characters in which a variable is looked for
_SETS = (("", " = "), ("(", ","), ("(", ")"), (", ", ","), (", ", ")"), (", ", ":"), (", ", "="))
_SAYS = re.compile(r"[:：]\s{1,60}\Z|\s(?:is|was|ist|war|es|est|é|esta|está)\s{1,4}\Z", re.IGNORECASE)

# ${NAME:?what a shell says without one}, ${NAME:-$(…)}, ${NAME:0:4}
_EXPANDED = re.compile(r"\?|[+=-]?[$`]|\d{1,4}(?::\d{1,4})?\}")
_EXPANDS = re.compile(r"\$\{\w{1,80}:\Z")
PREFIX = r"(?:[bBrRuUfF]{1,2}(?=[\"'])|\$(?=[\"']))?"  # of a text in Python; $'…' of bash
# What a text is declared as: `str | None`, `Mapped[str]`, `"Optional[str]"`; Swift's `String?`, Rust's `&'static str`
_BRACKETS = (
    r"(?:\[(?:[^\[\]\n]|\[[^\[\]\n]{0,60}\]){0,80}\]|<(?:[^<>\n]|<[^<>\n]{0,60}>){0,80}>"
    r"|\((?=[^()\n]{0,80}\)[\x20\t]{0,4}[|=])[^()\n]{0,80}\))"
)
_ONE_TYPE = (
    r"(?:&(?:'\w{1,20}\s)?(?:mut\s)?|(?:unique|readonly)\s)?"
    rf"(?:(?:[A-Za-z_]|u8)(?:[A-Za-z_.]|::(?=[A-Za-z])){{0,60}}(?![\w-])(?:{_BRACKETS}){{0,2}}[?!]?|\"[A-Za-z][\w.\[\]\x20|]{{0,60}}\"|'[A-Za-z][\w.\[\]\x20|]{{0,60}}')"
)
TYPE = rf"{_ONE_TYPE}(?:\s?\|\s?{_ONE_TYPE}){{0,4}}"
# What languages put a quoted value into
INTO = (
    r"(?:(?:(?:\w{1,40}(?:\.|::)){0,4}(?:Secret(?:Str(?:ing)?|Bytes)?|Some|Just|Optional|PASSWORD|str|String(?:::from)?|[fF]ield|mapped_column"
    r"|[A-Z][A-Za-z]{0,20}(?:Field|Column))\((?:[\w.\x20]{1,40}(?:\(\d{0,5}\))?,\s?)?(?:default(?:_factory)?\s?=\s?)?|\(\s{0,8})(?:lambda:\s)?|lambda:\s)"
)
# Names of what is kept about a secret, and of marks in a text
OF_ANOTHER = (
    r"(?i:(?:image|audio|video|stop|fim|start|decoder|pad|mask|moe)[_-](?:[a-z]{1,20}[_-])?token(?:[_-][\w-]{1,60})?"
    r"|[\w-]{1,80}[_-](?:dir|path|env|index|id|type|policy|drop|dispatcher|name|header|kind|mode|count|field|file))"
)
_TYPED_OF_ANOTHER = re.compile(
    rf"(?<![\w.-]){OF_ANOTHER}[?!]?\s{{0,4}}:\s{{0,4}}{TYPE}\s{{0,4}}=\s{{0,4}}(?:{INTO})?[bBrRuUfF]{{0,2}}[\"']\Z"
)
# What a switch is set to, what keeps passwords, a type
_SETTING = re.compile(
    r"(?i:yes|no|on|off|never|empty|inherit|bcrypt|scrypt|argon2\w{0,2}|pbkdf2[\w-]{0,20}|yescrypt|(?:scram-)?sha-?\d{1,3}\w{0,8}"
    r"|not[_-]needed|read|write|read-write)" + _END_OF_WORD  # permissions of a job's token
    + r"|(?:(?:&(?:'\w{1,20}\s)?)?str|[Ss]tring|SecretStr(?:ing)?|(?:Option|Zeroizing)<[\w<>&'\x20]{1,40}>)(?=\s{0,4}[,;)}\n]|\Z)"
    + rf"|{TYPE}(?=\s{{1,4}}=\s{{0,4}}(?:{INTO}|\[)?[bBrRuUfF]{{0,2}}[\"'])"
    + r"|(?:(?:typing|t)\.)?(?:str|string|String|bytes|Optional|Union|Any|Final|SecretStr|None)(?:\[[^\n]{0,80}?\])?"
    + r"(?:\s?\|\s?[A-Za-z_][\w.]{0,30}){0,4}(?=\s{0,4}=(?!=))"
    + r"|[A-Z][A-Za-z]{1,40}(?:\(\)|(?=\s(?:\|\s|=\s?[A-Z\[{(])))"
)  # fmt: skip
# passwd of nsswitch.conf: where accounts are looked for
_SOURCES = re.compile(r"(?:files|compat|db|nis(?:plus)?|ldap|sss|winbind|systemd|altfiles|extrausers|mymachines|cache|vas\d?)(?![^\s\[])")
_OF_SOURCES = re.compile(r"(?<![\w.-])passwd:[\x20\t]{1,40}\Z")
# What a secret is called elsewhere, who keeps it, how
_OF_A_KEEPER = re.compile(
    r"(?:[Nn]ame|_NAME|[Rr]ef|_REF|[Cc]lass|[Pp]rovider|[Hh]elper|[Ee]ncoder|[Hh]asher|[Bb]ackend|[Pp]olicy)[\"']?\s{0,8}[:=]\s{0,60}[\"']?\Z"
)
_IS_THERE = re.compile(r"existingSecret[\"']?\s{0,8}[:=]\s{0,60}[\"']?\Z")
_KEEPER = re.compile(r"[A-Za-z][a-z]{1,40}(?:[._-][a-z]{1,40}){0,6}" + _END + r"|[a-z]{3,20}=\d{1,4}\b")
# Where tokens are had, without a login and without what a query holds
_OF_AN_ADDRESS = re.compile(r"(?i)token[_-]?(?:ur[il]|endpoint)[\"']?\s{0,8}[:=]\s{0,60}[\"']?\Z")
_ADDRESS = re.compile(r"https?://[\w.-]{1,120}(?::\d{1,5})?(?:/(?:[A-Za-z._-]{1,24}|v\d(?:\.\d)?)){0,8}/?" + _END)
# The class of an exception, and the sentence that it says
_OF_AN_ERROR = re.compile(r"(?:Error|Exception|Warning)s?:\s{1,4}\(?[\"']?\Z")
_SENTENCE = re.compile(r"\(?[\"']?[A-Za-z][A-Za-z'-]{0,30}[,:]?\s[\w'\"]")
# Names of what a container is given
_OF_NAMES = re.compile(r"(?i:secrets)[\"']?:\s{1,4}\Z")
_NAMES = re.compile(r"\[[a-z][a-z_-]{0,60}(?:,\s?[a-z][a-z_-]{0,60}){0,20}\]")
# A variable of the code around
_VALUE = re.compile(r"([A-Za-z_]{2,60})(\s{0,4}[,)}\]])?(?![\w.-])")
_NAME = re.compile(r"([A-Za-z_]\w{0,60})[\"']?\]?\s{0,8}[:=]\s{0,60}\Z")
_AFTER_A_SECRET = re.compile(r"(?i)(?:password|passwd|passphrase|pwd|token|secret|key|credentials?)\Z")


# Nothing stands behind the sign, and the next line begins at its left; a filter of a template; the name of what a cloud keeps
_NOTHING = re.compile(
    r"(?<![=:!<>])=[\x20\t]{0,8}(?:\r?\n|\\{1,3}n)\Z|\{\{[^{}\n]{1,120}\|\s{0,4}\Z|\barn:aws[\w-]{0,12}:[^\s\"']{0,100}\Z|\bsecretsmanager:\Z"
)
_BEFORE_NOTHING = ("\n", "\\n", "|", "| ", ":")


# conda's name=1.2.3, on a command's line or as an item of a list
_PIN = re.compile(r"\d{1,5}(?:\.(?:\d{1,6}|\*)){1,4}[a-z]{0,2}\d{0,4}(?![^\s\"',;\])])")
_OF_CONDA = re.compile(
    r"\b(?:conda|mamba|micromamba)\s[^\n|;&]{0,300}?\b(?:install|create|update|upgrade)\s|::[a-z][\w.-]{1,60}=\Z|\A[\x20\t]{0,40}-[\x20\t]{1,4}[\"']?[a-z][a-z0-9._-]{1,60}=\Z"
)


def _is_pin(text: str, value: int) -> bool:
    """Whether a version stands here, behind the name of a package of conda."""
    line = text[max(0, value - 400) : value].rpartition("\n")[2]
    return line.endswith("=") and bool(_PIN.match(text, value) and _OF_CONDA.search(line))


_CAPITALS = re.compile(r"[A-Z][A-Z_]{2,60}(?![\w-])")
_OF_CLICK = re.compile(r"(?:TEXT|STRING|VALUE)(?=\x20{2}|[\x20\t]{0,4}(?:[\[\]\n]|\Z))")


def _is_metavar(text: str, value: int) -> bool:
    """Whether what stands behind a flag is its own name in capitals, as help writes it."""
    found = _CAPITALS.match(text, value)
    if not found:
        return False
    flag = text[max(0, value - 64) : value - 1].replace("\n", " ").rpartition(" ")[2].lstrip("[(\"'").replace("-", "_").upper()
    return flag.startswith("__") and (flag.endswith("_" + found[0]) or bool(_OF_CLICK.match(text, value)))


def is_reference(text: str, start: int, value: int) -> bool:
    """Whether no secret stands at `value`, behind a name and a sign that begin at `start`."""
    if text.endswith(_BEFORE_NOTHING, 0, value) and _NOTHING.search(text, max(0, value - 160), value):
        return True
    if _REFERENCE.match(text, value) or _FILE.match(text, value) or _SETTING.match(text, value):
        return True
    if _is_pin(text, value) or _is_metavar(text, value) or _is_expanded(text, value) or _is_variable(text, value):
        return True
    before = text[max(start, value - 120) : value]
    if before.endswith(("'", '"')) and ":" in before and _TYPED_OF_ANOTHER.search(text[max(0, value - 200) : value]):
        return True
    if (_OF_A_KEEPER.search(before) or _IS_THERE.search(text, max(0, value - 100), value)) and _KEEPER.match(text, value):
        return True
    if (_OF_AN_ERROR.search(before) and _SENTENCE.match(text, value)) or (_OF_NAMES.search(before) and _NAMES.match(text, value)):
        return True
    if _OF_AN_ADDRESS.search(before):
        return bool(_ADDRESS.match(text, value))
    if _OF_A_FILE.search(before):
        return bool(_PATH.match(text, value))
    return is_state(text, start, value) or ("\n" in before[-60:] and before.endswith((" ", "\t")) and bool(_STATEMENT.match(text, value)))


def _is_expanded(text: str, value: int) -> bool:
    """Whether a shell puts something in the place of a name here, or a list of sources stands behind `passwd:`."""
    before = text[max(0, value - 84) : value]
    if before.endswith(":"):
        return bool(_EXPANDED.match(text, value) and _EXPANDS.search(before))
    return bool(_SOURCES.match(text, value) and _OF_SOURCES.search(before))


def _is_variable(text: str, value: int) -> bool:
    """Whether a variable stands here: in a call, it is called as its parameter is, or after a secret; or the code around sets it."""
    found, before = _VALUE.match(text, value), text[max(0, value - 80) : value]
    name = _NAME.search(before) if found else None
    if not found or not name:
        return False
    said = found[1]
    if found[2] and said.lower() == name[1].lower():
        return True
    if not _AFTER_A_SECRET.search(said) or (said.islower() and "_" not in said):
        return False
    around = text[max(0, value - _AROUND) : value + _AROUND]
    above, _, line = before.rpartition("\n")
    called = "(" in line or "{" in line or above.rstrip().endswith(("(", "{", ","))
    return bool(found[2] and called) or any(one + said + other in around for one, other in _SETS)


def of_a_state(word: str) -> bool:
    """Whether this is what is said of a secret: expired, required."""
    return bool(_STATE.match(word))


def is_state(text: str, start: int, value: int) -> bool:
    """Whether it is said of the name that begins at `start` what has become of it: expired, not set."""
    return bool(_SAYS.search(text, max(start, value - 120), value) and _STATE.match(text, value))
