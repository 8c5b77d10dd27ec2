"""What a secret looks like. Loaded where a text may hold one: compiling these is no small part of a static check."""

from __future__ import annotations

import re

EMAIL = "[e-mail]"

# "https://user:pass@host", "https://token@host"
_URL_LOGIN = re.compile(r"(?<=://)[^/\s@'\"]+@")
# Prefixes that the services document: Hugging Face, GitHub, GitLab, AWS, Slack, OpenAI and its like, NGC, PyPI, Google, JSON Web Tokens
_TOKEN = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}|(?:AKIA|ASIA)[A-Z0-9]{16}|xox[abeoprs]-[\w-]{10,}"
    r"|sk-(?=[\w-]{0,200}\d)[\w-]{20,}|nvapi-[\w-]{20,}|pypi-[\w-]{32,}|AIza[\w-]{30,}|eyJ[\w-]{13,}(?:\.[\w-]*){0,2})"
)
# TOKENIZERS_PARALLELISM, max_tokens, pad_token_id and the like are none: they belong to a vocabulary.
_VOCABULARY = "(?<!pad_)(?<!eos_)(?<!bos_)(?<!unk_)(?<!sep_)(?<!cls_)(?<!mask_)"
_WORDS = rf"{_VOCABULARY}token(?!iz|s|_id|-id|_type)|secret|passw(?:or)?d|passphrase|credential"
_KEYS = "(?:api|access|account|private|signing|shared|encryption)"
SECRET_NAME = re.compile(rf"(?i){_WORDS}|passw|{_KEYS}_?key|_auth$|^auth_|(^|_)(?:key|pass|pwd|pat)$")


# "?access_token=…", "&api_key=…", "password=…", "HF_TOKEN: …", "DB_PWD=…", "Authorization: Bearer …"; not "$HF_TOKEN", which tells nothing
_ASSIGNED = re.compile(
    rf"((?:(?i:{_WORDS}|{_KEYS}[_-]?key|authorization|_pass\b|_pwd\b)|_(?:KEY|PAT)\b)[\w-]{{0,80}}[\"']?\s{{0,8}}[=:]\s{{0,8}}[\"']?)"
    r"((?i:bearer|basic)\s{1,8})?(?!(?:(?i:bearer|basic)\s{1,8})?\[secret\]|\$|[<{*])([^\s\"'&,;\\]{4,})"
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


def masked(text: str, mask: str) -> str:
    """Text with `mask` in the place of passwords, tokens and signatures, and without addresses of e-mail."""
    if "@" in text:
        text = _EMAIL.sub(EMAIL, _URL_LOGIN.sub(f"{mask}@", text) if "://" in text else text)
    text = _TOKEN.sub(mask, text)
    if "=" in text or ":" in text:
        text = _SIGNED.sub(rf"\1{mask}", text)
        text = _ASSIGNED.sub(lambda found: f"{found[1]}{found[2] or ''}{mask}", text)
    if "earer" in text:
        text = _BEARER.sub(rf"\1{mask}", text)
    if "-----BEGIN" in text:
        text = _PEM.sub(rf"\1{mask}", text)
    return _FLAG.sub(rf"\1{mask}", text) if "-" in text else text
