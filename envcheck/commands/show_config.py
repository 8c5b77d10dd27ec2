"""`envcheck config`: every setting of a check, its value and who set it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from envcheck.commands.check import check_facts_named
from envcheck.commands.configuration import KEYS, rule_session
from envcheck.commands.output import put
from envcheck.commands.rendering import words
from envcheck.facts.printable import one_line, visible
from envcheck.facts.secrets import mask_values
from envcheck.render.styled import padded, width_of


def execute(args: argparse.Namespace) -> int:
    """Prints the settings as TOML with comments, or as JSON."""
    by = rule_session(args)  # names of rules and of facts that do not exist are told here as well
    check_facts_named(args)
    own = {rule: by.texts.read(rule) for rule in by.texts.of_site}
    asked = {"json", "format"} if "--json" in args.given else set()  # that is how this very answer is written
    # a value is masked before it is written as TOML, whose escapes would hide a secret, and with its key
    rows = [(key, *map(mask_values, _in_force(args, key))) for key in KEYS if key not in asked and _known(args, key)]
    if args.json:
        settings = {key: {"value": value, "from": origin} for key, value, origin in rows}
        configuration = {"path": args.configuration.path, "passed_over": list(args.configuration.passed_over), "profile": args.profile}
        rules = [{"rule": rule, "severity": text.severity.value, "title": text.title} for rule, text in own.items()]
        told = mask_values({"schema": 1, "config": configuration, "settings": settings, "rules": rules})
        put(json.dumps(told, indent=2) + "\n")
        return 0
    say = words(args, "text", True).say
    lines = [f"# {one_line(args.configuration.path or say('no configuration file was found'))}"]
    lines += [f"# {one_line(one)}" for one in args.configuration.passed_over]
    width = max(width_of(visible(_setting(key, value, say))) for key, value, _ in rows if len(_toml(value)) < 40)
    lines += [f"{padded(visible(_setting(key, value, say)), width)}  # {one_line(say(origin))}" for key, value, origin in rows]
    lines += [f"# {say('rule of this site')}: {rule} ({say(text.severity.value)}): {one_line(text.title)}" for rule, text in own.items()]
    put("\n".join(lines) + "\n")
    return 0


def _known(args: argparse.Namespace, key: str) -> bool:
    return hasattr(args, _attribute(key)) or key in args.configured or key in ("severity", "rules")


def _attribute(key: str) -> str:
    return key.replace("-", "_")


def _in_force(args: argparse.Namespace, key: str) -> tuple[Any, str]:
    """The value of a key and where it comes from: the command line, the file, a profile of it, or nowhere."""
    path = args.configuration.path
    if key in args.configured:
        return args.configured[key], f"{path} [profile.{args.profile}]" if key in args.profiled else f"{path}"
    value = {"severity": args.severities, "rules": args.site}.get(key, getattr(args, _attribute(key), None))
    return value, "command line" if f"--{key}" in args.given else "default"


def _setting(key: str, value: Any, say: Callable[[str], str]) -> str:
    return f"# {say(f'{key} is not set')}" if value is None else f"{key} = {_toml(value)}"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(one)}" for key, one in value.items()) + " }" if value else "{}"
    return json.dumps(value, ensure_ascii=False)
