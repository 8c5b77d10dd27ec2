"""What a secret looks like. Loaded where a text may hold one: compiling these is no small part of a static check."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable

from envcheck.facts.secret_codes import coded
from envcheck.facts.secret_collections import collections_masked
from envcheck.facts.secret_fields import fielded
from envcheck.facts.secret_places import mapped, placed
from envcheck.facts.secret_references import INTO, TYPE, is_reference
from envcheck.facts.secret_shapes import OF_A_REQUEST, scattered, spoken, without_tails
from envcheck.facts.secret_words import FOREIGN, any_of

EMAIL = "[e-mail]"

# "https://user:pass@host", "https://token@host"; a password may hold an @ itself, and the last one counts
# Of JSON the slashes are escaped, of a query colon and slashes encoded; behind a colon that no port follows a password may hold a slash.
_URL_LOGIN = re.compile(
    r"(?:(?<=://)|(?<=:\\/\\/)|(?<=%3[Aa]//)|(?<=%3[Aa]%2[Ff]%2[Ff])|(?<=//)(?<![^\s='\"]//))"
    r"(?:[^/\s'\"]{1,300}@|(?<=://)[^/\s'\"@:]{1,80}:(?!\d{1,5}(?![^\s/,;)]))[^\s'\"@/][^\n'\"@/]{1,80}@(?=[\w-]{1,63}(?:[.:/]|\b))|[^/\s'\"\\@:]{1,80}:(?!\d{1,5}/)[^\s'\"@\\]{1,200}@|[^/\s'\"%]{1,80}%3[Aa][^/\s'\"%]{1,200}%40)"
)
# What a manual or a shell puts in a login's place
_FILLED_IN = r"(?:<[\w.-]{2,40}>|\$\{\w{2,60}\}|\{\{[\w.\x20-]{2,60}\}\})"
_TO_FILL_IN = re.compile(rf"(?:(?:{_FILLED_IN}|[\w.-]{{1,40}}):)?{_FILLED_IN}@")
# "name:password@proxy:3128", without a scheme
_LOGIN = re.compile(r"(?<![\w@/.:-])[A-Za-z][\w.-]{0,40}:[^\s'\"@/:]{4,80}@(?=[A-Za-z0-9][\w.-]{0,253}:\d{2,5}(?!\w))")
# "name:password@proxy", of a variable that names a proxy
_PROXY = re.compile(r"((?i:proxy)(?:[\"']?\s{0,8}[=:]\s{0,8}[\"']?))(?!\[secret\])[^\s'\"@/:]{1,80}:[^\s'\"@/]{1,200}@(?=\w)")
# Prefixes that the services document: Hugging Face, GitHub, GitLab, AWS, Slack, OpenAI and its like, NGC, PyPI, Google, JSON Web Tokens;
# Anthropic's begin with sk-. Then Stripe, npm, Databricks, DigitalOcean, SendGrid, Telegram, Mailgun, age, Replicate, Vault, Groq,
# LangSmith, Perplexity, xAI, Tailscale, Doppler, Shopify, Linear, Pulumi, Atlassian, Notion, Figma, Airtable, Postman, New Relic,
# Grafana, Dynatrace, RubyGems, Heroku, Fly, Supabase, PlanetScale, Buildkite, CircleCI, Sentry, Twilio, Square, Discord,
# Docker Hub, JFrog, Terraform, Azure, Bedrock, Cerebras, Together, Modal, RunPod, Fireworks, Pinecone, Alibaba; hashes of
# passwords as crypt(3) writes them. The last line is for those that nobody has listed: a short prefix, then what
# mixes small and capital letters with three digits at least.
_TOKENS = (
    *(re.compile(rf"\b(?:{kinds})") for kinds in (
        r"(?:hf|gh[opsur]|npm|gsk|r8|api_org|lin_api|dop_v1|doo_v1|dor_v1)_[A-Za-z0-9]{16,}|github_pat_\w{20,}|gl(?:pat|dt|cbt|ptt|rt|ft|imt|agent|soat)-[\w-]{16,}"
        r"|(?:AKIA|ASIA)[A-Z0-9]{16}(?:[\"']?[,:;\s]{1,3}[\"']?[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/]))?|(?:xox[abeoprs]|xapp)-[\w-]{10,}|sk-(?=[\w-]{0,200}\d)[\w-]{20,}",
        r"(?:sk|rk|whsec|pk)_(?:live|test)_\w{10,}|nvapi-[\w-]{20,}|pypi-[\w-]{16,}|AIza[\w-]{30,}|ya29\.[\w.-]{16,}|GR1348941[\w-]{16,}|dapi[0-9a-f]{32}"
        r"|SG\.[\w-]{16,}\.[\w-]{16,}|(?:bot)?\d{8,10}:AA[\w-]{30,}|key-[0-9a-f]{32}|hv[bsr]\.[\w-]{16,}",
        r"bot\d{6,10}:[\w-]{30,}|\d{6,10}:(?=[\w-]{0,40}[a-z])(?=[\w-]{0,40}[A-Z])[\w-]{33,36}(?![\w-])|1//0[\w-]{30,}|user:[0-9a-f]{32}|syt_\w{10,}|sq[apu]_[0-9a-f]{40}|SEC[0-9a-f]{64}"
        r"|AGE-(?:SECRET-KEY(?:-PQ)?|PLUGIN-[A-Z0-9]{1,20})-1[0-9A-Z]{16,}|S[ACNOUX][A-Z2-7]{56}|GOCSPX-[\w-]{16,}|ATBB[A-Za-z0-9]{24,}|cmVmdGtu[\w-]{20,}",
        r"lsv2_(?:pt|sk)_\w{16,}|(?:pplx|xai)-[A-Za-z0-9]{20,}|tskey-[\w-]{16,}|dp\.(?:st|ct|pt|sa)\.[\w.-]{16,}|shp(?:at|ca|pa|ss)_[0-9a-f]{16,}"
        r"|pul-[0-9a-f]{32,}|AT(?:ATT|CTT)3[\w=-]{16,}|eyJ[\w-]{13,}(?:\.[\w-]*){0,2}|wandb_v1_\w{16,}|local-[0-9a-f]{40}|MUNGE:[\w+/=]{8,}",
        r"(?:ntn|figd|glc|sbp|fw|rpa|napi|KGAT|rubygems|sq0[a-z]{3}|bku[a-z]|hf_oauth)[_-][A-Za-z0-9=_-]{20,}|secret_(?=\w{0,80}\d)[\w.]{32,}|pat\w{14}\.[0-9a-f]{64}"
        r"|PMAK-[0-9a-f]{24}-[0-9a-f]{34}|NR(?:AK|JS|II)-[\w-]{20,}|glsa_\w{32,}|dt0[a-z]\d{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}|HRKU-[\w-]{30,}|fm\d[ra]?_[\w+/=-]{16,}",
        r"pscale_(?:tkn|pw|oauth)_[\w.-]{32,}|CCI(?:PAT|PRJ)_\w{32,}|sntry[su]_[\w=+/-]{16,}|SK[0-9a-f]{32}|[MNO][A-Za-z0-9]{23,25}\.[\w-]{5,7}\.[\w-]{27,}"
        r"|dckr_(?:pat|oat)_[\w-]{16,}|AKC[a-z0-9][A-Za-z0-9]{60,}|\w{14}\.atlasv1\.[\w-]{60,}|\w{3}\dQ~[\w~.-]{30,}|(?:ak|as)-[A-Za-z0-9]{22}|pcsk_\w{32,}|LTAI[A-Za-z0-9]{16,}",
        rf"(?!sha\d|{OF_A_REQUEST})"
        r"[A-Za-z][A-Za-z0-9]{1,9}[_-](?=[A-Z0-9]{0,60}[a-z])(?=[a-z0-9]{0,60}[A-Z])(?=(?:[A-Za-z]{0,60}\d){3})[A-Za-z0-9]{24,}"
        r"|(?:FwoGZXIvYXdz|FQoGZXIvYXdz|IQoJb3JpZ2lu|AQoDYXdz)[\w+/=%]{16,}"  # session tokens of AWS
        r"|ABSK[A-Za-z0-9+/]{24,}={0,2}|csk-[a-z0-9]{24,}|(?:ms|pat-[a-z]{2}\d)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}\.[A-Za-z0-9]{16}(?![\w.-])|tgp_v1_[\w-]{24,}|[A-Za-z0-9]{20,60}JQQJ99[A-Za-z0-9+/]{16,40}|[A-Za-z]\w{1,20}_eyJ[\w-]{6,}(?:\.[\w-]*){0,2}",
    )),
    re.compile(r"\$(?:apr1|2[aby]?|[156y]|argon2(?:id?|d))\$[^\s:'\"]{16,}"),
)  # fmt: skip
# TOKENIZERS_PARALLELISM, max_tokens, pad_token_id and the like are none: they belong to a vocabulary.
_VOCABULARY = "(?<!pad_)(?<!eos_)(?<!bos_)(?<!unk_)(?<!sep_)(?<!cls_)(?<!mask_)(?<!tik)"
_FOREIGN = rf"{any_of(FOREIGN)}(?![长类数学库桶对环化器])"  # the length or number of keys is none
_WORDS = rf"{_VOCABULARY}token(?!iz|s|[_-](?:id|type|embed|dim|len|count|num|size|limit|budget|per|pos|prob|idx|bucket))"
_WORDS += r"|secret|(?<!/etc/)passw(?:or)?[dt]|pass_?phrase|credential|connection_?string"
_WORDS += r"|auth_?(?:tok|ident)|passkey|(?<=[a-z])[_-]phrase|unlock[_-]"
_WORDS += r"|(?:recovery|backup|scratch|licen[cs]e|grant|invite)[_-]?codes?|access_?grant"
_WORDS += r"|[_-]cookie\b|_community\b|key[\x20_]content"
_ENGLISH, _WORDS = _WORDS, rf"{_WORDS}|{_FOREIGN}"
_KEYS = (
    "(?:api|access|account|private|signing|shared|encryption|client|license|master|session|service|ssh|subscription|auth"
    "|wandb|comet|neptune|openai|anthropic|gemini|hf|ngc)"
)
# As the whole name or its last word. A PIN is one unless processes are pinned (I_MPI_PIN).
_LAST = "salt|pepper|passcode|pincode|mnemonic|jwt|otp|creds?|sas|seed_phrase|totp_seed|signature|bearer|privkey|mdp|psk|sk"
_PINNED = "(?<!mpi)(?<!cpu)(?<!gpu)(?<!omp)(?<!numa)(?<!core)(?<!thread)"
SECRET_NAME = re.compile(
    rf"(?i){_WORDS}|passw|cookie|webhook|{_KEYS}_?key|_auth$|^auth_|(^|_)(?:key|pass|pw|pwd|pat|dsn|{_LAST})$|sshpass$|fleet_job$|sess(?:ion)?_?id$"
    rf"|{_PINNED}(^|_)pin$"
)

_QUOTE = r"\\{0,3}[\"']"  # also as JSON within JSON writes it
_BLANK = r"(?:\s|\\{1,3}[nrt]|\\{1,3}(?:x1b|u001b)\[[\d;]{0,12}m)"  # also as strings write it
# "$HF_TOKEN" and "None" tell nothing, and what is masked stays as it is
_MASKED = r"\[{1,2}secret\]|\$(?![\"'])|\[?[<{*…]|\[\]|\.\.\.|\[?(?:None|none|True|true|False|false|NULL|[Nn]ull)(?![\w-])"
_CODE = r"(?:bytes|bool|Optional)\b|[a-z_]{2,30}\.[a-z_.]{2,60}\("  # types and calls, of the lines of source in a traceback
_CODE += r"|(?:sum|len|min|max|sorted|list|dict|set|tuple|str|int|next|open)\("
_BEFORE_TEXT = r"(?:0x[0-9a-f]{1,16}|ConvertTo-SecureString(?:\s-String)?)"  # of gdb, of PowerShell
_PREFIX = r"(?:[bBrRuUfF]{1,2}|\$)?"  # of a text in Python; $'…' of bash
# secretstorage==3.3.3, conda's secretstorage=3.3.3=py310_0, of a lock file ^3.3 and >=3.3
_VERSION = r"(?:\d{1,3}!)?\d{1,5}(?:\.(?:\d{1,6}|\*)){1,4}(?:[a-z.+-]{1,5}\d{1,8}){0,3}(?:\+[a-z0-9.]{1,40})?"
_PINNED_VERSION = (
    rf"(?:={{1,2}}{_VERSION}|[~^]{_VERSION}|(?:[<>]=?|[!~]=)\s?{_VERSION}(?:,\s?[<>!~=]{{1,2}}[\d.*]{{1,20}}){{0,4}}|{_VERSION}=(?:py|cuda|cpu|gpu|mkl|nompi|h[0-9a-f]{{7}})[\w.]{{0,40}}_\d{{1,4}})"
    r"(?=[\s\"'`,;:&|<>)\]}\\]|\.(?:\s|\Z)|\Z)"
)
_BELOW = r"(?:(?<=\x20{3})|(?<=\n)|(?<=\n\x20\x20)|(?<=\t))[A-Za-z_][\w-]{0,40}:[\x20\n]"  # a name of its own, on the next line
_SCHEME = r"(?:bearer|basic|token|digest|negotiate|ntlm|apikey|hawk|aws4-hmac-sha256)"

# What stands in a name, and not at its edge alone
_LAST_WORD = r"_(?:pass|pwd?|psk)\b)|_(?:KEY|PAT|PW|AUTH|DSN|SK|PSK)\b"
_NAMED = rf"(?:(?i:{_WORDS}|{_KEYS}[_-]?key|{_LAST_WORD})"
# Where programs name them, which speak English: the other words are most of what such an expression takes to compile
_PROGRAMS = rf"(?:(?i:{_ENGLISH}|{_KEYS}[_-]?key|{_LAST_WORD})"
# Between a name and its value: "=", ":", ":=", "=>", the colon of Chinese; before it the rest of ['NAME'], behind it a list of quoted texts
_GIVEN = (
    rf"(?:{_QUOTE}|&quot;)?(?:\[\d{{0,4}}\]|[\]}}?]|!(?=:))?(?:\x20?\((?:str|string|hidden|secret|required)\))?\s{{0,40}}(?::\s{{0,4}}{TYPE}\s{{0,4}}=(?=\s{{0,4}}(?:{INTO}|\[)?{_PREFIX}[\"'])|:=|=>|[:=：＝]|%3[Dd]){_BLANK}{{0,60}}(?:{INTO}(?={_PREFIX}[\"'])|\(sensitive[\w\x20]{{0,20}}\)\s->\s)?"
    rf"(?:!!?\w{{1,20}}\x20|&\w{{1,20}}\x20|[|>][+-]?{_BLANK}{{2,40}}|{_BEFORE_TEXT}\s(?=[\"']))?(?:{_PREFIX}(?:\"{{3}}|'{{3}}){_BLANK}{{0,4}}|{_PREFIX}{_QUOTE}(?:[\"']{{2,3}}(?=[^\s\"']{{4}}))?|&(?:quot|\#39);|\[\s?{_QUOTE}(?=[^\s\"']{{0,80}}\d))?"
)
# "?access_token=…", "&api_key=…", "password=…", "HF_TOKEN: …", "DB_PWD=…", "'password': b'…'". In quotes it may be of several words.
# What begins in Chinese, Japanese or Korean is a sentence: they are typed by means of a list to choose from, which no password field has.
# What stands for a masked one is no name of what stands on the next line.
_ASSIGNED = re.compile(
    rf"((?:(?!(?<=\[)secret\]:\n){_NAMED}|(?<![\w-])(?:_auth|pass(?=\s?=\s?(?!(?i:true|false|none|\d{{1,6}})\b))|psk(?==)|(?i:bindpw)|(?<=[\"'])(?:pw|psw|pass)(?=[\"']\s{{0,4}}:\s{{0,4}}[\"']))\b"
    rf"|(?<![\w-])(?:pwd(?=[\"']?\s{{0,4}}[=:]\s{{0,4}}(?:[\"'](?![/~.])|\w))|PW(?==)|(?!BY|COM|SUR|TRES)[A-Z]{{2,8}}PASS(?==))"
    rf"|(?<![\w-])(?:PASS(?==(?!\d{{1,9}}\b))|SAMLResponse"
    rf"|auth(?==\s?[\"'](?=[^\s\"']{{0,80}}\d)[^\s\"']{{8}}))"
    rf"|(?<![A-Za-z0-9])(?:(?i:salt|passcode|clave|senha|mdp)"
    rf"|PEPPER|PINCODE|MNEMONIC|JWT|OTP|CREDS?|SAS|SEED_PHRASE|TOTP_SEED|SSHPASS|MIMA|FLEET_JOB(?!=NAME\b))\b"
    rf")[\w-]{{0,80}}{_GIVEN})(?!=?(?:{_MASKED})|{_PINNED_VERSION}|[?+][^\s{{}}]{{0,80}}\}}|{_BELOW}|{INTO}{_PREFIX}[\"']|\((?:sensitive|hidden|redacted|not\sset|known\safter)|(?:desc|value):|!!?\w|{_CODE}|{_BEFORE_TEXT}\s[\"']|[\u3040-\u9fff\uac00-\ud7af])"
    r"((?<=[^\\]\")[^\s),\]}\"\\](?:[^\"\n\\]|\\[\"\\;:,&$!@#%']){3,400}|(?<=\")[^\s),\]}\"\\][^\"\n\\]{3,400}|(?<=')[^\s),\]}'\\][^'\n\\]{3,400}|[^\s\"'&,;，；。、\\]{4,})"
    r"(?:(?<=\w)[\"'],\s{0,8}[\"'][^\s\"',\]]{4,400}(?=[\"'][,\]])){0,40}(?:[\"']\s{1,4}[-=]>\s{1,4}[\"'](?!\[secret\])[^\s\"']{4,400})?"
)
# A name here and its value there: <password>…</password>, {"name": "HF_TOKEN", "value": "…"}, ("password", "…"), `setenv HF_TOKEN …`
_APART = re.compile(
    rf"({_NAMED}[\w-]{{0,60}}(?:`?\s{{0,40}}[|│]\s{{0,40}}`?(?!`)(?=[^\s|│]{{4,200}}\s{{0,80}}[|│])(?!\d{{1,5}}(?:\.\d{{1,6}}){{1,3}}\s)|\s\.{{3,90}}\s|\"(?:\r?\n){{2}}"
    rf"|:{_BLANK}{{1,40}}(?:desc:\s\w{{1,20}}{_BLANK}{{1,40}})?value:\s|\n[^\n]{{0,200}}\binput_value=[\"']|</t[dh]>\s{{0,40}}<td[^<>]{{0,80}}>(?!\d{{1,12}}<))"
    rf"|\b(?:proxy_set_header|add_header)\s{{1,8}}[\w-]{{0,40}}{_NAMED}[\w-]{{0,40}}\s{{1,8}}[\"']?"
    rf"|<(?![A-Z_]{{2,60}}>\s{{0,4}}\n(?:[^<\n]|<(?!/)){{0,200}}(?:\n|\Z))[\w:.-]{{0,40}}{_NAMED}[\w-]{{0,40}}>(?!@)(?:\s{{0,4}}\n\s{{0,40}})?(?:<!\[CDATA\[|\{{(?=[\w+/]{{8,400}}={{0,2}}\}}))?"
    rf"|<name>[\w.-]{{0,80}}(?:{_PROGRAMS}|\.key)[\w.-]{{0,60}}</name>\s{{0,40}}<value>"
    rf"|(?:(?:ipdb|\((?:Pdb\+*|gdb)\)|>>)>?|In\s\[\d{{1,5}}\]:)\s(?:pp?\s|print\(|!)?[\w.]{{0,60}}(?:[\[(][\"'][\w.]{{0,60}})?{_PROGRAMS}[\w.]{{0,40}}[\"')\]]{{0,4}}\n(?:Out\[\d{{1,5}}\]:\s|\$\d{{1,4}}\s=\s(?:0x[0-9a-f]{{1,16}}\s)?)?(?!0x)[\"']?"
    rf"|\b[A-Z][A-Z0-9_]{{0,60}}_(?:TOKEN|SECRET|PASSWORD|PASSWD)\s{{1,4}}(?=[^\s\"']{{0,80}}\d)(?=[^\s\"']{{0,80}}[A-Za-z])(?=[^\s\"']{{8}})"
    rf"|\b[A-Z][A-Z0-9_]{{0,60}}_(?:TOKEN|SECRET|PASSWORD|PASSWD|KEY)\x20{{5,60}}(?=[^\s:,'\"]{{8,400}}(?:[:,'\"]|\x20{{0,200}}(?:\n|\Z)))"
    rf"|\b[Ee]nv:[\w-]{{0,60}}{_PROGRAMS}[\w-]{{0,60}}[\"']?\x20{{1,4}}(?:-Value\x20{{1,4}})?(?!-)[\"']?"
    rf"|(?i:name|key|variable)(?:{_QUOTE})?\s{{0,8}}[=:]\s{{0,8}}(?:{_QUOTE})?[\w.-]{{0,60}}{_PROGRAMS}[\w-]{{0,60}}(?:{_QUOTE})?"
    rf"(?:\s{{0,8}},{_BLANK}{{0,20}}|{_BLANK}{{1,20}})(?:{_QUOTE})?(?i:value)(?:{_QUOTE})?\s{{0,8}}[=:]\s{{0,8}}(?:{_QUOTE})?"
    rf"|(?<![^\n])[\w.-]{{0,60}}{_PROGRAMS}[\w-]{{0,40}}:?\n(?=\w[^\s/.]{{7,80}}(?![^\n]))(?=\S{{0,80}}\d)(?=\S{{0,80}}[A-Za-z])|\bauth-user-pass>?\n[^\n]{{1,80}}\n"
    rf"|(?i:\b(?:user(?:name)?|login)\s?[:=]\s{{0,8}}[^\s:]{{1,80}}\r?\n[\x20\t]{{0,40}}pass)\s?[:=]\s{{0,8}}[\"']?"
    rf"|[\"'][\w.-]{{0,60}}{_NAMED}[\w-]{{0,60}}[\"'],\s{{0,8}}b?[\"'](?=[^\s\"']{{0,80}}\d)(?=[^\s\"']{{8}})"
    rf"|\bvariable\s{{1,4}}\"[\w-]{{0,60}}{_PROGRAMS}[\w-]{{0,60}}\"\s{{0,4}}\{{[^}}\"]{{0,200}}default\s{{0,4}}=\s{{0,4}}\""
    rf"|\b(?:setenv|setx|ENV(?=\s{{1,8}}(?:\S{{1,120}}\s{{1,8}}\S{{0,80}}\d|\w{{1,80}}_(?:TOKEN|SECRET|PASSWORD|KEY)\s))|set\s-\w{{1,4}}"
    rf"|config(?:ure)?\s{{1,8}}(?:set\s{{1,8}}|add\s{{1,8}}|--\w{{1,12}}\s{{1,8}})?|remote\s{{1,4}}modify\s{{1,8}}(?:--\w{{1,12}}\s{{1,8}})?\S{{1,80}})"
    rf"\s{{0,8}}[\w./:@-]{{0,100}}{_NAMED}[\w-]{{0,60}}\s{{1,8}}[\"']?)"
    rf"(?!{_MASKED})[^\s\"'<>,;\\]{{4,400}}(?<!`)"
)
# "password for me: …", "your password is …", "user me password …", "IDENTIFIED BY '…'": what has a digit at least is no English word
_SAID = re.compile(
    rf"((?i:passw(?:or)?[dt]|passphrase|api[\x20_-]?key|{_FOREIGN})(?:\x20\S{{1,40}}){{0,3}}?(?:\x20(?:is|was|lautet|ist)\b:?|:|\x20?[是为為])\s{{1,4}}[\"']?"
    rf"|(?i:passw(?:or)?[dt])\s{{1,8}}[\"']?|(?i:identified\s{{1,4}}by\s{{1,4}}|password\s{{1,4}})(?=['\"])['\"])"
    rf"(?!{_MASKED})(?=[^\s\"']{{0,80}}\d)(?=[^\s\"']{{0,80}}[^\W\d])[^\s\"';,，；。、]{{6,}}"
)
# "my password is hunter.", "密码是 hunter", "user bob, password hunter": a word without a digit, unless it is what people say of passwords
_SAID_OF_ONE = (
    r"(?!(?i:(?:wrong|incorr|inval|required|need|expire|empty|missing|unknown|stored|correct|asked|blank|hidden|weak|never|always|also|still|only"
    r"|kept|sent|read|used|known|given|there|that|what|same|the|not|too|longer|shorter|visible|valid|safe|mandatory|optional|case|ok\b|okay|fine|set"
    r"|falsch|ung[uü]ltig|nicht|leer|n[oö]tig|erforder|err[oó]n|vac[ií]|requ[ei]|errad|obligat|nul|default|plain|public|private|protect)\w{0,40}"
    r"|\w{1,30}(?:ed|ing|ly))(?![^\s.,:;!?)]))"
)
_TOLD = re.compile(
    rf"((?:(?i:\b(?:password|passwort|passphrase|passcode|pw|pwd|contraseña|senha|mot\sde\spasse)(?:\sfor\s\S{{1,40}})?\s(?:is|was|ist|war|es|est|é)\b:?\s{{1,4}})"
    rf"|(?:密码|密碼|口令|パスワード|비밀번호)\s?(?:[是为為は는]|[:：])\s{{0,4}}|(?i:\bmy\s(?:api[\x20_-]?key|token|secret)\sis:?\s{{1,4}})(?=\S{{8}})|(?i:\b(?:my|root|admin|user)\spw:\s{{1,4}})(?!\d)"
    rf"|(?i:\buser(?:name)?:?\s(?!(?:or|and|nor|is)\b)\S{{1,40}}(?:\s|[,;/]\s)(?:and\s|with\s)?password\s))[\"'`]?){_SAID_OF_ONE}(?!{_MASKED})"
    r"[A-Za-z][\x21\x23-\x26\x2a\x2b\x2d-\x3a\x3c-\x5f\x61-\x7e]{2,60}[A-Za-z0-9!#$%&*+=?^~](?=[\"'`.,:;!?)]{0,4}(?:\s|\Z))(?!\x20(?:to|for|of|in|on|at|by|than|when|if|because|from)\b)"
)
# Hex digits behind a word that says what they are: keys of Weights & Biases, GitHub's tokens from before 2021. Commits have none
_HEX = re.compile(
    r"((?<![\w.])(?i:wandb|oauth|token|secret|auth|password|(?:\w{1,40}_)?(?<!cache[\x20_-])(?<!(?:hash|sort)[\x20_-])(?<!build[\x20_-])key)[\"']?(?:\s(?:is|was)\b|\s[\w-]{1,20}\.[\w.-]{1,40})?\s{0,4}[=:(]?\s{0,4}[\"']?"
    r"|(?i:\blogin\([\"']|\b(?:api[\x20_-]?key|access\stoken)\b[^\n]{0,80}:\s{1,4}))"
    r"(?:[0-9a-f]{40}|[0-9a-f]{32}|[0-9a-f]{64})(?![\w-])"
)
# "host:port:database:user:…" of .pgpass, unless it is a place in a source file
_PGPASS = re.compile(
    r"((?<![^\s\"'`(])(?!\S{1,200}\.(?:py|cc?|cpp|cuh?|hp?p?|go|rs|js|ts):)(?:[A-Za-z][\w.-]{0,200}|\*):(?:\d{4,5}|\*):[^\s:/]{1,80}"
    r":(?!(?i:error|warn|info|debug|note))(?=[^\s:]{0,79}[g-z])[^\s:/]{1,80}:)(?!\[secret\])(?:[^\s:\"'`\\]|\\{1,3}[^\s\\]){4,200}(?![\w/@-])"
)
# "#HttpOnly_.host  TRUE  /  TRUE  1799999999  token  …": a line of a jar of cookies
_TAB = r"(?:\\{1,3}t|\s{1,8})"  # as blanks, too, and as strings write it
_JAR = re.compile(
    rf"({_TAB}(?:TRUE|FALSE){_TAB}[^\s\\]{{1,200}}{_TAB}(?:TRUE|FALSE){_TAB}\d{{1,12}}{_TAB}[^\s\\]{{1,200}}{_TAB})(?!\[secret\])[^\s\\\"']{{4,}}"
)
# "echo … | sudo -S", "| docker login --password-stdin", "| chpasswd"
_PIPED = re.compile(
    rf"(\b(?:echo\s{{1,8}}(?:-[neE]{{1,3}}\s{{1,8}})?|printf\s{{1,8}}(?:[\"']?%s(?:\\n)?[\"']?\s{{1,8}})?)[\"']?)(?!{_MASKED})(?:(?<=')[^'\n]{{3,200}}|(?<=\")[^\"\n]{{3,200}}|[^\s\"'|]{{3,200}})"
    r"(?=[\"']?\s{0,8}\|\s{0,8}(?:\w{1,12}\s{1,4}){0,2}(?:sudo\s{1,4}-\w{0,4}S|chpasswd|kinit|base64|cryptsetup|openssl|gpg|passwd|htpasswd|[^\n|;&]{0,120}-(?:stdin|token)\b))"
)
# "tokens:" with a list of them below, "tokens=['…']". Words of a vocabulary may end in digits, and have none in their midst.
_ITEM = r"(?=[^\s\"']{0,80}\d)[^\s\"'<>,:\\\[\]]{8,400}"
_LISTED = re.compile(
    rf"({_NAMED}[\w-]{{0,40}}(?:{_QUOTE})?\s{{0,4}}:[\x20\t]{{0,8}})"
    rf"(?:(?:\n|\\{{1,3}}n)(?:\[[^\]\n]{{1,40}}\]:?\s)?[\x20\t]{{0,40}}-[\x20\t]{{1,8}}(?:{_QUOTE})?{_ITEM}(?:{_QUOTE})?){{1,40}}"
    rf"|((?<!special_)(?i:tokens)(?:{_QUOTE})?\s{{0,4}}[:=]\s{{0,4}})"
    rf"(?:(?:\[|,|(?:\n|\\{{1,3}}n)(?:\[[^\]\n]{{1,40}}\]:?\s)?[\x20\t]{{0,40}}-)\s{{0,8}}(?:{_QUOTE})?"
    rf"(?:(?=[\w+/=.~-]{{8}})(?=[A-Za-z_-]{{1,20}}\d{{1,10}}[A-Za-z])|(?=[\w+/=.~-]{{12}}))(?=[^\s\"']{{0,80}}(?:\d[^\s\"']{{0,80}}[A-Za-z]|[a-z][A-Z])){_ITEM}(?:{_QUOTE})?){{1,40}}"
)
# "sudo -S … <<< secret", "docker login --password-stdin <<EOF" and the line below
_HERE = re.compile(
    r"(\b(?:sudo\s{1,4}-\w{0,4}S|chpasswd|kinit|passwd|cryptsetup|gpg|openssl|login|stdin|base64|su)\b[^\n|;&<]{0,160}"
    rf"(?:<<<\s{{0,4}}|<<-?\s?[\"']?\w{{1,20}}[\"']?(?:\n|\\{{1,3}}n)))(?!\"?(?:{_MASKED}))(?:'[^'\n]{{3,200}}'|\"[^\"\n]{{3,200}}\"|[^\s\"'\\]{{4,}})"
)
# "chpasswd <<EOF" and the lines below
_ACCOUNTS = re.compile(r"\b(?:chpasswd|newusers|smbpasswd|htpasswd)\b[^\n|;&<]{0,160}<<-?\s?[\"']?(\w{1,20})[\"']?\n")
_ACCOUNT = re.compile(r"(?<=:)(?!\[secret\])[^\s:][^\n]{0,200}")
# `expect "password:"; send "…\r"`: one word and the key that ends it
_SENT = re.compile(
    r"(\bsend(?:_user)?\s{1,4}(?:--\s{1,4})?[\"'])(?!\[secret\]|(?:yes|no|exit|quit|logout)\\)[^\s\"'\\$]{4,200}(?=(?:\\{1,3}[rn]|[\r\n])[\"'])"
)
# set_password("service", "name", "…"), put("password", "…"), getpass() = "…", Credentials("realm", "name", "…"), ConvertTo-SecureString "…"
_CALLED = re.compile(
    rf"(\b(?i:set|put|define)\w{{0,30}}\(\s{{0,8}}b?[\"'][\w.-]{{0,60}}{_NAMED}[\w-]{{0,60}}[\"'],\s{{0,8}}b?[\"']"
    r"|\b(?i:(?:set|with|use|save|store)_?(?:password|token|secret|api_?key|auth_?token))\(\s{0,8}(?:[\"'][^\"'\n]{0,80}[\"'],\s{0,8}){0,3}b?[\"']"
    r"|\bget_?pass(?:word)?\([^)\n]{0,120}\)\s{0,4}(?:->|=|:)\s{0,4}[\"']"
    r"|\b(?:Credentials?|PSCredential|UsernamePassword\w{0,20})\(\s{0,8}(?:[\"'][^\"'\n]{0,80}[\"'],\s{0,8}){1,4}[\"'](?=[^\"'\n]{4,200}[\"']\s{0,8}\))"
    r"|\b(?:hmac\.new|Fernet|(?i:api_?key|api_?token|auth_?token|password|secret_?key))\(\s{0,8}b?[\"'](?=[^\s\"']{0,80}\d)"
    r"|\bConvertTo-SecureString\s{1,8}(?:-String\s{1,8})?[\"']"
    rf"|#define\s{{1,8}}\w{{0,60}}{_PROGRAMS}\w{{0,60}}\s{{1,40}}\"|\b(?:PASSWORD|SECRET|PSK|IDENTIFIED\sBY)(?:\s{{1,4}}|\()(?=['\"])['\"]"
    r"|\b(?:secret|password)\s{1,4}(?=[\"'][^\"'\n]{4,200}[\"']\s?;)[\"'])"
    rf"(?!{_MASKED})(?:(?<=')[^'\n]{{4,200}}|(?<=\")[^\"\n]{{4,200}})"
)
# curl -u "name:…" of several words
_LOGIN_QUOTED = re.compile(
    r"((?<![\w-])(?:-[uUa]|--(?:proxy-)?(?:user|auth))[=\s]\s{0,4}(?:'[^\s:']{1,80}:(?=[^'\n]{4,200}')|\"[^\s:\"]{1,80}:(?=[^\"\n]{4,200}\")))"
    r"(?!\[secret\]|\$|\d{1,6}[\"'])[^\"'\n]{4,200}"
)
# The signature of a licence: SIGN="05E0 A7EE …"
_SIGNATURE = re.compile(r"(\b(?:SIGN\d?|SIGNATURE)=\"?)(?:[0-9A-Fa-f]{4}\x20?){3,200}[0-9A-Fa-f]{0,3}")
# A text of its own between quotation marks, long, of small and capital letters with five digits at least; {…=} of Maven; (d #…#) of GnuPG
_LONE = re.compile(
    r"(?<=[\"'])(?=[A-Z0-9]{0,60}[a-z])(?=[a-z0-9]{0,60}[A-Z])(?=(?:[A-Za-z]{0,40}\d){5})[A-Za-z0-9]{32,200}(?=[\"'])"
    r"|(?<=\{)(?=[A-Za-z+/]{0,60}\d)[A-Za-z0-9+/]{20,400}={1,2}(?=\})|(?<=\([dpqu] #)[0-9A-F]{16,8000}(?=#\))"
)
# The only argument of a call, which `_random` judges
_ARGUMENT = re.compile(r"(?<=\w\([\"'])[A-Za-z0-9]{20,200}(?=[\"']\))")
# The values of a Secret of Kubernetes, which kubectl writes before they are called one
_SECRET = re.compile(r"\bkind[\"']?:\s{0,4}[\"']?Secret\b")
_MANIFEST = re.compile(
    r"\b(?:stringD|d)ata:[\x20\t]{0,8}(?:\n[^\n:]{0,40}[\x20\t]{2,40}[\w.-]{1,120}:[^\n]{0,8000}){1,40}"
    r"|\b(?:stringD|d)ata[\"']\s{0,4}:\s{0,8}\{[^{}]{1,8000}\}"
)
_ENTRY = re.compile(
    r"((?<=\n)[^\n:]{0,40}[\x20\t]{2,40}[\w.-]{1,120}:[\x20\t]{1,8})(?!\[secret\])(?!(?:meta|string)?[dD]ata:)[^\s#][^\n]{3,8000}"
    r"|((?<=[{,\s])[\"'][\w.-]{1,120}[\"']\s{0,4}:\s{0,4}[\"'])(?!\[secret\])[^\"'\n]{4,8000}"
)
# A private key without its first line: the bytes that every such key begins with
_KEY_BEGINS = re.compile(
    r"(?<![\w+/])(?:MII[\w+/]{3}(?:IBAAK|IBADAN|AgEAAo)|MHcCAQEE|MIG[Hk]AgE|MC4CAQAwBQYDK2Vw|b3BlbnNzaC1rZXktdj)[\w+/=]{8,200}"
    r"(?:(?:\s{1,4}|\\{1,3}n)(?:\[[^\]\n]{1,40}\]:?\s)?[\w+/=]{16,100}){0,100}"
)
_KEY_ENDS = re.compile(r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY")
_KEY_LINE = re.compile(r"([^\n]{0,200}[\s:\"'])?[\w+/=]{16,100}\s{0,2}")
_TITLE = r"[\w\"'][\w\"' .-]{0,39}"
# A line of headings, one that is named after a secret, and what may be one below it
_HEADINGS = re.compile(
    rf"[^\n,;\t]{{0,100}}(?:{'|'.join(rf'(?:{apart}{_TITLE}){{1,40}}' for apart in (',', ';', chr(9), '[|][ ]{0,40}'))}"
    r"|(?<![^\n])\w[\w./-]{0,30}(?:\x20{2,60}[A-Za-z][\w./-]{0,30}(?:\x20[\w./-]{1,30})?){1,20})[^\w\n]{0,40}"
)
_APART_BY = {sign: re.compile(f"({by})") for sign, by in (("|", "[|]"), (",", ","), (";", ";"), ("\t", "\t"), ("  ", " {2,60}"))}
_HEADING = re.compile(rf"{_NAMED}|(?i:^\s*[\"']?(?:pass|pwd?|psw|psk|pin|mdp|clave)\b)")
_CELL = re.compile(r"^([^\n]{0,60}: |\s{0,40}[\"'`]?)(?=[^\s\"']{0,80}\d)(?=[^\s\"']{0,80}[A-Za-z])(?!\[)[^\s\"']{8,400}")
# Base64 of a text that holds a secret
_BLOB = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/]{24,8000}={0,2}(?![\w+/=-])")
# Headers of HTTP: after the scheme what stands there, with the parameters of Digest or a cookie's further pairs
_HEADER = re.compile(
    rf"((?<![\w-])(?i:(?:proxy-)?authorization|(?:set-)?cookie|x-[\w-]{{0,40}}(?:key|token|auth|api))(?:{_QUOTE})?\s{{0,8}}[=:]\s{{0,8}}"
    rf"(?:{_QUOTE})?)((?:(?i:{_SCHEME})|[A-Z][A-Za-z]{{1,20}}(?=\s{{1,8}}[\w.~+/=-]{{0,80}}\d))\s{{1,8}})?"
    rf"(?!(?:(?:(?i:{_SCHEME})|[A-Z][A-Za-z]{{1,20}})\s{{1,8}})?(?:{_MASKED}))"
    r"(?:[\w-]{1,40}=\"[^\"\n]{0,400}\"|[^\s\"',;\\]{4,})(?:[;,]\s{0,8}[\w.-]{1,80}=(?:\"[^\"\n]{0,400}\"|[^\s\"',;\\]{0,400})){0,40}"
)
# {"username": "x", "key": "…"} of Kaggle, {"auth": "…"} of Docker, `wandb login …`: a name that says little, and a value that says it all
_OPAQUE = re.compile(
    rf"((?<![A-Za-z0-9])(?:(?<!cache[\x20_-])(?<!(?:hash|sort)[\x20_-])(?<!build[\x20_-])key(?:{_QUOTE})?\s{{0,8}}[:=\s]\s{{0,8}}(?:{_QUOTE})?|(?i:token)\s{{1,4}}|login(?:=|\s{{1,8}}(?:--[\w-]{{1,40}}(?:=\S{{1,200}})?\s{{1,8}}){{0,4}}))(?=[0-9a-f]{{32}})"
    rf"|\blogin\s{{1,8}}(?=\d{{16}}\b)|(?i:(?:unseal|recovery)\skey)(?:\s\d{{1,2}})?:\s{{1,4}}"
    rf"|{_QUOTE}auth{_QUOTE}\s{{0,8}}:\s{{0,8}}{_QUOTE}(?=[\w+/=-]{{12}}))[\w+/=-]+"
)
# "--password x", "--hf-token x", "'--api-key', 'x'": the value is a word of its own
_FLAG = re.compile(
    rf"((?<![\w-])--?[\w.-]{{0,40}}(?:{_WORDS}|credentials|bearer|{_KEYS}-?key|pwd|storepass|keypass|(?<=-)(?:pass|pw|key)(?=[=\s]\s{{0,8}}[\"']?(?=[^\s\"']{{8}})[^\s\"'\d]{{1,80}}\d))(?:-(?:string|value|text))?(?:(?:=|\s{{1,8}}(?:\\\s{{1,8}})?)(?:\$?[\"'])?|[\"'],\s{{0,8}}[\"']))"
    rf"(?!{_MASKED}|-|\\\s)([^\s\"']+)",
    re.IGNORECASE,
)
# Flags that mean a password in these programs alone: `docker login -p`, `sshpass -p`, `mysql -p…`, `curl -u name:…`; a line of .netrc;
# a connection string of ODBC, whose PWD is no folder
_SPAN = r"\b[^\n|;&]{0,200}?\s"
_OTHERWISE = re.compile(
    rf"(\bsshpass\s{{1,8}}-p\s{{0,8}}|\blogin{_SPAN}-p(?:=|\s{{1,8}})|\b(?:mysql\w{{0,20}}|mariadb|mongo\w{{0,12}}|7z[ar]?){_SPAN}-p\s{{0,8}}"
    rf"|\bcurl{_SPAN}(?:-[A-Za-z]{{0,6}}[uU]\s{{0,8}}|(?:--user|--proxy-user)(?:=|\s{{1,8}}))[\"']?[^\s:\"']{{1,80}}:"
    rf"|\bhttps?\s(?:[^\n|;&]{{0,80}}?\s)??(?:-a|--auth)[=\s]\s{{0,8}}[\"']?[^\s:\"']{{1,80}}:|--(?:(?:[\w-]{{1,20}}-)?creds|auth)[=\s]\s{{0,8}}[^\s:\"']{{1,80}}:"
    rf"|\bcurl{_SPAN}(?:--pass\s{{1,8}}|(?:-E|--cert)[=\s]\s{{0,8}}[^\s:]{{1,200}}:)|\b(?:requirepass|masterauth)\s{{1,8}}"
    rf"|\b(?:cqlsh|psexec\w{{0,4}}|ipmi-\w{{1,12}}|publish|hdbsql|isql|n?cftp\w{{0,4}}|rdesktop|racadm|ilorest|impacket-\w{{1,20}}){_SPAN}-p[=\s]\s{{0,8}}"
    rf"|\b(?:plink|pscp|psftp|putty)(?:\.exe)?{_SPAN}-pw\s{{1,8}}|\bConvertTo-SecureString\s{{1,8}}(?:-String\s{{1,8}})?(?![-$\"'(])"
    rf"|\bhttps?\s(?:[^\n|;&]{{0,80}}?\s)??-A\s{{1,4}}bearer\s{{1,8}}(?:-a|--auth)[=\s]\s{{0,8}}"
    rf"|\bssh-keygen{_SPAN}-[NP]\s{{1,8}}|\s/pass(?:word)?:|\boathtool\s(?:-[\w-]{{1,20}}\s{{1,4}}){{0,6}}(?!-)|\bunseal\s{{1,8}}(?!-)"
    rf"|\bhttp-basic\.\S{{1,80}}\s{{1,4}}\S{{1,80}}\s{{1,4}}|\bpypi-token\.\S{{1,80}}\s{{1,4}}|\brclone\s{{1,4}}(?:obscure\s{{1,4}}|config{_SPAN}(?:pass|token|key|\w{{0,20}}secret\w{{0,20}})[=\s])"
    rf"|\bkeyvault\ssecret\sset{_SPAN}--value[=\s]\s{{0,8}}|\bput-parameter\b(?=[^\n]{{0,400}}SecureString)[^\n|;&]{{0,200}}?\s--value[=\s]\s{{0,8}}"
    rf"|\bvastai\s{{1,4}}set\s{{1,4}}api-key\s{{1,8}}|\bossutil\w{{0,4}}{_SPAN}-k\s{{1,8}}"
    rf"|\bactivate-refresh-token\s{{1,4}}\S{{1,80}}\s{{1,4}}|\bkaggle{_SPAN}-n\s{{1,4}}key\s{{1,4}}-v\s{{1,4}}|\baddauth\s{{1,4}}digest\s{{1,4}}[^\s:]{{1,80}}:"
    rf"|_USER(?:NAME)?=[A-Za-z][^\s:=\"']{{0,80}}:(?!//)|\bAUTH\s(?:PLAIN|default|LOGIN)\s|(?:\bUSER\s\S{{1,80}}\s{{1,4}}(?:[^\n]{{0,200}}\n){{0,2}}[^\n]{{0,40}}?|\b331[\x20-][^\n]{{0,200}}\n[^\n]{{0,40}}?|>\s|\*cmd\*\s[\"'])\bPASS\s|(?<![\w.-])\w\d{{1,4}}\sLOGIN\s\S{{1,80}}\s"
    rf"|(?i:nickserv)\s{{1,4}}(?i:identify)\s{{1,4}}|:\*:[^\s:]{{1,80}}:[^\s:]{{1,80}}:"
    rf"|\bcurl{_SPAN}(?:-b|--cookie)\s{{1,8}}[\"']?[\w.-]{{1,80}}=|\bredis-cli{_SPAN}(?:-a|--pass)\s{{1,8}}|\blftp{_SPAN}-u\s{{1,8}}[^\s,]{{1,80}},"
    rf"|\bldap\w{{1,12}}{_SPAN}-w\s{{0,8}}|\bopenssl{_SPAN}-[kK]\s{{1,8}}|\bsmb\w{{1,12}}{_SPAN}-U\s{{0,8}}[^\s%]{{1,80}}%"
    rf"|\b(?:un)?zip{_SPAN}-P\s{{0,8}}|\bipmitool{_SPAN}-P\s{{1,8}}|\bsnmp\w{{1,12}}{_SPAN}-[cAX]\s{{1,8}}|\bobsutil{_SPAN}-k="
    rf"|\b(?:users?|accounts?)\s(?:create|add){_SPAN}-p[=\s]\s{{0,8}}"
    rf"|\bswanlab\s{{1,8}}login{_SPAN}(?:-k|--api-key)[=\s]\s{{0,8}}|\bbindpw\s{{1,8}}|\btwine{_SPAN}-p\s{{1,8}}|\bvault\s{{1,8}}login\s{{1,8}}(?!-)|\betcdctl{_SPAN}--user[=\s][^\s:]{{1,80}}:"
    rf"|\bmosquitto\w{{1,8}}{_SPAN}-P\s{{1,8}}|--from-literal[=\s][^\s=]{{1,80}}=|\b(?:thin:|sqlplus\s)[^\s/@]{{1,80}}/"
    rf"|\balias\s{{1,4}}set\s{{1,4}}(?:\S{{1,200}}\s{{1,4}}){{3}}|\bxfreerdp{_SPAN}/p:|\bsqlcmd{_SPAN}-P\s{{0,8}}|\bwpa_passphrase\s{{1,4}}\S{{1,40}}\s{{1,4}}"
    rf"|\buser(?:add|mod){_SPAN}-p\s{{1,8}}|\bnet\s{{1,4}}use\s(?:[^\n|;&]{{0,200}}?\s(?=[^\s/\\]\S{{0,200}}\x20{{1,4}}/user:)|(?:[^\n|;&\[]{{0,200}}?\s)?/user:\S{{1,80}}\x20{{1,4}})|--basic-auth[=\s]\s{{0,8}}[^\s:]{{1,80}}:|\bwandb\.login\(\s{{0,4}}key="
    r"|-pass(?:in|out)?\s{1,8}pass:|--auth=|:5432:[^\s:]{1,80}:[^\s:]{1,80}:"
    rf"|\blogin\s{{1,8}}\S{{1,80}}\s{{1,8}}(?:account\s{{1,8}}\S{{1,80}}\s{{1,8}})?password\s{{1,8}}|;\s{{0,8}}(?i:pwd)=(?![/~]))(?!{_MASKED})"
    r"(?:'[^'\n]{3,200}'|\"[^\"\n]{3,200}\"|[^\s\"';]{4,})"
)
# Digits alone: CARD_PIN=4711, --pin 4711
_PIN = re.compile(
    rf"((?<![A-Za-z0-9])PIN(?:{_QUOTE})?\s{{0,8}}[=:]\s{{0,8}}(?:{_QUOTE})?|(?<![\w-])--(?:pin|t?otp)[=\s]{{1,8}}|[\"']pin[\"']:\s{{0,4}}[\"']?|\b(?:PIN|OTP|TAN|(?i:one[\x20-]time\x20pass(?:word|code)))(?:\x20[a-z-]{{1,20}}){{0,5}}?\x20(?:is|was|lautet|ist|es|est)\b:?\x20)\d{{4,12}}(?![\w.-])"
)
# "verification code: 482913", "user code: WDJB-MJHT"; the words of a seed phrase, and of an app's password
_ITEM_NUMBER = r"(?:(?:[-*•]|\d{1,2}[.):])\x20{0,2})?"  # what stands before one of a list
_SEED = (
    r"(?!(?:the|and|for|not|you|are|was|has|with|from|this|that|your|must|please|try|enter|use|again"
    r"|when|will|can|could|only|file|line|wrong|error|failed|invalid|cannot)\b)[a-z]{3,12}"
)
_CODES = re.compile(
    r"((?i:\b(?:verification|security|one-?time|otp|2fa|mfa|backup|recovery|scratch|emergency|unlock|access|reset|login|invite|device|user|pairing|activation)[\x20_-](?:pass)?codes?)"
    r"(?:[\"']?\s?[:=]|\x20\([^()\n]{0,80}\):|\x20[^\n:]{1,80}:(?=\x20{0,4}\n)|\s(?:is|are):?)?[\s\"'\[(]{1,12}"
    rf"{_ITEM_NUMBER})"
    r"(?:(?:\d{6,10}|\d{3}\x20\d{3}(?!\x20?\d)|(?=[A-Za-z-]{0,40}\d|[A-Z-]{7})[A-Za-z0-9]{3,8}(?:-[A-Za-z0-9]{3,8}){1,6})(?![\w.-])"
    rf"(?:[\s,\"']{{1,12}}{_ITEM_NUMBER})?){{1,20}}"
    r"|((?i:\b(?:seed|recovery|backup|mnemonic|wallet|secret)[\x20_-]phrase|\bmnemonic|\bapp[\x20_-]password|\bpass_?phrase)(?:[\"']?(?:\s(?:is|was|:|reads))?\s{0,4}(?:[:=]|->|→)?\s{0,4}(?:[\"']|1[.):]\x20?)?|[^\n:.]{0,60}:[\s\"']{1,8}(?=[a-z]{3,12}\x20[a-z]{3,12}\x20[a-z]{3,12}\x20[a-z])))"
    rf"(?:{_SEED}"
    r"(?:[\x20,]{1,2}|\s{1,4}\d{1,2}[.):]\x20?)){2,23}[a-z]{3,12}"
)
# What a session is known by: JSESSIONID, PHPSESSID, connect.sid
_SESSION = re.compile(
    rf"((?<![\w.])(?i:[\w.]{{0,30}}(?:session_?id|sessid|csrf_?token|sid))(?:{_QUOTE})?\s{{0,8}}[=:]\s{{0,8}}(?:{_QUOTE})?)"
    r"(?=[\w+/=%.-]{0,60}\d)[\w+/=%.-]{12,}"
)
# auth=("name", "…"), HTTPBasicAuth("name", "…")
_PAIR = re.compile(
    rf"((?i:auth|login)(?:{_QUOTE})?\s{{0,8}}[=:(]\s{{0,8}}\(?\s{{0,8}}{_QUOTE}[^\s\"'\\]{{1,80}}{_QUOTE}\s{{0,8}},\s{{0,8}}{_QUOTE})"
    rf"(?!{_MASKED})[^\n\"'\\]{{1,200}}"
)
_BEARER = re.compile(
    r"((?:(?i:\bbearer)|\bSSWS)\s{1,8})(?=[\w.~+/=-]{0,80}\d)[\w.~+/=-]{8,}|((?i:\bbasic)\s{1,8})(?=[\w+/]{0,80}\d)[\w+/]{16,}={0,2}|(conda[\w.:-]{0,80}/t/)[\w-]{8,}(?=/)"
)
# Who holds the URL of a pre-signed object may read it: AWS, Google and Azure
# (https://learn.microsoft.com/rest/api/storageservices/create-service-sas). So is a code of OAuth, for a minute.
_SIGNED = re.compile(
    r"(?i)(?:(?<=[?&;])|(?<=%26)|(?<=%3F))((?:x-(?:amz|goog)-(?:signature|security-token|credential)|sig|signature|awsaccesskeyid|code|tkn|pwd|pass)(?:=|%3D)"
    r"|[\w-]{0,20}(?:key|auth|signature)=(?=[\w-]{0,40}\d)(?=[\w-]{8}))(?!\[secret\])[^\s&\"'<>]{4,}"
)
# Who knows the address of a hook may write to it.
_HOOK = re.compile(
    r"(?i)((?:/bot/v\d/hook|/api/(?:v\d{1,2}/)?webhooks|\.webhook\.office\.com/webhookb2|//outlook\.office(?:365)?\.com/webhook|//events\.pagerduty\.com/integration|//hooks\.[\w.-]{1,80}/\w{1,20}(?:/catch)?"
    r"|://[^\s/\"'<>]{1,100}/hooks|//maker\.ifttt\.com/trigger/[^\s/]{1,80}/with/key|//hc-ping\.com)/)(?!\[secret\])[^\s\"'<>]+"
)
# To its end where one is there, with whatever a launcher puts before each line; else as far as there are lines of base64
_PEM = re.compile(
    r"(-{4,5} ?BEGIN [A-Za-z0-9 ]{0,30}(?:PRIVATE KEY(?: BLOCK)?|Static key V\d) ?-{4,5}"
    r"|Private-Lines: \d{1,4}(?:\s|\\{1,3}[rn])|\$ANSIBLE_VAULT;[\w.;-]{1,80}(?=\s|\\))"
    r"(?:(?:(?!BEGIN )[^\0]){1,6000}?(?=-{4,5} ?END )|(?:\s{1,4}(?:Version|Comment|Hash|Charset|Proc-Type|DEK-Info):[^\n]{0,200}){0,8}"
    r"(?:[A-Za-z0-9+/=\s\\]|(?<=\n)(?:\[[^\]\n]{1,40}\]:?\s|[^\s:|]{1,100}[:|]\x20{0,2})(?=[A-Za-z0-9+/=]{20})){1,6000})"
)
# No port of a server of licences, no file and no unit of systemd; `host@file.jsonl:[1-3]` is a recording of `fleet --replay`
_EMAIL = re.compile(
    r"(?<![\w.+/:@%-])(?!git@|\d{4,5}@(?!qq\.|1[26]\d\.)|[\w.+-]{1,64}@[\w-]{1,63}\.(?:json|jsonl|ndjson)(?![\w-]|\.\w))[A-Za-z0-9][\w.+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,8}(?!(?:so|dll|dylib|py|service|socket|timer|mount|scope|slice|target|swap)\b)[A-Za-z]{2,24}(?![\w@-]|[.:/][\w/])"
)


# Certificates, public keys and signatures tell nothing that is secret
_PUBLIC = re.compile(
    r"(-----BEGIN (?:(?:TRUSTED |X509 )?CERTIFICATE(?: REQUEST)?|(?:RSA |EC |DSA )?PUBLIC KEY|X509 CRL|DH PARAMETERS|PKCS7"
    r"|PGP PUBLIC KEY BLOCK|PGP SIGNATURE)-----[\w+/=\s\\]{1,20000}(?:-----END |\Z))"
)
_LAST_OF_LINE = re.compile(r"(?<![^\s\"'])(--?[\w.-]{1,80})[\x20\t]{0,8}\r?\n\s{0,8}[\"']?\Z")
_ONE_WORD = re.compile(r"[^\s]{1,400}[\x20\t]{0,8}(?:\r?\n|\Z)")
# Further words of one that YAML writes without quotation marks
_REST_OF_LINE = re.compile(
    r"((?<![^\n])[\x20\t]{0,40}(?:-\s)?[\w\"'-]{1,60}:[^\n]{0,120}\n[\x20\t]{2,40}(?:-\s)?[\w-]{0,60}:\x20\[secret\])(?:\x20[A-Za-z0-9!?$%&*+=@_.-]{1,40}){1,8}(?=\r?\n|\Z)"
)
# "user/password: … / …"
_SECOND_OF_TWO = re.compile(r"(\w/\w{2,30}\s?[:=]\s{0,4}\[secret\]\x20/\x20)(?!\[secret\])[^\s,;]{4,80}")
# "hf_xxxxxxxx" of a manual
_BLANKED = re.compile("x{6}|X{6}")
_NAME = re.compile(_NAMED)

# A command may hold two
_BEHIND_A_NAME = (
    _APART, _SAID, _TOLD, _HEX, _PGPASS, _JAR, _PIPED, _OPAQUE, _PIN, _PAIR, _LOGIN_QUOTED, _SIGNATURE, _OTHERWISE, _OTHERWISE, _CALLED,
)  # fmt: skip


def masked(text: str, mask: str, again: Callable[[str], str]) -> str:
    """Text with `mask` in the place of passwords, tokens and signatures, and without addresses of e-mail. What is public stays as it is."""
    parts = _PUBLIC.split(text) if "-----BEGIN " in text else [text]
    return "".join(part if at % 2 else _masked(part, mask, again) for at, part in enumerate(parts))


def _masked(text: str, mask: str, again: Callable[[str], str]) -> str:
    if "BEGIN " in text or "Private-Lines" in text or "ANSIBLE_VAULT" in text:
        text = _PEM.sub(lambda found: found[0] if found[0][len(found[1]) :].strip() == mask else f"{found[1]}{mask}", text)
    text = _without_logins(_headless(text, mask), mask)
    text = placed(fielded(text, mask, _is_named), mask, _is_named)
    text = _CODES.sub(lambda found: f"{found[1] or found[2]}{mask}", text)
    text = _LONE.sub(mask, text)
    text = _columns(_ARGUMENT.sub(lambda found: mask if _random(found[0]) else found[0], text), mask)
    if "send" in text:
        text = _SENT.sub(rf"\1{mask}", text)
    if "ata" in text and (_SECRET.search(text) or "stringData" in text):
        text = _MANIFEST.sub(lambda found: _ENTRY.sub(lambda one: f"{one[1] or one[2]}{mask}", found[0]), text)
    text = _BLOB.sub(lambda found: mask if _packed(found[0], again) else found[0], text)
    for pattern in _TOKENS:
        text = pattern.sub(lambda found: found[0] if _BLANKED.search(found[0]) else mask, text)
    text = _accounts(text, mask) if "<<" in text else text
    text = _HERE.sub(rf"\1{mask}", _LISTED.sub(lambda found: f"{(found[1] or found[2]).rstrip()} {mask}", text))
    text = collections_masked(text, mask, _is_named)
    text = _without_named(text, mask)
    text = without_tails(coded(spoken(scattered(text, mask), mask), mask), mask)
    text = _SECOND_OF_TWO.sub(rf"\1{mask}", text) if f"{mask} / " in text else text
    return _REST_OF_LINE.sub(r"\1", text) if f": {mask} " in text else text


def _is_named(name: str) -> bool:
    return bool(_NAME.search(name))


def _without_logins(text: str, mask: str) -> str:
    """Text without logins before a host and without addresses of e-mail."""

    def login(found: re.Match[str]) -> str:
        return found[0] if _TO_FILL_IN.fullmatch(found[0]) else f"{mask}@"

    if "@" in text:
        text = mapped(text, mask)
        text = _LOGIN.sub(f"{mask}@", _URL_LOGIN.sub(login, text) if "/" in text else text)
        return _EMAIL.sub(EMAIL, _PROXY.sub(rf"\1{mask}@", text))
    return _URL_LOGIN.sub(f"{mask}@", text) if "%40" in text else text


def _without_named(text: str, mask: str) -> str:
    """Text without what stands behind a name or a flag that says what it is."""

    def behind_name(found: re.Match[str]) -> str:
        return _unless_reference(found, found[1], mask)

    if "=" in text or ":" in text or "%3" in text or not text.isascii():
        text = _SIGNED.sub(rf"\1{mask}", text)
        text = _SESSION.sub(rf"\1{mask}", text)
        text = _HEADER.sub(lambda found: _unless_reference(found, f"{found[1]}{found[2] or ''}", mask), text)
        text = _ASSIGNED.sub(behind_name, text)
    text = _BEARER.sub(lambda found: f"{found[1] or found[2] or found[3]}{mask}", text)
    if "/" in text:
        text = _HOOK.sub(rf"\1{mask}", text)
    for pattern in _BEHIND_A_NAME:
        text = pattern.sub(behind_name, text)
    return _FLAG.sub(behind_name, text) if "-" in text else text


def _unless_reference(found: re.Match[str], before: str, mask: str) -> str:
    """What stands before a secret, and the mask; the text as it was where no secret stands there."""
    return (
        found[0]
        if _goes_on(found.string, found.start(), before) or is_reference(found.string, found.start(), found.start() + len(before))
        else before + mask
    )


def _goes_on(text: str, start: int, before: str) -> bool:
    """Whether a flag ends its line, and the next one speaks of something else: it has one word where each word has a line of its own."""
    flag = _LAST_OF_LINE.search(before)
    if not flag:
        return False
    at = start + flag.start(1)
    alone = not text[max(0, at - 80) : at].rpartition("\n")[2].strip()
    return not (alone and _ONE_WORD.match(text, start + len(before)))


def _accounts(text: str, mask: str) -> str:
    """Text without the passwords of a list of accounts that a shell gives a command, "name:password"."""
    parts, last = [], 0
    for found in _ACCOUNTS.finditer(text):
        end = text.find(found[1], found.end())
        if found.start() >= last and end > 0:
            parts += [text[last : found.end()], _ACCOUNT.sub(mask, text[found.end() : end])]
            last = end
    return "".join([*parts, text[last:]])


def _random(word: str) -> bool:
    """Whether capitals, small letters and digits change as they do by chance; in a name they stand together."""
    kinds = ["A" if one.isupper() else "a" if one.islower() else "0" for one in word]
    changes = sum(one != other for one, other in zip(kinds, kinds[1:], strict=False))
    return len(set(kinds)) == 3 and kinds.count("0") >= 3 and 2 * changes >= len(word)


def _columns(text: str, mask: str) -> str:
    """Tables without what stands below a heading that is named after a secret, where it has letters and digits."""
    if "\n" not in text:
        return text
    lines, below, apart, cells = text.split("\n"), set[int](), _APART_BY[","], 0
    for at, line in enumerate(lines):
        if below and not line.strip("|+-=: "):
            continue
        parts = apart.split(line)
        if below and len(parts) >= cells:
            lines[at] = "".join(_CELL.sub(rf"\1{mask}", part) if place in below else part for place, part in enumerate(parts))
            continue
        below = set()
        if _HEADINGS.fullmatch(line):
            apart = next(by for sign, by in _APART_BY.items() if sign in line)
            parts = apart.split(line)
            below, cells = {place for place, part in enumerate(parts) if _HEADING.search(part)}, len(parts)
    return "\n".join(lines)


def _packed(blob: str, masked_again: Callable[[str], str]) -> bool:
    """Whether this is base64 of a text that holds a secret. Each step inwards is a quarter shorter, so that the end is near."""
    try:
        said = b64decode(blob + "=" * (-len(blob) % 4)).decode()
    except ValueError:
        return False
    return said.replace("\n", " ").isprintable() and masked_again(said) != said


def _headless(text: str, mask: str) -> str:
    """Without what is left of a private key of which one end was cut off."""
    if "MI" in text or "MHc" in text or "MC4" in text or "b3BlbnNzaC1rZXktdj" in text:
        text = _KEY_BEGINS.sub(mask, text)
    if "-----END " not in text:
        return text
    kept: list[str] = []
    for line in text.splitlines(keepends=True):
        if _KEY_ENDS.search(line):
            before = None
            while kept and (found := _KEY_LINE.fullmatch(kept[-1])) and before in (None, "", found[1]):
                before = found[1] or ""
                kept.pop()
            kept += [f"{before}{mask}\n"] if before is not None else []
        kept.append(line)
    return "".join(kept)
