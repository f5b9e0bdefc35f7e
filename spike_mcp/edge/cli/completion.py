"""Completion scripts for bash, zsh and fish, made from the same table as the help pages."""

from __future__ import annotations

import argparse

from spike_mcp.edge.cli.parser import Parser, add_globals
from spike_mcp.edge.cli.verbs import VERBS, command

HUNK_VERBS = ("approve", "reject", "show", "comment", "diff")
"""Verbs whose first argument is a hunk: completed with the ids that are there now."""

FILE_VERBS = ("apply", "diff", "init", "restore", "verify")
"""Verbs that take file names."""


def script(shell: str) -> str:
    """The script for one shell."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()


def _actions(verb: str) -> list[argparse.Action]:
    parser = Parser(verb)
    what = command(verb)
    if what.options is not None:
        what.options(parser)
    add_globals(parser)
    return parser.listed


def _words(verb: str) -> str:
    """Options of a verb and the fixed words that its arguments may be."""
    found = [flag for action in _actions(verb) for flag in action.option_strings]
    for action in _actions(verb):
        if not action.option_strings and action.choices:
            found += map(str, action.choices)
    if verb == "help":
        found += VERBS
    if verb == "client-config":
        from spike_mcp.edge.clients import CLIENTS

        found += CLIENTS
    return " ".join(found)


def _values(action: argparse.Action) -> str:
    """The words that an option may be followed by, "" where they are not known."""
    if "--client" in action.option_strings:
        from spike_mcp.edge.clients import PROGRAMS

        return " ".join(PROGRAMS)
    return " ".join(map(str, action.choices or ()))


def _choices() -> dict[str, str]:
    """Options whose values are known: flag -> the values."""
    return {
        flag: values
        for verb in VERBS
        for action in _actions(verb)
        if (values := _values(action))
        for flag in action.option_strings
    }


def _takes_value() -> list[str]:
    """Options after which a value follows: file names are offered there."""
    found = [
        flag
        for verb in VERBS
        for action in _actions(verb)
        if action.nargs != 0
        for flag in action.option_strings
    ]
    return sorted(set(found) - _choices().keys() - {"--spike"})


def _bash() -> str:
    choices = "\n".join(
        f'    {flag}) COMPREPLY=($(compgen -W {_quoted(words)} -- "$current")); return ;;'
        for flag, words in sorted(_choices().items())
    )
    cases = "\n".join(f"    {verb}) words={_quoted(_words(verb))} ;;" for verb in VERBS)
    return f"""\
# bash completion for spike: source <(spike completion bash)
_spike() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
  local verb="" words="" at
  COMPREPLY=()
  for ((at = 1; at < COMP_CWORD; at++)); do
    case "${{COMP_WORDS[at]}}" in
      --spike|--color) ((at++)) ;;
      -*) ;;
      *) verb="${{COMP_WORDS[at]}}"; break ;;
    esac
  done
  case "$previous" in
    --spike) COMPREPLY=($(compgen -W "$(spike list --names 2>/dev/null)" -- "$current")); return ;;
{choices}
    {"|".join(_takes_value())}) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  case "$verb" in
    "") words={_quoted(" ".join((*VERBS, "--spike", "--json", "--color", "--help")))} ;;
{cases}
  esac
  case "$verb" in
    {"|".join(HUNK_VERBS)}) words="$words $(spike map --ids 2>/dev/null)" ;;
    rm) words="$words $(spike list --names 2>/dev/null)" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  case "$verb" in
    {"|".join(FILE_VERBS)}) COMPREPLY+=($(compgen -f -- "$current")) ;;
  esac
}}
complete -o filenames -F _spike spike
"""


def _zsh() -> str:
    verbs = "\n".join(
        f"    {_quoted(f'{verb}:{summary}')}" for verb, (_g, _m, summary) in VERBS.items()
    )
    cases = "\n".join(f"    {verb}) offered=({_words(verb)}) ;;" for verb in VERBS)
    return f"""\
# zsh completion for spike: source <(spike completion zsh)
_spike() {{
  local verb="" at
  local -a verbs offered
  for ((at = 2; at < CURRENT; at++)); do
    case "${{words[at]}}" in
      --spike|--color) ((at++)) ;;
      -*) ;;
      *) verb="${{words[at]}}"; break ;;
    esac
  done
  verbs=(
{verbs}
  )
  if [[ -z "$verb" ]]; then
    _describe 'verb' verbs
    return
  fi
  case "$verb" in
{cases}
  esac
  case "$verb" in
    {"|".join(HUNK_VERBS)}) offered+=(${{(f)"$(spike map --ids 2>/dev/null)"}}) ;;
  esac
  compadd -a offered
  _files
}}
compdef _spike spike
"""


def _fish() -> str:
    lines = [
        "# fish completion for spike: spike completion fish | source",
        "complete -c spike -f",
    ]
    for verb, (_group, _module, summary) in VERBS.items():
        lines.append(f"complete -c spike -n __fish_use_subcommand -a {verb} -d {_quoted(summary)}")
    for verb in VERBS:
        seen = f"-n '__fish_seen_subcommand_from {verb}'"
        for action in _actions(verb):
            flags = [flag for flag in action.option_strings if flag.startswith("--")]
            value = _fish_value(action)
            lines += [
                f"complete -c spike {seen} -l {flag[2:]}{value} -d {_quoted(action.help or '')}"
                for flag in flags
            ]
            if not action.option_strings and action.choices:
                words = " ".join(map(str, action.choices))
                lines.append(f"complete -c spike {seen} -a {_quoted(words)}")
    hunks = " ".join(HUNK_VERBS)
    seen = f"-n '__fish_seen_subcommand_from {hunks}'"
    lines.append(f"complete -c spike {seen} -a '(spike map --ids 2>/dev/null)'")
    files = " ".join(FILE_VERBS)
    lines.append(f"complete -c spike -n '__fish_seen_subcommand_from {files}' -F")
    return "\n".join(lines) + "\n"


def _fish_value(action: argparse.Action) -> str:
    """What follows an option: nothing, one of some words, a spike, anything."""
    if action.nargs == 0:
        return ""
    if "--spike" in action.option_strings:
        return " -x -a '(spike list --names 2>/dev/null)'"
    values = _values(action)
    return f" -x -a {_quoted(values)}" if values else " -r"


def _quoted(text: str) -> str:
    """A shell word in single quotes."""
    return "'" + text.replace("'", "'\\''") + "'"
