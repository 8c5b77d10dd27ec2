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


# What is said of a password, in lower case and as all forms of those with five letters begin: that it is wrong, missing, asked for, old or
# changed, and what stands between it and that. English, German, Dutch, of the North, Romance, Slavic, others.
STATES = (
    "expired", "wrong", "incorrect", "invalid", "missing", "required", "empty", "blank", "unknown", "rejected", "denied", "revoked",
    "locked", "mismatch", "forgotten", "unset", "undefined", "accepted", "changed", "disabled", "redacted", "hidden", "needed",
    "abgelaufen", "abläuft", "falsch", "ungültig", "ungueltig", "leer", "fehlt", "fehlend", "fehlerhaft", "erforderlich", "nötig",
    "noetig", "notwendig", "gesperrt", "geändert", "geaendert", "vergessen", "unbekannt", "gesetzt", "verloren", "veraltet",
    "verborgen", "zurückgesetzt", "gespeichert", "nicht", "kein", "leider", "schon", "bereits", "jetzt", "immer", "noch", "wieder",
    "seit", "heute", "gestern", "auch", "zwar", "verlopen", "onjuist", "ongeldig", "verkeerd", "vereist", "vergeten", "geblokkeerd",
    "gewijzigd", "niet", "helaas", "fel", "utgånget", "ogiltig", "saknas", "glömt", "forkert", "ugyldig", "utløpt", "udløbet", "feil",
    "mangler", "glemt", "påkrevd", "väärä", "vanhentunut", "virheellinen", "puuttuu", "expiré", "expirée", "périm", "erron",
    "invalide", "faux", "vide", "manque", "requis", "oubli", "verrouill", "inconnu", "modifi", "changé", "obligatoire", "déjà",
    "toujours", "encore", "pas", "trop", "caduc", "vencid", "equivocad", "inválid", "vací", "requerid", "bloquead", "olvidad",
    "cambiad", "desconocid", "obligatori", "ya", "expirad", "errad", "vazi", "obrigat", "esquecid", "alterad", "trocad",
    "desconhecid", "já", "não", "muy", "muito", "siempre", "sempre", "scadut", "errat", "sbagliat", "non", "vuot", "mancant",
    "richiest", "bloccat", "cambiat", "dimenticat", "sconosciut", "obbligatori", "demasiad", "molto", "tropp", "corta", "curta",
    "courte", "court", "kurz", "schwach", "débil", "faible", "zbyt", "слишком", "short", "weak", "expirat", "greșit", "gresit",
    "caducad", "incorrecte", "invàlid", "wygasł", "nieprawidłow", "błędn", "niepoprawn", "puste", "wymagan", "zmienion", "zapomnian",
    "zablokowan", "nieznan", "brak", "nie", "vypršel", "nesprávn", "neplatn", "chybn", "prázdn", "chybí", "zapomen", "změněn",
    "pogrešn", "istekl", "neispravn", "netočn", "napačn", "неверн", "неправильн", "просроч", "истёк", "истек", "пуст", "обязател",
    "требу", "забыт", "измен", "заблокир", "неизвест", "отсутств", "не", "невірн", "неправильн", "закінч", "порожн", "обов'язков",
    "змінен", "грешн", "изтек", "невалидн", "hibás", "érvénytelen", "lejárt", "üres", "hiányzik", "yanlış", "geçersiz", "hatalı",
    "boş", "gerekli", "süresi", "unutul", "λάθος", "έληξε", "λανθασμέν", "άκυρ", "salah", "kedaluwarsa", "kadaluarsa", "kosong",
    "diperlukan", "tidak", "sai", "hết hạn", "错误", "不正确", "已过期", "过期", "无效", "为空", "不能", "必须", "未", "不", "已",
    "錯誤", "過期", "無效", "期限", "無効", "間違", "正しく", "必要", "未設定", "空", "만료", "틀", "잘못", "필요", "없",
)  # fmt: skip


# A code for one time, for access or for a second factor, where a number follows
CODES = (
    "Sicherheitscode", "Bestätigungscode", "Zugangscode", "Einmalcode", "Freischaltcode", "Prüfcode", "verificatiecode",
    "beveiligingscode", "code de vérification", "code de sécurité", "code d'accès", "code de confirmation", "code à usage unique",
    "código de verificación", "código de seguridad", "código de acceso", "código de confirmación", "código de verificação",
    "código de segurança", "código de acesso", "codice di verifica", "codice di sicurezza", "codice di accesso",
    "codul de verificare", "kod weryfikacyjny", "kod dostępu", "kod jednorazowy", "ověřovací kód", "overovací kód", "kod za provjeru",
    "код подтверждения", "код доступа", "код безопасности", "одноразовый код", "код підтвердження", "verifieringskod", "engangskode",
    "bekreftelseskode", "vahvistuskoodi", "doğrulama kodu", "onay kodu", "kode verifikasi", "kode otp", "mã xác minh", "mã xác nhận",
    "mã otp", "ellenőrző kód", "κωδικός επαλήθευσης", "رمز التحقق", "קוד אימות", "सत्यापन कोड", "รหัสยืนยัน", "验证码", "驗證碼",
    "校验码", "動態碼", "动态码", "安全码", "認証コード", "確認コード", "認証番号", "인증번호", "인증 코드", "보안 코드",
    "engångskod", "code d’accès", "code à usage", "код з смс", "ワンタイムパスワード", "ワンタイムコード", "일회용 비밀번호",
    "one-time code", "one time code", "verification code", "security code", "sms code", "SMS code", "access code",
    "confirmation code",
)  # fmt: skip


def any_of(words: Iterable[str]) -> str:
    """An expression for any of these words that looks at each letter once."""
    rest: dict[str, list[str]] = {}
    for word in words:
        rest.setdefault(word[:1], []).append(word[1:])
    if "" in rest:
        return ""
    branches = [re.escape(first) + any_of(rests) for first, rests in sorted(rest.items())]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
