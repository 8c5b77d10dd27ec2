"""What secrets are called in other languages."""

# Words for a password, a key, a token in other languages, in lower case
FOREIGN = (
    "kennwort", "geheimnis", "zugangsdaten", "zugangsschl", "geheimschl", "api-schl", "api_schl", "apischl", "de passe", "de_passe",
    "de-passe", "depasse", "contrase", "wachtwoord", "hasło", "haslo", "lösenord", "losenord", "salasana", "şifre", "jelszó", "密码",
    "密碼", "口令", "密钥", "密鑰", "秘钥", "令牌", "凭证", "凭据", "пароль", "токен", "секрет", "パスワード", "トークン", "秘密鍵",
    "비밀번호", "암호", "토큰",
)  # fmt: skip
