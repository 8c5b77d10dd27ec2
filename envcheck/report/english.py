"""English, in which everything is judged, planned and written: it says each text as it is.

It stands by itself so that a run in English loads nothing of another language.
"""

from __future__ import annotations

from collections.abc import Mapping


class English:
    """What renderers ask for their words; `report/language.py` has those of other languages."""

    code: str = ""  # "zh", as in HTML's lang

    @property
    def planner(self) -> English:
        """For the planner's texts."""
        return self

    @property
    def job(self) -> English:
        """For the report of a job."""
        return self

    def say(self, text: str) -> str:
        """A text of envcheck in this language."""
        return text


ENGLISH = English()


def language_of(given: str | None, env: Mapping[str, str]) -> tuple[str, bool]:
    """The language of `--lang`, and that it was asked for; else that of the locale: "" or "zh". Traditional Chinese has no texts."""
    if given:
        return ("" if given == "en" else given), True
    locale = next((env[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if env.get(name)), "")
    plain = locale.partition(".")[0] in ("", "C", "POSIX")  # for which nobody translates, and LANGUAGE does not count
    for one in [locale] if plain else [*env.get("LANGUAGE", "").split(":"), locale]:
        if one.startswith("en"):
            break
        if one.startswith("zh") and not one.replace("-", "_").lower().startswith(("zh_tw", "zh_hk", "zh_mo", "zh_hant")):
            return "zh", False
    return "", False


def language_code(word: object) -> object:
    """Also as locales spell it: "zh_CN.UTF-8", "zh-Hans", "en_GB"; Traditional Chinese has no texts."""
    if not isinstance(word, str):
        return word
    code, _, place = word.replace("-", "_").lower().partition("_")
    return code if code == "en" or (code == "zh" and place.partition(".")[0] in ("", "cn", "sg", "hans", "hans_cn")) else word
