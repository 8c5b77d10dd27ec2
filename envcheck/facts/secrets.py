"""Secrets that no report may carry: passwords in URLs, tokens of known services, variables named after a secret."""

from __future__ import annotations

import re

MASK = "[secret]"

# "https://user:pass@host", "https://token@host"
_URL_LOGIN = re.compile(r"(?<=://)[^/\s@'\"]+@")
# Prefixes that the services document: Hugging Face, GitHub, GitLab, AWS, Slack, OpenAI and its like, NGC, PyPI, Google, JSON Web Tokens
_TOKEN = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}|(?:AKIA|ASIA)[A-Z0-9]{16}|xox[abeoprs]-[\w-]{10,}"
    r"|sk-(?=[\w-]{0,200}\d)[\w-]{20,}|nvapi-[\w-]{20,}|pypi-[\w-]{32,}|AIza[\w-]{30,}|eyJ[\w-]{13,}(?:\.[\w-]*){0,2})"
)
_HINTS = ("hf_", "gh", "glpat-", "AKIA", "ASIA", "xox", "sk-", "nvapi-", "pypi-", "AIza", "eyJ")
# TOKENIZERS_PARALLELISM is none
_SECRET_NAME = re.compile(r"(?i)token(?!iz)|secret|passw|credential|api_?key|access_?key|private_?key|_auth$|^auth_|(^|_)key$")


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret as a rule."""
    return bool(_SECRET_NAME.search(name))


def mask_secrets(text: str) -> str:
    """Text without passwords in URLs and without tokens of known services."""
    if "://" in text and "@" in text:
        text = _URL_LOGIN.sub(f"{MASK}@", text)
    return _TOKEN.sub(MASK, text) if any(hint in text for hint in _HINTS) else text


# "?access_token=…", "&api_key=…", "password=…", "HF_TOKEN: …", "Authorization: Bearer …"
_ASSIGNED = re.compile(
    r"(?i)((?:token(?!iz)|secret|passw(?:or)?d|api[_-]?key|access[_-]?key|private[_-]?key|credential|authorization)[\w-]{0,80}[\"']?\s*[=:]\s*[\"']?)"
    r"((?:bearer|basic)\s+)?([^\s\"'&,;]{4,})"
)


def mask_assignments(text: str) -> str:
    """Text without the values of what is named after a secret: "password=…", "HF_TOKEN: …", "Authorization: Bearer …"."""
    return _ASSIGNED.sub(lambda found: f"{found[1]}{found[2] or ''}{MASK}", text)
