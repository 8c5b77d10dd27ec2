"""What secrets are called in other languages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

# Words for a password, a key, a token, or what all their forms begin with, in lower case: Germanic, Romance, Slavic and Baltic, Uralic,
# Greek, Turkic, Semitic and Iranian, of India, of South-East Asia, of East Asia, others
_WORDS = (
    "kennwort", "losungswort", "geheimnis", "zugangsdaten", "zugangsschl", "zugangscode", "geheimschl", "api-schl", "api_schl", "apischl",
    "wachtwoord", "lösenord", "losenord", "adgangskode", "kodeord", "passord", "passwoord", "wagwoord", "lykilorð", "aðgangsorð",
    "de passe", "de_passe", "de-passe", "depasse", "contrase", "contrasinal",
    "senha", "palavra-passe", "palavra passe", "parola", "parole d",
    "parolă", "paraula de pas", "pasahitz",
    "hasło", "haslo", "hasła", "heslo", "hesla", "geslo", "lozink", "šifra za", "slaptaž", "parolei", "salasõna", "parool",
    "пароль", "пароля", "паролем", "паролі", "парола", "токен", "секрет", "лозинк", "гасло", "құпия сөз", "сырсөз", "нууц үг",
    "salasana", "tunnussana", "jelszó", "jelszava", "κωδικ", "κωδικός", "συνθηματικ", "şifre", "parolanız", "maxfiy so",
    "كلمة المرور", "كلمة السر", "كلمة مرور", "رمز عبور", "گذرواژه", "پاس ورڈ", "סיסמ", "ססמ", "գաղտնաբառ", "პაროლ",
    "पासवर्ड", "कूटशब्द", "পাসওয়ার্ড", "கடவுச்சொல்", "పాస్‌వర్డ్", "പാസ്‌വേഡ്", "પાસવર્ડ", "ਪਾਸਵਰਡ", "මුරපදය",
    "mật khẩu", "mat khau", "kata sandi", "kata laluan", "katalaluan", "รหัสผ่าน", "លេខសម្ងាត់", "စကားဝှက်", "ລະຫັດຜ່ານ",
    "密码", "密碼", "口令", "密钥", "密鑰", "秘钥", "令牌", "凭证", "凭据", "パスワード", "パスフレーズ", "暗証番号", "トークン", "秘密鍵",
    "비밀번호", "비번", "암호", "토큰",
    "kod dostęp", "código de acces", "código de acess", "code d'accès", "codice di access", "codice d'access", "toegangscode", "код доступ",
    "åtkomstkod", "přístupový kód", "nenosiri", "fjalëkalim", "focal faire", "cyfrinair", "የይለፍ ቃል",
)  # fmt: skip


def _typed(word: str) -> str:
    """As who has no such keys types it: without accents."""
    plain = unicodedata.normalize("NFKD", word.translate(str.maketrans("łøıđð", "loidd")))
    return "".join(one for one in plain if not unicodedata.combining(one))


_PLAIN = dict.fromkeys(plain for word in _WORDS if (plain := _typed(word)).isascii())
FOREIGN = tuple(dict.fromkeys((*_WORDS, *_PLAIN, *(word.replace(" ", "_") for word in _PLAIN))))


def any_of(words: Iterable[str]) -> str:
    """An expression for any of these words that looks at each letter once."""
    rest: dict[str, list[str]] = {}
    for word in words:
        rest.setdefault(word[:1], []).append(word[1:])
    if "" in rest:
        return ""
    branches = [re.escape(first) + any_of(rests) for first, rests in sorted(rest.items())]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
