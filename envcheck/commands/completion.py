"""`envcheck completion SHELL`: a script for bash, zsh or fish, made of the flags that the commands have. It asks envcheck nothing."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from envcheck.commands.output import put
from envcheck.facts.record import record

SHELLS = ("bash", "zsh", "fish")
# What a metavar says of a value that has no list of choices.
FILES = ("FILE", "DIR", "FOLDER", "PATH", "PATH|VERSION", "[FORMAT=]FILE", "FILE|-", "A.json", "B.json")
RULES = ("RULE|FAMILY", "RULE|WORDS")
HOW = {
    "bash": 'eval "$(envcheck completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(envcheck completion zsh)" in ~/.zshrc, after compinit',
    "fish": "envcheck completion fish | source in ~/.config/fish/config.fish",
}


@record
class Option:
    """One flag or argument: its spellings (none: an argument), what it takes, and the first words of its help."""

    spellings: tuple[str, ...]
    takes: bool
    values: tuple[str, ...]  # to choose from; where there are none and `files`, names of files
    files: bool
    about: str


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """The argument of `envcheck completion`."""
    how = "; ".join(f"{shell}: {line}" for shell, line in HOW.items())
    parser.add_argument("shell", choices=SHELLS, help=f"whose script. To have it in each shell, {how}")


def execute(args: argparse.Namespace) -> int:
    """Prints the script. The rules that it offers are those of now, a site's included.

    `args.parser_of` makes the parser of a command, `args.about` says what a command does.
    """
    from envcheck.commands import COMMANDS
    from envcheck.commands.configuration import rule_session
    from envcheck.engine.rule import FAMILY_RANK

    rules = (*FAMILY_RANK, *rule_session(args).texts.ids)
    options = {command: tuple(_option(one, rules) for one in args.parser_of(command)._actions) for command in COMMANDS}
    made = {"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell]
    put(made(options, {command: _short(args.about[command]) for command in COMMANDS}))
    return 0


def _option(action: argparse.Action, rules: Sequence[str]) -> Option:
    metavar = str(action.metavar or "")
    values = tuple(map(str, action.choices or ())) or (rules if metavar in RULES else ())
    return Option(
        tuple(action.option_strings),
        action.nargs != 0 and not isinstance(action, argparse.BooleanOptionalAction),
        tuple(values),
        any(part in FILES for part in (metavar, metavar.rstrip("…"))),
        _short(action.help or ""),
    )


def _short(text: str) -> str:
    """The first clause, in characters that no shell reads as its own."""
    first = text.replace("'s ", " ").split(". ")[0].split("; ")[0].split(": ")[0]  # "a rule id", and not "a rule s id"
    return " ".join("".join(one if one.isalnum() or one in " ,.-/_()=+" else " " for one in first).split())[:70]


# ---- bash

_BASH = """\
# bash completion for envcheck; made by `envcheck completion bash`
_envcheck() {{
    local command=check current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} values="" files=""
    case " {commands} " in *" ${{COMP_WORDS[1]}} "*) [ "$COMP_CWORD" -gt 1 ] && command=${{COMP_WORDS[1]}} ;; esac
    # bash takes --live=full for three words
    if [ "$current" = "=" ]; then current=""; elif [ "$previous" = "=" ]; then previous=${{COMP_WORDS[COMP_CWORD-2]}}; fi
    if [ "$command" = run ] && [[ " ${{COMP_WORDS[*]:1:COMP_CWORD-1}} " == *" -- "* ]]; then
        COMPREPLY=($(compgen -c -f -- "$current"))
        return
    fi
    case "$command $previous" in
{flags}
    *)
        case "$command" in
{arguments}
        esac
        [ "$COMP_CWORD" -eq 1 ] && values="{commands} $values"
        ;;
    esac
    COMPREPLY=($(compgen -W "$values" -- "$current"))
    if [ -n "$files" ] && [[ "$current" != -* ]]; then
        local IFS=$'\\n'
        COMPREPLY+=($(compgen -f -- "$current"))
        compopt -o filenames 2>/dev/null
    fi
}}
complete -F _envcheck envcheck
"""


def _bash(options: Mapping[str, Sequence[Option]], about: Mapping[str, str]) -> str:
    flags, arguments = [], []
    for command, mine in options.items():
        for one in mine:
            if one.takes and one.spellings:
                names = " | ".join(f'"{command} {name}"' for name in one.spellings)
                flags.append(f'    {names}) values="{" ".join(one.values)}"; files={"yes" if one.files else ""} ;;')
        words = [name for one in mine for name in one.spellings]
        words += [value for one in mine if not one.spellings for value in one.values]
        files = any(one.files for one in mine if not one.spellings)
        arguments.append(f'        {command}) values="{" ".join(words)}"; files={"yes" if files else ""} ;;')
    return _BASH.format(commands=" ".join(options), flags="\n".join(flags), arguments="\n".join(arguments))


# ---- zsh

_ZSH = """\
#compdef envcheck
# zsh completion for envcheck; made by `envcheck completion zsh`
_envcheck() {{
    local command=check
    local -a commands
    commands=(
{commands}
    )
    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
        _describe command commands
        return
    fi
    if (( CURRENT > 2 )) && (( ${{commands[(I)$words[2]:*]}} )); then
        command=$words[2]
        words=(envcheck "${{(@)words[3,-1]}}")
        (( CURRENT-- ))
    fi
    case $command in
{cases}
    esac
}}
# sourced: say whose it is; as a file of $fpath: be it
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _envcheck "$@"; else compdef _envcheck envcheck; fi
"""


def _zsh(options: Mapping[str, Sequence[Option]], about: Mapping[str, str]) -> str:
    commands = "\n".join(f"        '{command}:{text}'" for command, text in about.items())
    cases = []
    for command, mine in options.items():
        specs = [f"'*{name}[{one.about}]{_zsh_value(one)}'" for one in mine for name in one.spellings]
        arguments = [one for one in mine if not one.spellings and (one.values or one.files)]
        specs += [f"'*{_zsh_value(one)}'" for one in arguments[:1]]  # all of one kind, and a second rest is an error
        specs += ["'*::command:_normal'"] if command == "run" else []
        cases.append(f"    {command})\n        _arguments \\\n            " + " \\\n            ".join(specs) + "\n        ;;")
    return _ZSH.format(commands=commands, cases="\n".join(cases))


def _zsh_value(one: Option) -> str:
    if not one.takes:
        return ""
    return f":value:({' '.join(one.values)})" if one.values else ":file:_files" if one.files else ":value: "


# ---- fish


def _fish(options: Mapping[str, Sequence[Option]], about: Mapping[str, str]) -> str:
    others = " ".join(command for command in options if command != "check")
    lines = [
        "# fish completion for envcheck; made by `envcheck completion fish`",
        "complete -c envcheck -f",
        *(f"complete -c envcheck -n __fish_use_subcommand -a {command} -d '{text}'" for command, text in about.items()),
    ]
    for command, mine in options.items():
        given = f"not __fish_seen_subcommand_from {others}" if command == "check" else f"__fish_seen_subcommand_from {command}"
        for one in mine:
            names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in one.spellings]
            takes = ["-r -F" if one.files and not one.values else "-x"] if one.takes and names else ["-F"] if one.files else []
            words = [f"-a '{' '.join(one.values)}'"] if one.values else []
            if names or words or takes:
                lines.append(" ".join(["complete -c envcheck", f"-n '{given}'", *names, *takes, *words, f"-d '{one.about}'"]))
    return "\n".join(lines) + "\n"
