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


# Verbs that tell what something is and are no other word in English
VERBS = frozenset((
    "is", "was", "es", "est", "era", "é", "è", "ist", "war", "lautet", "luidt", "brzmi", "zní", "este", "είναι", "jest", "är", "er",
    "adalah", "ialah", "là", "sono", "sarà", "vale", "будет", "remains", "stays", "bleibt", "blijft", "reste", "rimane", "siendo",
))  # fmt: skip
# What stands between a verb and what it tells: now, still, since when. All in lower case and whole
SINCE = frozenset((
    "now", "still", "again", "currently", "simply", "just", "jetzt", "nun", "nunmehr", "weiterhin", "noch", "wieder", "seit", "ab",
    "heute", "gestern", "momentan", "aktuell", "einfach", "immer", "nu", "nog", "weer", "voortaan", "sinds", "vandaag", "gisteren",
    "momenteel", "steeds", "désormais", "maintenant", "dorénavant", "toujours", "encore", "actuellement", "depuis", "hier", "ahora",
    "todavía", "aún", "actualmente", "desde", "ayer", "hoy", "agora", "ainda", "atualmente", "ontem", "hoje", "ora", "adesso",
    "ancora", "attualmente", "oggi", "da", "ieri", "acum", "încă", "ara", "fortfarande", "numera", "fortsatt", "stadig", "fremdeles",
    "nå", "nyt", "edelleen", "yhä", "teraz", "nadal", "od", "dziś", "wczoraj", "obecnie", "teď", "nyní", "stále", "pořád", "dnes",
    "včera", "sada", "još", "zdaj", "теперь", "сейчас", "пока", "всё", "ещё", "по-прежнему", "с", "вчера", "сегодня", "зараз",
    "тепер", "досі", "сега", "most", "mostantól", "artık", "şimdi", "hâlâ", "τώρα", "πλέον", "ακόμα", "sekarang", "masih", "bây",
    "giờ", "vẫn",
))  # fmt: skip
# That it was changed, as all forms begin, and what stands then before what it was changed to
CHANGED = (
    "changed", "reset", "updated", "rotated", "set", "switched", "geänder", "geaender", "gesetzt", "umgestell", "zurückgesetz",
    "aktualisier", "gewijzig", "verander", "aangepast", "ingesteld", "changé", "modifi", "remplac", "réinitialis", "cambiad",
    "modificad", "actualizad", "restablecid", "alterad", "trocad", "mudad", "redefinid", "cambiat", "modificat", "reimpostat",
    "aggiornat", "schimbat", "canviad", "ändra", "byt", "ændre", "skifte", "endre", "bytte", "zmieni", "ustawion", "změněn",
    "nastaven", "zmenen", "promijenjen", "promenjen", "spremenjen", "измен", "смен", "поменя", "обновл", "змінен", "променен",
    "diubah", "diganti", "đổi",
)  # fmt: skip
TO = frozenset((
    "to", "auf", "in", "zu", "naar", "op", "en", "a", "à", "por", "para", "par", "con", "per", "till", "til", "na", "u", "v", "în", "cu",
    "на", "в", "menjadi", "ke", "thành", "sang",
))  # fmt: skip


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


# What a code of digits is called, in lower case and as all its forms begin; a compound ends with it ("Alarmcode")
CODE = (
    "code", "kod", "kód", "código", "codigo", "codice", "codici", "codul", "codi", "clave", "koodi", "код", "κωδικ", "mã", "رمز", "קוד",
    "कोड", "รหัส", "代码", "代碼", "密码", "密碼", "コード", "暗証番号", "코드", "비밀번호",
)  # fmt: skip

# What such a code opens or brings back, in lower case and as all forms of those with five letters begin: an alarm, a safe, a door, a lock,
# a locker, a SIM, a mailbox, an account. English, German, Dutch, of the North, Romance, Slavic, others
OPENED = (
    "alarm", "burglar", "safe", "vault", "strongbox", "door", "doors", "gate", "gates", "entrance", "elevator", "padlock", "lock",
    "locks", "locker", "lockbox", "lift", "key box", "keypad", "intercom", "garage", "sim", "esim", "digicode", "voicemail", "2fa",
    "authenticator", "two-factor", "backup", "recovery", "reset", "unlock", "activation", "guest", "tresor", "safes", "schließfach",
    "schliessfach", "spind", "tastenfeld", "schloss", "schlosses", "vorhängeschl", "schlüssel", "tür", "türe", "haustür", "türöffner",
    "eingang", "pforte", "hoftor", "garagentor", "schranke", "aufzug", "mailbox", "anrufbeantw", "wiederherst", "entsperr",
    "freischalt", "aktivier", "aktiver", "gäste", "kluis", "brandkast", "toetsenp", "deur", "poort", "voordeur", "hangslot",
    "slagboom", "ingang", "herstel", "ontgrendel", "activer", "larm", "larmet", "inbrott", "kassaskåp", "värdeskåp", "dörr", "dörren",
    "ytterdörr", "porten", "portk", "grind", "grinden", "bommen", "lås", "låset", "hänglås", "skåp", "skåpet", "återställ", "upplås",
    "pengeskab", "dør", "døren", "døra", "lågen", "hængelås", "skab", "skabet", "gendan", "oplås", "safen", "hengelås", "skap",
    "skapet", "gjenopp", "hälyty", "kassakaap", "tallelok", "ovi", "oven", "oveen", "portin", "lukko", "lukon", "kaapin", "palaut",
    "varmuus", "coffre", "boîte à cl", "boîtier", "porte", "portail", "portillon", "entrée", "immeuble", "serrure", "cadenas",
    "casier", "barrière", "ascenseur", "répondeur", "messagerie", "sauvegarde", "récupérat", "secours", "déverrou", "débloc",
    "invité", "caja fuerte", "puerta", "portón", "portal", "cerradura", "candado", "taquilla", "casillero", "garaje", "entrada",
    "buzón", "contestador", "respaldo", "recuper", "desbloq", "activac", "cofre", "porta", "portão", "fechadura", "cadeado",
    "armário", "garagem", "correio", "ativaç", "allarm", "cassafor", "cassett", "cancell", "portone", "ingress", "serratur",
    "lucchett", "armadiet", "segreter", "ripristin", "sblocc", "attivaz", "seif", "seiful", "ușa", "ușii", "ușă", "poart", "poarta",
    "porții", "lacăt", "interfon", "deblocar", "restaurar", "activare", "caixa fort", "sejf", "sejfu", "drzwi", "brama", "bramy",
    "bramk", "furtk", "furtki", "klatk", "klatki", "domofon", "zamek", "zamka", "kłódk", "kłódki", "szafk", "szafki", "szlaban",
    "poczty", "odzysk", "zapasow", "odblok", "aktywac", "trezor", "dveř", "dveře", "dveří", "dvere", "dverí", "brána", "brány",
    "bráně", "branka", "branky", "vchod", "vchodu", "zámek", "zámku", "zámok", "skříňk", "schránk", "obnov", "záložn", "odemk",
    "odemyk", "vrata", "brava", "brave", "kapij", "kapija", "kapije", "sigurnosn", "rezerv", "otključ", "сигнализ", "сигналіз",
    "сейф", "сейфа", "дверь", "двери", "дверей", "ворот", "ворота", "подъезд", "калитк", "домофон", "замок", "замк", "замка",
    "шкафчик", "гараж", "шлагбаум", "сим", "симк", "восстан", "резервн", "разблок", "активац", "віднов", "розблок", "під'їзд",
    "хвіртк", "врата", "врати", "riasztó", "széf", "széfhez", "széfé", "ajtó", "ajtóé", "ajtóhoz", "kapu", "kapuhoz", "lakat",
    "szekrény", "helyreáll", "aktivál", "feloldó", "kasa", "kasanın", "kapı", "kapının", "kapısı", "giriş", "kilit", "kilid", "dolap",
    "dolab", "yedek", "kurtarma", "etkinleş", "συναγερ", "πόρτα", "πόρτας", "θυρίδ", "brankas", "pintu", "gerbang", "pemulihan",
    "aktivasi", "cửa", "két sắt", "khôi phục", "kích hoạt",
)  # fmt: skip
# … and as they stand among others without a blank
OPENED_WITHIN = (
    "报警", "警报", "防盗", "保险柜", "保险箱", "门", "锁", "恢复", "备份", "激活", "報警", "警報", "保險", "門", "鎖", "金庫", "ドア",
    "玄関", "アラーム", "警備", "ロッカー", "復元", "復旧", "バックアップ", "有効化", "解除", "금고", "현관", "출입", "경보", "사물함",
    "복구", "백업", "활성화", "사서함", "语音信箱", "留守番",
)  # fmt: skip

# What a code is of that opens nothing, in lower case: an error, an exit, an answer, a state, a post, a country, a source
FAULTS = (
    "error", "erro", "fehler", "err ", "errno", "fout", "felkod", "feilkode", "fejlkode", "virhe", "błęd", "blad", "chyb", "грешк",
    "ошибк", "помилк", "hiba", "hata", "eroare", "σφάλμα", "lỗi", "错误", "錯誤", "エラー", "오류", "exit", "sortie", "salida", "saída",
    "uscita", "ausstieg", "beenden", "wyjści", "ukonč", "návrat", "çıkış", "ieșire", "выход", "заверш", "退出", "終了", "종료", "return",
    "retour", "rückgab", "retorn", "ritorno", "zwrot", "dönüş", "возврат", "поверн", "返回", "戻り", "status", "statut", "estado",
    "stato ", "стату", "状态", "ステータス", "상태", "http", "failure", "fail", "exception", "ausnahme", "signal ", "fault", "panne",
    "fallo", "guasto", "awari", "poruch", "response", "réponse", "respuesta", "risposta", "result", "ret ", "rc ", "postal", "postkod",
    "zip", "postleit", "postnum", "pocztow", "почтов", "area code", "country", "pays", "país", "paese", "länder", "land", "kraj",
    "страны", "product", "qr", "barcode", "bar code", "source", "quell", "fuente", "sorgente", "źródł", "zdroj", "kaynak", "исходн",
    "源代码", "ソース", "소스", "ascii", "unicode",
)  # fmt: skip

# An answer, a question that an account is given back for, and what such questions ask, in lower case and as all forms begin
ANSWERS = (
    "answer", "antwort", "antwoord", "svar", "réponse", "reponse", "respuesta", "resposta", "risposta", "răspuns", "raspuns", "odpowied",
    "odpověď", "odpoveď", "odpoved", "odgovor", "ответ", "відповід", "отговор", "vastaus", "válasz", "cevap", "cevab", "yanıt",
    "απάντηση", "jawaban", "câu trả lời", "答案", "答え", "回答", "답변",
)  # fmt: skip
QUESTIONS = (
    "security question", "secret question", "recovery question", "challenge question", "security_question", "secret_question",
    "security-question", "security q", "sicherheitsfrage", "geheimfrage", "kontrollfrage", "geheime frage", "beveiligingsvra",
    "geheime vra", "veiligheidsvra", "controlevra", "säkerhetsfråg", "kontrollfråg", "sikkerhedsspørgsmål", "sikkerhetsspørsmål",
    "kontrolspørgsmål", "question secrète", "question de sécurité", "question de securite", "question de récupération",
    "pregunta secreta", "pregunta de seguridad", "pregunta de recuperación", "pergunta secreta", "pergunta de segurança",
    "domanda segreta", "domanda di sicurezza", "domanda di recupero", "întrebarea de securitate", "întrebare de securitate",
    "pytanie pomocnicze", "pytanie bezpiecz", "pytanie zabezpiecz", "pytanie kontroln", "bezpečnostní otáz", "kontrolní otáz",
    "bezpečnostnú otáz", "bezpečnostná otáz", "kontrolná otáz", "sigurnosno pitanje", "tajno pitanje", "секретный вопрос",
    "контрольный вопрос", "секретне питання", "контрольне питання", "таен въпрос", "turvakysymy", "biztonsági kérdés", "güvenlik sorusu",
    "gizli soru", "ερώτηση ασφαλείας", "pertanyaan keamanan", "câu hỏi bảo mật", "密保问题", "安全问题", "安全問題", "秘密の質問",
    "보안 질문", "보안질문",
)  # fmt: skip
ASKED = (
    "maiden name", "maiden_name", "maiden-name", "maidenname", "memorable word", "memorable_word", "memorable date", "memorable place",
    "memorable name", "first pet", "name of my pet", "name of your pet", "pet's name", "favourite teacher", "favorite teacher",
    "childhood nickname", "mädchenname", "geburtsname der mutter", "erstes haustier", "ersten haustier", "erstes tier", "meisjesnaam",
    "eerste huisdier", "flicknamn", "första husdjur", "pikenavn", "pigenavn", "første kæledyr", "første kjæledyr", "tyttönimi",
    "ensimmäisen lemmik", "nom de jeune fille", "premier animal", "apellido de soltera", "primera mascota", "nome de solteira",
    "primeiro animal", "cognome da nubile", "primo animale", "nazwisko panieńskie", "pierwszego psa", "pierwszego zwierz",
    "pierwsze zwierz", "rodné příjmení", "první mazlíč", "prvního mazlíč", "prvního psa", "девичья фамилия", "первого питомца",
    "первый питомец", "дівоче прізвище", "leánykori n", "anyja neve", "kızlık soyad", "evcil hayvan", "母亲的姓", "娘家姓", "第一只宠物",
    "旧姓", "最初のペット", "첫 애완동물", "nama gadis ibu",
)  # fmt: skip


def any_of(words: Iterable[str]) -> str:
    """An expression for any of these words that looks at each letter once."""
    rest: dict[str, list[str]] = {}
    for word in words:
        rest.setdefault(word[:1], []).append(word[1:])
    if "" in rest:
        return ""
    branches = [re.escape(first) + any_of(rests) for first, rests in sorted(rest.items())]
    if len(branches) == 1:
        return branches[0]
    ours = sum(first.isascii() for first in rest)  # those stand first
    if len(branches) - ours > 3:  # one look passes by them all where a letter of ASCII stands
        branches[ours:] = [f"(?=[^\\x00-\\x7f])(?:{'|'.join(branches[ours:])})"]
    return f"(?:{'|'.join(branches)})"
