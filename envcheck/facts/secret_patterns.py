"""What a secret looks like. Loaded where a text may hold one: compiling these is no small part of a static check."""

from __future__ import annotations

import re

EMAIL = "[e-mail]"

# "https://user:pass@host", "https://token@host"; a password may hold an @ itself, and the last one counts
# Of JSON the slashes are escaped, of a query colon and slashes encoded; behind a colon that no port follows a password may hold a slash.
_URL_LOGIN = re.compile(
    r"(?:(?<=://)|(?<=:\\/\\/)|(?<=%3[Aa]//)|(?<=%3[Aa]%2[Ff]%2[Ff])|(?<=[\s='\"]//))"
    r"(?:[^/\s'\"]{1,300}@|[^/\s'\"\\@:]{1,80}:(?!\d{1,5}/)[^\s'\"@\\]{1,200}@|[^/\s'\"%]{1,80}%3[Aa][^/\s'\"%]{1,200}%40)"
)
# "name:password@proxy:3128", without a scheme
_LOGIN = re.compile(r"(?<![\w@/.:-])[A-Za-z][\w.-]{0,40}:[^\s'\"@/:]{4,80}@(?=[A-Za-z0-9][\w.-]{0,253}:\d{2,5}(?!\w))")
# Prefixes that the services document: Hugging Face, GitHub, GitLab, AWS, Slack, OpenAI and its like, NGC, PyPI, Google, JSON Web Tokens;
# Anthropic's begin with sk-. Then Stripe, npm, Databricks, DigitalOcean, SendGrid, Telegram, Mailgun, age, Replicate, Vault, Groq,
# LangSmith, Perplexity, xAI, Tailscale, Doppler, Shopify, Linear, Pulumi, Atlassian; hashes of passwords as crypt(3) writes them.
_TOKEN = re.compile(
    r"\b(?:(?:hf|gh[opsur]|npm|gsk|r8|api_org|lin_api|dop_v1|doo_v1|dor_v1)_[A-Za-z0-9]{16,}|github_pat_\w{20,}|gl(?:pat|dt|cbt|ptt|rt|ft|imt|agent|soat)-[\w-]{16,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|(?:xox[abeoprs]|xapp)-[\w-]{10,}|sk-(?=[\w-]{0,200}\d)[\w-]{20,}"
    r"|(?:sk|rk|whsec|pk)_(?:live|test)_\w{10,}|nvapi-[\w-]{20,}|pypi-[\w-]{16,}|AIza[\w-]{30,}|ya29\.[\w-]{16,}|dapi[0-9a-f]{32}"
    r"|SG\.[\w-]{16,}\.[\w-]{16,}|(?:bot)?\d{8,10}:AA[\w-]{30,}|key-[0-9a-f]{32}|AGE-SECRET-KEY-1[0-9A-Z]{16,}|hv[bsr]\.[\w-]{16,}"
    r"|lsv2_(?:pt|sk)_\w{16,}|(?:pplx|xai)-[A-Za-z0-9]{20,}|tskey-[\w-]{16,}|dp\.(?:st|ct|pt|sa)\.[\w.-]{16,}|shp(?:at|ca|pa|ss)_[0-9a-f]{16,}"
    r"|pul-[0-9a-f]{32,}|ATATT3[\w=-]{16,}|eyJ[\w-]{13,}(?:\.[\w-]*){0,2}"
    r"|wandb_v1_\w{16,}|MUNGE:[\w+/=]{8,})"
    r"|\b(?:FwoGZXIvYXdz|FQoGZXIvYXdz|IQoJb3JpZ2lu|AQoDYXdz)[\w+/=%]{16,}"  # session tokens of AWS
    r"|\$(?:apr1|2[aby]?|[156y]|argon2(?:id?|d))\$[^\s:'\"]{16,}"
)
# TOKENIZERS_PARALLELISM, max_tokens, pad_token_id and the like are none: they belong to a vocabulary.
_VOCABULARY = "(?<!pad_)(?<!eos_)(?<!bos_)(?<!unk_)(?<!sep_)(?<!cls_)(?<!mask_)"
_WORDS = rf"{_VOCABULARY}token(?!iz|s|_id|-id|_type)|secret|passw(?:or)?d|passphrase|credential|connection_?string"
_KEYS = "(?:api|access|account|private|signing|shared|encryption|client|license|master|session|service|ssh)"
# As the whole name or its last word. A PIN is one unless processes are pinned (I_MPI_PIN).
_LAST = "salt|pepper|passcode|pincode|mnemonic|jwt|otp|creds?|sas|seed_phrase|totp_seed|signature|bearer|privkey"
_PINNED = "(?<!mpi)(?<!cpu)(?<!gpu)(?<!omp)(?<!numa)(?<!core)(?<!thread)"
SECRET_NAME = re.compile(
    rf"(?i){_WORDS}|passw|cookie|webhook|{_KEYS}_?key|_auth$|^auth_|(^|_)(?:key|pass|pw|pwd|pat|dsn|{_LAST})$|sshpass$|sess(?:ion)?_?id$"
    rf"|{_PINNED}(^|_)pin$"
)

_QUOTE = r"\\{0,3}[\"']"  # also as JSON within JSON writes it
_MASKED = r"\[secret\]|\$|[<{*]"  # "$HF_TOKEN" tells nothing, and what is masked stays as it is
_SCHEME = r"(?:bearer|basic|token|digest|negotiate|ntlm|apikey|hawk|aws4-hmac-sha256)"

# "?access_token=…", "&api_key=…", "password=…", "HF_TOKEN: …", "DB_PWD=…", "'password': b'…'". In quotes it may be of several words.
_ASSIGNED = re.compile(
    rf"((?:(?i:{_WORDS}|{_KEYS}[_-]?key|_pass\b|_pwd\b)|_(?:KEY|PAT|PW|AUTH|DSN)\b|(?<![\w-])_auth\b"
    rf"|(?<![A-Za-z0-9])(?:(?i:salt|passcode)|PEPPER|PINCODE|MNEMONIC|JWT|OTP|CREDS?|SAS|SEED_PHRASE|TOTP_SEED|SSHPASS)\b)[\w-]{{0,80}}(?:{_QUOTE})?"
    rf"\s{{0,8}}[=:]\s{{0,8}}(?:b?{_QUOTE})?)(?!{_MASKED})"
    r"((?<=\")[^\s),\]}\"\\][^\"\n\\]{3,400}|(?<=')[^\s),\]}'\\][^'\n\\]{3,400}|[^\s\"'&,;\\]{4,})"
)
# Headers of HTTP: after the scheme what stands there, with the parameters of Digest or a cookie's further pairs
_HEADER = re.compile(
    rf"((?<![\w-])(?i:(?:proxy-)?authorization|(?:set-)?cookie|x-[\w-]{{0,40}}(?:key|token|auth))(?:{_QUOTE})?\s{{0,8}}[=:]\s{{0,8}}"
    rf"(?:{_QUOTE})?)((?i:{_SCHEME})\s{{1,8}})?(?!(?:(?i:{_SCHEME})\s{{1,8}})?(?:{_MASKED}))"
    r"(?:[\w-]{1,40}=\"[^\"\n]{0,400}\"|[^\s\"',;\\]{4,})(?:[;,]\s{0,8}[\w.-]{1,80}=(?:\"[^\"\n]{0,400}\"|[^\s\"',;\\]{0,400})){0,40}"
)
# {"username": "x", "key": "…"} of Kaggle, {"auth": "…"} of Docker, `wandb login …`: a name that says little, and a value that says it all
_OPAQUE = re.compile(
    rf"((?<![A-Za-z0-9])(?:key(?:{_QUOTE})?\s{{0,8}}[:=\s]\s{{0,8}}(?:{_QUOTE})?|login\s{{1,8}}(?:--[\w-]{{1,40}}\s{{1,8}})?)(?=[0-9a-f]{{32}})"
    rf"|{_QUOTE}auth{_QUOTE}\s{{0,8}}:\s{{0,8}}{_QUOTE}(?=[\w+/=-]{{12}}))[\w+/=-]+"
)
# "--password x", "--hf-token x", "'--api-key', 'x'": the value is a word of its own
_FLAG = re.compile(
    rf"((?<![\w-])--?[\w-]{{0,40}}(?:{_WORDS}|api-?key|access-?key|pwd)(?:\s{{1,8}}[\"']?|[\"'],\s{{0,8}}[\"']))"
    rf"(?!{_MASKED}|-)([^\s\"']+)",
    re.IGNORECASE,
)
# Flags that mean a password in these programs alone: `docker login -p`, `sshpass -p`, `mysql -p…`, `curl -u name:…`; a line of .netrc;
# a connection string of ODBC, whose PWD is no folder
_OTHERWISE = re.compile(
    r"(\bsshpass\s{1,8}-p\s{0,8}|\blogin\b[^\n|;&]{0,200}?\s-p\s{1,8}|\b(?:mysql\w{0,20}|mariadb)\b[^\n|;&]{0,200}?\s-p"
    r"|\bcurl\b[^\n|;&]{0,200}?\s(?:-u|--user|--proxy-user)\s{1,8}[\"']?[^\s:\"']{1,80}:"
    r"|\bcurl\b[^\n|;&]{0,200}?\s(?:-b|--cookie)\s{1,8}[\"']?[\w.-]{1,80}=|\bredis-cli\b[^\n|;&]{0,200}?\s(?:-a|--pass)\s{1,8}"
    r"|\bldap\w{1,12}\b[^\n|;&]{0,200}?\s-w\s{1,8}|\bopenssl\b[^\n|;&]{0,200}?\s-[kK]\s{1,8}|\bsmb\w{1,12}\b[^\n|;&]{0,200}?\s-U\s{0,8}[^\s%]{1,80}%"
    r"|-pass(?:in|out)?\s{1,8}pass:|--auth=|:5432:[^\s:]{1,80}:[^\s:]{1,80}:"
    rf"|\blogin\s{{1,8}}\S{{1,80}}\s{{1,8}}password\s{{1,8}}|;\s{{0,8}}(?i:pwd)=(?![/~]))(?!{_MASKED})"
    r"(?:'[^'\n]{3,200}'|\"[^\"\n]{3,200}\"|[^\s\"';]{4,})"
)
# Digits alone: CARD_PIN=4711, --pin 4711
_PIN = re.compile(rf"((?<![A-Za-z0-9])PIN(?:{_QUOTE})?\s{{0,8}}[=:]\s{{0,8}}(?:{_QUOTE})?|(?<![\w-])--pin[=\s]{{1,8}})\d{{4,12}}(?![\w.-])")
# What a session is known by: JSESSIONID, PHPSESSID, connect.sid
_SESSION = re.compile(
    rf"((?<![\w.])(?i:[\w.]{{0,30}}(?:session_?id|sessid|csrf_?token|sid))(?:{_QUOTE})?\s{{0,8}}[=:]\s{{0,8}}(?:{_QUOTE})?)"
    r"(?=[\w+/=%.-]{0,60}\d)[\w+/=%.-]{12,}"
)
# auth=("name", "…"), HTTPBasicAuth("name", "…")
_PAIR = re.compile(
    rf"((?i:auth)(?:{_QUOTE})?\s{{0,8}}[=:(]\s{{0,8}}\(?\s{{0,8}}{_QUOTE}[^\s\"'\\]{{1,80}}{_QUOTE}\s{{0,8}},\s{{0,8}}{_QUOTE})"
    rf"(?!{_MASKED})[^\n\"'\\]{{1,200}}"
)
_BEARER = re.compile(r"\b([Bb]earer\s{1,8})(?=[\w.~+/=-]{0,80}\d)[\w.~+/=-]{8,}")
# Who holds the URL of a pre-signed object may read it: AWS, Google and Azure
# (https://learn.microsoft.com/rest/api/storageservices/create-service-sas). So is a code of OAuth, for a minute.
_SIGNED = re.compile(
    r"(?i)(?:(?<=[?&;])|(?<=%26)|(?<=%3F))((?:x-(?:amz|goog)-(?:signature|security-token|credential)|sig|signature|awsaccesskeyid|code)(?:=|%3D))(?!\[secret\])[^\s&\"'<>]{4,}"
)
# Who knows the address of a hook may write to it.
_HOOK = re.compile(
    r"(?i)((?:hooks\.slack\.com/(?:services|workflows)|/api/webhooks|\.webhook\.office\.com/webhookb2)/)(?!\[secret\])[^\s\"'<>]+"
)
_PEM = re.compile(
    r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----)(?:\s{1,4}(?:Version|Comment|Hash|Charset|Proc-Type|DEK-Info):[^\n]{0,200}){0,8}"
    r"[A-Za-z0-9+/=\s\\]+"
)
_EMAIL = re.compile(
    r"(?<![\w.+/:@%-])(?!git@)[A-Za-z0-9][\w.+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,8}(?!so\b|dll\b|dylib\b|py\b)[A-Za-z]{2,24}(?![\w@-]|[.:/][\w/])"
)


def masked(text: str, mask: str) -> str:
    """Text with `mask` in the place of passwords, tokens and signatures, and without addresses of e-mail."""
    if "-----BEGIN" in text:
        text = _PEM.sub(rf"\1{mask}", text)
    if "@" in text:
        text = _LOGIN.sub(f"{mask}@", _URL_LOGIN.sub(f"{mask}@", text) if "/" in text else text)
        text = _EMAIL.sub(EMAIL, text)
    elif "%40" in text:
        text = _URL_LOGIN.sub(f"{mask}@", text)
    text = _TOKEN.sub(mask, text)
    if "=" in text or ":" in text or "%3" in text:
        text = _SIGNED.sub(rf"\1{mask}", text)
        text = _SESSION.sub(rf"\1{mask}", text)
        text = _HEADER.sub(lambda found: f"{found[1]}{found[2] or ''}{mask}", text)
        text = _ASSIGNED.sub(rf"\1{mask}", text)
    if "earer" in text:
        text = _BEARER.sub(rf"\1{mask}", text)
    if "/" in text:
        text = _HOOK.sub(rf"\1{mask}", text)
    for pattern in (_OPAQUE, _PIN, _PAIR, _OTHERWISE):
        text = pattern.sub(rf"\1{mask}", text)
    return _FLAG.sub(rf"\1{mask}", text) if "-" in text else text
