"""`completion`: a script that makes a shell complete commands, flags and their words, made from the parsers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from sidecar.cli.arguments import typed
from sidecar.readers import word

PROGRAM: Final = "cpuset-sidecar"

SHELLS: Final = ("bash", "zsh", "fish")

_EXAMPLES: Final = """examples:
  cpuset-sidecar completion bash > /etc/bash_completion.d/cpuset-sidecar
  cpuset-sidecar completion zsh > /usr/local/share/zsh/site-functions/_cpuset-sidecar
  cpuset-sidecar completion fish > ~/.config/fish/completions/cpuset-sidecar.fish
"""

_BASH: Final = """_cpuset_sidecar() {{
    local typed=${{COMP_WORDS[COMP_CWORD]}} words
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands}"
    else
        case ${{COMP_WORDS[1]}} in
{cases}
        esac
        case $typed in -*) ;; *) words= ;; esac
        [ "${{COMP_WORDS[1]}}" = help ] && words="{commands}"
    fi
    COMPREPLY=($(compgen -W "$words" -- "$typed"))
    case $COMP_CWORD:${{COMP_WORDS[1]}}:$typed in
        *:-*) ;;
        2:{owners}:*)
            while IFS= read -r words; do
                case $words in
                    "" | *[!A-Za-z0-9_.@-]*) ;;
                    "$typed"*) COMPREPLY+=("$words") ;;
                esac
            done < <(cpuset-sidecar status --format '{{{{.Name}}}}' 2>/dev/null)
            ;;
    esac
}}
complete -o default -F _cpuset_sidecar cpuset-sidecar
"""
"""`-o default`: where nothing fits, the names of files. Names of containers are read and compared, and never expanded:
a name that a shell would take for more than a word is left out.
"""

_TAKES: Final = "container"
"""The argument whose words are names of containers."""

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
    flags = {name: " ".join(_flags(parser)) for name, parser in commands.items()}
    cases = "\n".join(f'        {name}) words="{words}" ;;' for name, words in flags.items())
    owners = ":* | 2:".join(_naming(commands))
    made = _BASH.format(commands=" ".join(commands), cases=cases, owners=owners)
    return _ZSH + made if shell == "zsh" else made


def _naming(commands: Mapping[str, argparse.ArgumentParser]) -> list[str]:
    """Return the commands that take the name of a container."""
    return [name for name, parser in commands.items() if any(each.dest == _TAKES for each in parser._actions)]  # noqa: SLF001  # no public name


def _flags(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return {
        flag: action
        for action in parser._actions  # noqa: SLF001  # no public name
        for flag in action.option_strings
        if flag.startswith("--")
    }


def _fish(commands: Mapping[str, argparse.ArgumentParser], helps: Mapping[str, str]) -> Iterator[str]:
    owners = _quoted(f"__fish_seen_subcommand_from {' '.join(_naming(commands))}")
    known = _quoted(f"({PROGRAM} status --format '{{{{.Name}}}}' 2>/dev/null)")
    yield f"complete -c {PROGRAM} -f -n {owners} -a {known}"
    for name, parser in commands.items():
        yield f"complete -c {PROGRAM} -f -n __fish_use_subcommand -a {name} -d {_quoted(helps.get(name, ''))}"
        for flag, action in _flags(parser).items():
            takes = "" if action.nargs == 0 else " -r"
            seen = _quoted(f"__fish_seen_subcommand_from {name}")
            yield f"complete -c {PROGRAM} -n {seen} -l {flag[2:]}{takes} -d {_quoted(action.help or '')}"


def _quoted(text: str) -> str:
    """Return a text between single quotes, as fish reads it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
