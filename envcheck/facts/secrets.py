"""Secrets that no report may carry: passwords in URLs, tokens of known services, what is named after a secret, addresses of e-mail."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from envcheck.facts.secret_labels import masked_below_labels
from envcheck.facts.secret_lists import lists_masked, may_hold_a_list, words_masked
from envcheck.facts.secret_words import ASKED, CODE, CODES, FOREIGN, QUESTIONS, any_of

MASK = "[secret]"

# In lower case: a text without any of these, without an "@" and without a run as tokens have it holds no secret that can be told.
_HINTS = (
    "hf_", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "gldt-", "glcbt-", "glptt-", "glrt-", "glft-", "glimt-",
    "glagent-", "glsoat-", "akia", "asia", "xox", "xapp-", "sk-", "nvapi-", "pypi-", "aiza", "eyj", "npm_", "gsk_", "r8_", "api_org_",
    "lin_api_", "_v1_", "k_live_", "k_test_", "whsec_", "ya29.", "dapi", "sg.", ":aa", "hvs.", "hvb.", "hvr.", "lsv2_", "pplx-", "xai-",
    "tskey-", "dp.st.", "dp.ct.", "dp.pt.", "dp.sa.", "shpat_", "shpca_", "shppa_", "shpss_", "pul-", "atatt3", "$1$", "$5$", "$6$",
    "$y$", "$2a$", "$2b$", "$2y$", "$apr1$", "$argon2", "token", "secret", "passw", "passphrase", "credential", "key", "authoriz",
    "cookie", "_auth", "-auth", "auth\"", "auth'", "_pass", "_pwd", "_pw", "_dsn", "-pwd", ";pwd", "; pwd", "bearer", "sig=",
    "signature", "?code=", "&code=", "connection_string", "connectionstring", "login", "sshpass", "mysql", "mariadb", "curl", "webhook",
    "hooks.slack", "pin=", "pin ", "pin:", "pin'", "pin\"", "salt", "pepper", "otp", "totp_", "mnemonic", "phrase", "passcode", "pincode",
    "creds", "sid=", "sid:", "sessid", "sessionid", "session_id", "jwt", "sas", "sshpass", "redis-cli", "smb", "ldap", "openssl", "munge:",
    "fwogz", "fqogz", "iqojb", "aqody", "wandb_", "auth=", "auth(", "%3dsig", "sig%3d", "%40", "pass:", ":5432:",
    "clave", "senha", "mdp", "mima", "psk=", "_psk", "_sk=", "_sk'", "_sk\"", "_sk:", "pass=", "pwd", "bindpw", "storepass",
    "keypass", "private-lines", "begin ", "mongo", "7z ", "zip -", "ipmitool", "snmp", "obsutil", "ossutil", "swanlab", "lftp", "http -a",
    "https -a", "thin:", "sqlplus", "true\t", "false\t", "true\\t", "true /",
    "false /", "echo ", "wandb:", "wandb ", "wandb=", "wandb'", 'wandb"', "oauth", "auth:", "331", "absk", "csk-", "tgp_",
    "_eyj", "jqqj99", "?tkn", "&tkn", "pw is", "pw was", "pw:", ":*:", "plink", "pscp", "psftp", "putty",
    "/hook/", "/integration/", "?pass", "&pass", "fw_", "pass =", "fleet_job", "figd_",
    "glc_", "rpa_", "sq0", "pmak-", "nrak-", "nrjs-", "nrii-", "glsa_", "hrku-", "fm1", "fm2", "pscale_", "ccipat_", "cciprj_", "sntry",
    "dckr_", "atlasv1", "pcsk_", "proxy", "basic ", "/t/", "identified", "pass ", "-pw", "--user", "mosquitto", "literal", "sbp_", "bku",
    "local-", "<<<", "-stdin", "alias ", "mount ", "add_user", "user add", "user create", "auth ", "connect(",
    "2fa", "--session", "/p:", "sqlcmd", "useradd", "usermod", "net use", "printf",
    "obscure", "hooks/", "//hooks.", "hc-ping", ":*:", "auth plain", "auth default", "cqlsh", "authident", "send ", "send_user",
    "securestring", "psexec", "nickserv", "psk ", "http-basic", "publish", "getpass", "get_pass", "hmac.new", "fernet", "_user=",
    "username=", "addauth", "ipmi-", "syt_", "sqp_", "squ_", "sqa_", "code: ", "codes", "code is ", "unseal", "oathtool",
    "auth-user-",
    "requirepass", "masterauth", "kind: secret", "stringdata", "ansible_vault", "-----end ", "base64", "rdesktop", "racadm", "ilorest",
    "impacket", "isql", "hdbsql", "cftp", "(d #", " #d", "samlresponse", "unlock", "licens", "licenc", "sign=", "sign2=",
    "community", "passkey",
    "access grant", "access_grant", "scratch", "emergency", "pre-shared", "preshared", "user(", "access code", "access_code", "_code",
    "/pass", "/password", "gocspx", "1//0", "=}",
    "pass>", "pwd>", "pass\"", "maiden", "memorable", "security answer", "security_answer", "securityanswer", "security question",
    "antwort", "sicherheitsfrage", "kontrollfrage", "security q", "ftp>", "mk: ", "ww: ", "пасс", "réponse", "respuesta", "resposta",
    "risposta", "вопрос", "答案", "答え", "답변", "sql>", "/oper ", "oper ", "authenticate", "auth\r", "auth\n", "auth\\r", "wep_key",
    "wep-key", "/rp ", "rar ", "пин-", "пин ", "pin-", "@/", "@tcp", "@unix", "userid=", "createuser", "334 ", "mtan", " tan is",
    " tan ist", " tan lautet", "tan: ", "code was ", "code ist ", "code est ", "code lautet ", "code to ", "code è ", "codice ",
    "código ", "kod ", "kode ", "koden ", "koodi ", "код ", "код:", "set_network", ".psk", "md5 \"", "sha \"", "aes \"", "256 \"",
    "512 \"", "md5 '", "sha '", "aes '", "puk", "пук ", "пук:",
)  # fmt: skip

# Letters and digits in a row, as tokens have them. A commit's forty of hex are none: every report has those of torch.
_RUN = re.compile(r"(?<![A-Za-z0-9])(?![0-9a-f]{40}(?![A-Za-z0-9]))(?=[A-Za-z]{0,60}\d)[A-Za-z0-9]{16}")
_GROUPED = re.compile(r"-[A-Z0-9]{4,8}-[A-Z0-9]{4,8}(?:-[A-Z0-9]{4,8}){1,5}(?![\w-])")  # as keys of products are
_TYPED = re.compile(r"\d{4}[#*](?![\w#*])")  # on a keypad, with the key that ends it
# ASCII, and letters that names for secrets have elsewhere; no control and nothing that cannot be seen, which stay spelled out
_WRITTEN_OUT = re.compile(
    r"\\{1,3}u((?:00[2-7c-fC-F]|01[0-7]|03[7-9a-fA-F]|04[0-9a-fA-F]|30[4-9a-fA-F]|[4-9][0-9a-fA-F]{2}|[aA][c-fC-F][0-9a-fA-F]|[bBcC][0-9a-fA-F]{2}"
    r"|[dD][0-6][0-9a-fA-F]|[fF]{2}[0-5])[0-9a-fA-F])"
)
# A quotation mark in HTML, also in one that shows HTML
_ENTITY = re.compile(r"&(?:amp;){0,4}(?:(#0{0,4}39;|#[xX]0{0,4}27;|apos;)|quot;|#0{0,4}34;|#[xX]0{0,4}22;)")
# A text on one line, as a line of source and JSON write it
_ESCAPED = re.compile(
    r"(\\\\[nrt][\w.-]{0,60}\\(?=[\w$])|\\{4}[nrt][\w.-]{0,60}\\\\(?=[\w$]))"  # a folder of a server of Windows stays
    r"|\\{1,3}(?:([nrt])|([\"'/]))"
)
_MEANT = {"n": "\n", "r": "\r", "t": "\t"}


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret as a rule."""
    from envcheck.facts.secret_patterns import SECRET_NAME

    return bool(SECRET_NAME.search(name))


def mask_secrets(text: str) -> str:
    """Text without passwords, tokens, signatures and addresses of e-mail. What stands around them stays, so that a cause can be read."""
    return _again(text) if len(text) <= _SHORT else _read(text, _LEVELS, _LISTS)


_SHORT = 400  # characters of a text whose masked form is kept: a report says most of what it says in several places


@functools.lru_cache(4096)
def _again(text: str) -> str:
    return _read(text, _LEVELS, _LISTS)


_LISTS = 4  # lists in a list or in a text that quotes one: each is looked at several times, and what it holds again
_LEVELS = 12  # texts in a text, as programs write them one in another; who goes deeper means no reader


def _read(text: str, levels: int, lists: int) -> str:
    if levels and "\\u" in text:  # "\\u0070assword" is read by programs, and so by us; what holds no secret stays as it was written
        plain = _WRITTEN_OUT.sub(lambda found: chr(int(found[1], 16)), text)
        if plain != text:
            shown = _read(plain, levels - 1, lists)
            return text if shown == plain else shown

    def masked_as_is(said: str) -> str:
        return _masked(said, levels, lists)

    shown = masked_as_is(masked_below_labels(text, masked_as_is) if "\n" in text else text)
    plain = _ENTITY.sub(lambda found: "'" if found[1] else '"', shown) if "&" in shown else shown
    if plain == shown:
        return shown
    again = masked_as_is(plain)
    return shown if again == plain else again


def _masked(text: str, levels: int, lists: int) -> str:
    if lists and may_hold_a_list(text):
        # what is written one time after the other is the same each time
        text = lists_masked(text, functools.lru_cache(_SAID)(lambda said: _read(said, levels, lists - 1)))
    typed = ("#" in text or "*" in text) and _TYPED.search(text)
    if (
        "@" not in text
        and not typed
        and not _hints().search(_OF_SPEED.sub("", text.lower()))
        and not _RUN.search(text)
        and not _GROUPED.search(text)
    ):
        return text
    from envcheck.facts.secret_patterns import masked

    if levels and "\\" in text:
        text = "\n".join(_masked_as_meant(line, levels - 1, max(lists - 1, 0)) for line in text.split("\n"))
    return masked(text, MASK, mask_secrets)


_SAID = 64  # lists whose masked form is kept
_OF_SPEED = re.compile(r"tokens?(?:/s(?:ec(?:ond)?)?|[ _]per[ _]sec(?:ond)?)(?![\w=])")  # of each line that training prints
_NAMES = 8192  # characters in which the name of a secret that is cut through is looked for


def end_of(text: str, most: int) -> str:
    """The last characters of a text. It is masked before it is cut: a secret whose name is cut off is known by nothing."""
    return text if len(text) <= most else mask_secrets(text[-most - _NAMES :])[-most:]


def _masked_as_meant(line: str, levels: int, lists: int) -> str:
    """A line that quotes a text of several lines, masked as that text would be: many secrets end where their line or a quotation does."""
    meant = _ESCAPED.sub(lambda found: _MEANT[found[2]] if found[2] else found[1] or found[3], line)
    if meant == line:
        return line
    shown = _read(meant, levels, lists)
    return line if shown == meant else shown.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


_ELSEWHERE = r"_pat(?!h)|(?:ms|pat-[a-z]{2}\d)-[0-9a-f]{8}-|"
_ELSEWHERE += r"\s-[ul]\s|[?&]\w{1,3}=[\w-]{14}|\b(?:with|use|as|login|account|credentials?):?\s[\w.@-]{2,40}\s/\s"


# One tree of letters: each further branch is tried at each place
_FOR_HINTS = (*_HINTS, *map(str.lower, CODES), *QUESTIONS, *ASKED, *FOREIGN)
# A word for a code, and in its clause what may be one: "exit code 137" and "code for compute capability 7" would cost all expressions
_OF_CODE = (
    rf"(?<!exit )(?<!error )(?<!status )(?<!return )(?:{any_of(CODE)})(?!\w{{0,8}}\")[^\d.;<>|=(){{}}\[\]/_]{{1,80}}"
    r"\d(?:[a-z0-9-]{2}|\d[ -]\d)"
)


@functools.cache
def _hints() -> re.Pattern[str]:
    """One expression for all hints: a look for each of them in turn takes six times as long, and most texts hold none."""
    # no LD_LIBRARY_PATH; a line of .pgpass
    return re.compile(
        rf"{any_of(_FOR_HINTS)}|{_ELSEWHERE}|{_OF_CODE}|\bauth\w{{0,20}}\(|\b(?:pass|pwd?|psw)\b|:\d{{4,5}}:[^\s:]{{1,80}}:[^\s:]{{1,80}}:\S"
    )


_NAMING = ("name", "key", "variable")  # {"name": "HF_TOKEN", "value": "…"}


def mask_values(value: Any) -> Any:
    """What was read from JSON with every text in it masked, and whole what is named after a secret: in its written form a text has
    its line breaks and quotation marks escaped, and some secrets are told by these."""
    if isinstance(value, str):
        return mask_secrets(value)
    if isinstance(value, Mapping):
        named = any(key.lower() in _NAMING and isinstance(one, str) and is_secret_name(one) for key, one in value.items())
        return {
            mask_secrets(key): MASK
            if isinstance(one, str) and one and (is_secret_name(key) or (named and key.lower() == "value"))
            else mask_values(one)
            for key, one in value.items()
        }
    return list(mask_list(value, mask_values)) if isinstance(value, list | tuple) else value


def mask_list(values: Sequence[Any], mask: Callable[[Any], Any]) -> Iterator[Any]:
    """Each value masked by itself; before, where all are texts, as words of one line, since a list of texts may be a command."""
    return map(mask, words_masked(values, mask_secrets) if all(isinstance(one, str) for one in values) else values)


def mask_words(words: Sequence[str]) -> Iterator[str]:
    """The words of a command line, masked as the line is. The one behind a flag like --password is a secret whatever it is."""
    flag = ""  # the word before with its blank, where it is a flag that may take this one
    for word in words_masked(words, mask_secrets):
        yield mask_secrets(flag + word).removeprefix(flag)
        flag = f"{word} " if word.startswith("-") and "=" not in word else ""
