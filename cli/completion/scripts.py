"""The completion scripts for bash, zsh and fish, and the protocol between them and `offsetfs`.

At TAB a script calls `offsetfs` with click's protocol: `_OFFSETFS_COMPLETE=bash_complete`, and the command line in
COMP_WORDS. The output has one line per item, beginning with its kind (`completers`). The scripts of click are not used
for three reasons: they add a blank after prefixes (`linger-ms=`), they split values at commas, and they ignore that
bash ends words at `=` and `:`.

`_OFFSETFS_COMPLETE=bash_source offsetfs` prints a script; `offsetfs install-helper` installs all three.
"""

from __future__ import annotations

import os

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

VARIABLE = "_OFFSETFS_COMPLETE"

_BASH = """\
%(complete_func)s() {
    local kind value reply
    reply=$(COMP_WORDS="${COMP_LINE:0:COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null) || return
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
        plain) COMPREPLY+=("$value") ;;
        part) COMPREPLY+=("$value"); compopt -o nospace ;;
        dir) compopt -o dirnames ;;
        file) compopt -o default ;;
        esac
    done <<< "$reply"
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

_ZSH = """\
#compdef %(prog_name)s
%(complete_func)s() {
    local kind value help
    local -a plain part described
    for kind value help in "${(@f)$(COMP_WORDS="${(pj: :)words}" COMP_CWORD=$((CURRENT - 1)) \\
        %(complete_var)s=zsh_complete "$words[1]" 2>/dev/null)}"; do
        case $kind in
        plain) if [[ $help == _ ]]; then plain+=("$value"); else described+=("$value:$help"); fi ;;
        part) part+=("$value") ;;
        dir) _path_files -/ ;;
        file) _path_files ;;
        esac
    done
    (( $#described )) && _describe -V %(prog_name)s described
    (( $#plain )) && compadd -V plain -a plain
    (( $#part )) && compadd -V part -S '' -a part
    return 0
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""

_FISH = """\
function %(complete_func)s
    set -l words (commandline --current-process --tokenize --cut-at-cursor)
    set -l reply (COMP_WORDS=(commandline --current-process --cut-at-cursor | string collect) \\
        COMP_CWORD=(commandline --current-token --cut-at-cursor | string collect) \\
        %(complete_var)s=fish_complete $words[1] 2>/dev/null)
    for line in $reply
        set -l item (string split --max 1 , -- $line)
        switch $item[1]
            case plain part
                echo $item[2]
            case dir
                __fish_complete_directories $item[2]
            case file
                __fish_complete_path $item[2]
        end
    end
end
complete --command %(prog_name)s --no-files --keep-order --arguments '(%(complete_func)s)'
"""


class Bash(BashComplete):
    """bash. It replaces only the text after the last `=` or `:`, so items are cut there."""

    source_template = _BASH

    def source(self) -> str:
        return self.source_template % self.source_vars()

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)[1:]
        return (words, "") if not words or line[-1:].isspace() else (words[:-1], words[-1])

    def complete(self) -> str:
        args, incomplete = self.get_completion_args()
        breaks = os.environ.get("COMP_WORDBREAKS", "=:")
        kept = max((incomplete.rfind(sign) + 1 for sign in "=:" if sign in breaks), default=0)
        items = self.get_completions(args, incomplete)
        return "\n".join(self.format_completion(_cut(item, kept)) for item in items)


def _cut(item: CompletionItem[str], kept: int) -> CompletionItem[str]:
    return CompletionItem(item.value[kept:], type=item.type)


class Zsh(ZshComplete):
    """zsh."""

    source_template = _ZSH


class Fish(FishComplete):
    """fish. The text after a tab is the description of an item."""

    source_template = _FISH


def register() -> None:
    """Register these scripts in click, in place of its own."""
    for completion in (Bash, Zsh, Fish):
        add_completion_class(completion)


def script(shell: str, command: click.Command) -> str:
    """Return the completion script of `command` for a shell: bash, zsh or fish."""
    classes = {completion.name: completion for completion in (Bash, Zsh, Fish)}
    return classes[shell](command, {}, "offsetfs", VARIABLE).source()
