"""`completion`: a script that makes a shell complete commands, flags and their words, made from the parsers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from sidecar.cli.arguments import typed
from sidecar.cli.expected_words import expected_words, takes_container
from sidecar.readers import word

PROGRAM: Final = "cpuset-sidecar"

SHELLS: Final = ("bash", "zsh", "fish")

_EXAMPLES: Final = """examples:
  cpuset-sidecar completion bash > /etc/bash_completion.d/cpuset-sidecar
  cpuset-sidecar completion zsh > /usr/local/share/zsh/site-functions/_cpuset-sidecar
  cpuset-sidecar completion fish > ~/.config/fish/completions/cpuset-sidecar.fish
"""

_BASH: Final = """_cpuset_sidecar() {{
    local typed=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}}
    local words="" takes="" flag="" place=0 there=() at word
    case $command in
{flags}
    esac
    case $command in
{takes}
    esac
    for ((at = 2; at < COMP_CWORD; at++)); do
        word=${{COMP_WORDS[at]}}
        if [ "$word" = "=" ]; then
            continue
        elif [ -n "$flag" ]; then
            case $flag in --state-dir | --config) there+=("$flag" "${{word/#\\~\\//$HOME/}}") ;; esac
            flag=""
        elif [[ " $takes " == *" $word "* ]]; then
            flag=$word
        elif [[ $word != -* ]]; then
            place=$((place + 1))
        fi
    done
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands}"
    elif [ -n "$flag" ]; then
        words=""
        [ "$typed" = "=" ] && typed=""
    elif [[ $typed != -* ]]; then
        words=""
        flag=$place
    fi
    case $command:$flag in
{words}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$typed"))
    case $command:$flag in
        {owners})
            while IFS= read -r words; do
                case $words in
                    "" | *[!A-Za-z0-9_.@-]*) ;;
                    "$typed"*) COMPREPLY+=("$words") ;;
                esac
            done < <(cpuset-sidecar status --format '{{{{.Name}}}}' ${{there[@]+"${{there[@]}}"}} 2>/dev/null)
            ;;
    esac
}}
complete -o default -F _cpuset_sidecar cpuset-sidecar
"""
"""A place is a command, and the flag that waits for its value or the number of the word among those of no flag.

`-o default`: where nothing fits, the names of files. Names of containers are read and compared, and never expanded:
a name that a shell would take for more than a word is left out.
"""

_ZSH: Final = """#compdef cpuset-sidecar
autoload -U +X bashcompinit && bashcompinit
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its argument."""
    parser = subparsers.add_parser(
        "completion",
        description="Print a script that makes a shell complete commands and their flags.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", type=typed("SHELL", word(*SHELLS)), metavar="SHELL", help=", ".join(SHELLS))
    parser.set_defaults(func=partial(run, subparsers))


def run(subparsers: argparse._SubParsersAction[argparse.ArgumentParser], args: argparse.Namespace) -> int:
    """Print the script for this shell."""
    helps = {each.dest: each.help or "" for each in subparsers._choices_actions}  # noqa: SLF001  # no public name
    sys.stdout.write(script(args.shell, subparsers.choices, helps))
    return 0


def script(shell: str, commands: Mapping[str, argparse.ArgumentParser], helps: Mapping[str, str]) -> str:
    """Return the script for a shell; `helps` are one line on each command."""
    if shell == "fish":
        return "\n".join(_fish(commands, helps)) + "\n"
    made = _BASH.format(
        commands=" ".join(commands),
        flags="\n".join(f'        {name}) words="{" ".join(_flags(parser))}" ;;' for name, parser in commands.items()),
        takes="\n".join(f'        {name}) takes="{" ".join(_taking(parser))}" ;;' for name, parser in commands.items()),
        words="\n".join(_cases(commands)),
        owners=" | ".join(place for place, action in _places(commands) if takes_container(action)),
    )
    return _ZSH + made if shell == "zsh" else made


def _cases(commands: Mapping[str, argparse.ArgumentParser]) -> Iterator[str]:
    """Yield the lines of a bash `case` with the words of each place; places with the same words are one line."""
    places: dict[tuple[str, ...], list[str]] = {}
    for place, action in _places(commands):
        places.setdefault(expected_words(action), []).append(place)
    for words, at in places.items():
        if words:
            yield f'        {" | ".join(at)}) words="{" ".join(words)}" ;;'


def _places(commands: Mapping[str, argparse.ArgumentParser]) -> Iterator[tuple[str, argparse.Action]]:
    """Yield each place where a word is expected, and its argument."""
    for name, parser in commands.items():
        for flag, action in _taking(parser).items():
            yield f"{name}:{flag}", action
        for number, action in enumerate(_others(parser)):
            yield f"{name}:{number}", action


def _flags(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return {
        flag: action
        for action in parser._actions  # noqa: SLF001  # no public name
        for flag in action.option_strings
        if flag.startswith("--")
    }


def _taking(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """Return the flags that need a value after them."""
    return {flag: each for flag, each in parser._option_string_actions.items() if each.nargs is None}  # noqa: SLF001  # no public name


def _others(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the arguments that are no flags, in their order."""
    return [each for each in parser._actions if not each.option_strings]  # noqa: SLF001  # no public name


def _fish(commands: Mapping[str, argparse.ArgumentParser], helps: Mapping[str, str]) -> Iterator[str]:
    known = f"({PROGRAM} status --format '{{{{.Name}}}}' 2>/dev/null)"
    for name, parser in commands.items():
        yield f"complete -c {PROGRAM} -f -n __fish_use_subcommand -a {name} -d {_quoted(helps.get(name, ''))}"
        seen = _quoted(f"__fish_seen_subcommand_from {name}")
        for action in _others(parser):
            if words := known if takes_container(action) else " ".join(expected_words(action)):
                yield f"complete -c {PROGRAM} -f -n {seen} -a {_quoted(words)}"
        for flag, action in _flags(parser).items():
            words = known if takes_container(action) else " ".join(expected_words(action))
            takes = "" if action.nargs == 0 else f" -x -a {_quoted(words)}" if words else " -r"
            yield f"complete -c {PROGRAM} -n {seen} -l {flag[2:]}{takes} -d {_quoted(action.help or '')}"


def _quoted(text: str) -> str:
    """Return a text between single quotes, as fish reads it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
