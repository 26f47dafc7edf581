"""`dqcodec manual` and `dqcodec completion`: made from the commands' own help, which is their docstrings."""

from __future__ import annotations

import re
from inspect import cleandoc

import click
from click.shell_completion import get_completion_class

from dqcodec import __version__
from dqcodec.command.failures import Failure

_SHELLS = ("bash", "zsh", "fish")
_EXIT_CODES = (
    ("0", "All went well."),
    ("1", "Some files failed."),
    ("2", "The usage was wrong."),
    ("3", "Nothing was done."),
)


@click.command()
def manual() -> None:
    """Print the manual page.

    \b
    dqcodec manual | man -l -
    dqcodec manual > ~/.local/share/man/man1/dqcodec.1
    """
    root = click.get_current_context().find_root()
    if root.command.help is None:
        raise Failure("there is no help under python -OO, which strips docstrings")
    click.echo(page(root), nl=False)


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print the completion of commands for a shell.

    \b
    eval "$(dqcodec completion bash)"    # in ~/.bashrc; zsh in ~/.zshrc
    dqcodec completion fish > ~/.config/fish/completions/dqcodec.fish
    """
    root = click.get_current_context().find_root()
    click.echo(get_completion_class(shell)(root.command, {}, "dqcodec", "_DQCODEC_COMPLETE").source())


def page(root: click.Context) -> str:
    """The manual page of a group of commands, in roff's man macros."""
    group = root.command
    parts = [
        f'.TH DQCODEC 1 "" "dqcodec {_escaped(__version__)}" "User Commands"',
        ".SH NAME", f"dqcodec \\- {_escaped(group.get_short_help_str(200).rstrip('.'))}",
        ".SH SYNOPSIS", ".B dqcodec", "\\fICOMMAND\\fR [\\fIOPTIONS\\fR] ...",
        ".SH DESCRIPTION", *_prose(group.help),
        ".SH COMMANDS",
    ]  # fmt: skip
    for name, command in group.commands.items():
        if not command.hidden:
            parts += _command(command, click.Context(command, info_name=name, parent=root))
    parts.append(".SH EXIT STATUS")
    for code, meaning in _EXIT_CODES:
        parts += [".TP", f".B {code}", meaning]
    return "\n".join(parts) + "\n"


def _command(command: click.Command, context: click.Context) -> list[str]:
    """A command: how it is called, what it does, its options."""
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f".SS dqcodec {_escaped(context.info_name)} {_escaped(usage)}", *_prose(command.help)]
    for option in (each for each in command.get_params(context) if isinstance(each, click.Option)):
        names, text = option.get_help_record(context)
        lines += [".TP", f".B {_escaped(names)}", _escaped(" ".join(text.split()))]
    return lines


def _prose(text: str) -> list[str]:
    """Help as paragraphs; those that start with a backspace keep their lines."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", cleandoc(text)):
        rows = paragraph.split("\n")
        if rows[0] == "\b":
            lines += [".PP", ".nf", ".RS", *map(_escaped, rows[1:]), ".RE", ".fi"]
        else:
            lines += [".PP", *map(_escaped, rows)]
    return lines


def _escaped(text: str) -> str:
    """A text as roff shows it."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text
