"""Secrets that no report may carry: passwords in URLs, tokens of known services, what is named after a secret, addresses of e-mail."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

MASK = "[secret]"
EMAIL = "[e-mail]"

# "https://user:pass@host", "https://token@host"
_URL_LOGIN = re.compile(r"(?<=://)[^/\s@'\"]+@")
# Prefixes that the services document: Hugging Face, GitHub, GitLab, AWS, Slack, OpenAI and its like, NGC, PyPI, Google, JSON Web Tokens
_TOKEN = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}|(?:AKIA|ASIA)[A-Z0-9]{16}|xox[abeoprs]-[\w-]{10,}"
    r"|sk-(?=[\w-]{0,200}\d)[\w-]{20,}|nvapi-[\w-]{20,}|pypi-[\w-]{32,}|AIza[\w-]{30,}|eyJ[\w-]{13,}(?:\.[\w-]*){0,2})"
)
_HINTS = ("hf_", "gh", "glpat-", "AKIA", "ASIA", "xox", "sk-", "nvapi-", "pypi-", "AIza", "eyJ")
# TOKENIZERS_PARALLELISM, max_tokens, pad_token_id and the like are none: they belong to a vocabulary.
_VOCABULARY = "(?<!pad_)(?<!eos_)(?<!bos_)(?<!unk_)(?<!sep_)(?<!cls_)(?<!mask_)"
_WORDS = rf"{_VOCABULARY}token(?!iz|s|_id|-id|_type)|secret|passw(?:or)?d|passphrase|credential"
_KEYS = "(?:api|access|account|private|signing|shared|encryption)"
_SECRET_NAME = re.compile(rf"(?i){_WORDS}|passw|{_KEYS}_?key|_auth$|^auth_|(^|_)(?:key|pass|pwd|pat)$")


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret as a rule."""
    return bool(_SECRET_NAME.search(name))


# "?access_token=…", "&api_key=…", "password=…", "HF_TOKEN: …", "DB_PWD=…", "Authorization: Bearer …"; not "$HF_TOKEN", which tells nothing
_ASSIGNED = re.compile(
    rf"((?:(?i:{_WORDS}|{_KEYS}[_-]?key|authorization|_pass\b|_pwd\b)|_(?:KEY|PAT)\b)[\w-]{{0,80}}[\"']?\s{{0,8}}[=:]\s{{0,8}}[\"']?)"
    r"((?i:bearer|basic)\s{1,8})?(?!\[secret\]|\$|[<{*])([^\s\"'&,;\\]{4,})"
)
# "--password x", "--hf-token x": the value is a word of its own
_FLAG = re.compile(
    rf"((?<![\w-])--?[\w-]{{0,40}}(?:{_WORDS}|api-?key|access-?key|pwd)\s{{1,8}}[\"']?)(?!\[secret\]|\$|[<{{*-])([^\s\"']+)",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b([Bb]earer\s{1,8})(?=[\w.~+/=-]{0,80}\d)[\w.~+/=-]{8,}")
# Who holds the URL of a pre-signed object may read it: AWS, Google and Azure
# (https://learn.microsoft.com/rest/api/storageservices/create-service-sas).
_SIGNED = re.compile(
    r"(?i)(?<=[?&;])((?:x-(?:amz|goog)-(?:signature|security-token|credential)|sig|signature|awsaccesskeyid)=)[^\s&\"'<>]{4,}"
)
_PEM = re.compile(r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)[A-Za-z0-9+/=\s\\]+")
_EMAIL = re.compile(
    r"(?<![\w.+/:@%-])(?!git@)[A-Za-z0-9][\w.+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,8}(?!so\b|dll\b|dylib\b|py\b)[A-Za-z]{2,24}(?![\w@-]|[.:/][\w/])"
)


def mask_secrets(text: str) -> str:
    """Text without passwords, tokens, signatures and addresses of e-mail. What stands around them stays, so that a cause can be read."""
    if "@" in text:
        text = _EMAIL.sub(EMAIL, _URL_LOGIN.sub(f"{MASK}@", text) if "://" in text else text)
    if any(hint in text for hint in _HINTS):
        text = _TOKEN.sub(MASK, text)
    if "=" in text or ":" in text:
        text = _SIGNED.sub(rf"\1{MASK}", text)
        text = _ASSIGNED.sub(lambda found: f"{found[1]}{found[2] or ''}{MASK}", text)
    if "earer" in text:
        text = _BEARER.sub(rf"\1{MASK}", text)
    if "-----BEGIN" in text:
        text = _PEM.sub(rf"\1{MASK}", text)
    return _FLAG.sub(rf"\1{MASK}", text) if "--" in text or " -" in text else text


def mask_words(words: Sequence[str]) -> Iterator[str]:
    """The words of a command line. The one behind a flag like --password is a secret whatever it is."""
    before = ""
    for word in words:
        whole = mask_secrets(f"{before} {word}" if before.startswith("-") and "=" not in before else word)
        yield whole.removeprefix(f"{before} ") if before.startswith("-") and "=" not in before else whole
        before = word


def program_of(words: Sequence[str]) -> str:
    """Program and script or module of a command line, of whatever user; other arguments, and code after -c, may hold secrets."""
    if not words:
        return ""
    name = words[0].rsplit("/", 1)[-1]
    if not name.startswith(("python", "pypy")):
        return name
    for at, word in enumerate(words[1:], 1):
        if word == "-m":
            return " ".join([name, "-m", *words[at + 1 : at + 2]])
        if word == "-c":
            return name
        if not word.startswith("-") and words[at - 1] not in ("-X", "-W"):
            return f"{name} {word.rsplit('/', 1)[-1]}"
    return name


def process_name(said: str | None) -> str | None:
    """The same of what nvidia-smi and NVML call a process: a path, or a command line in one text. "[Not Found]" stays."""
    if not said or said.startswith("[") or "\\" in said or (" -" not in said and ".py " not in said):
        return said
    program, *others = said.split()
    return program_of((program, *others)) if others else said
