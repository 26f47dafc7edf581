"""The manual page and the completion have every command and option of the command's own help."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import dqcodec
from dqcodec.command.cli import main

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(dqcodec.__file__).parents[1])}


def manual():
    return CliRunner().invoke(main, ["manual"]).stdout


def test_the_manual_has_every_command_and_option():
    text = manual().replace("\\-", "-")
    for name, command in main.commands.items():
        assert f".SS dqcodec {name} " in text and command.get_short_help_str(60).rstrip(".") in text
        for option in command.params:
            assert not isinstance(option, click.Option) or all(each in text for each in option.opts)


def test_without_docstrings_there_is_no_manual_but_an_error_that_says_so():
    command = [sys.executable, "-OO", "-m", "dqcodec", "manual"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
    assert (done.returncode, done.stdout) == (3, "") and "python -OO" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff")
def test_groff_formats_the_manual_without_a_warning():
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tascii", "-P-cbou"], input=manual(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and not done.stderr
    assert "dqcodec compress -r photos -o packed/ -j 4" in done.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_commands_and_options():
    script = f"""
        dqcodec() {{ "{sys.executable}" -m dqcodec "$@"; }}
        eval "$(dqcodec completion bash)"
        complete -p dqcodec
        "{sys.executable}" -m dqcodec > /dev/null 2>&1
        COMP_WORDS="dqcodec decompress --cr" COMP_CWORD=2 _DQCODEC_COMPLETE=bash_complete dqcodec
        COMP_WORDS="dqcodec insp" COMP_CWORD=1 _DQCODEC_COMPLETE=bash_complete dqcodec
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
    assert "_dqcodec_completion" in done.stdout and "plain,--crop" in done.stdout and "plain,inspect" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_completion(shell):
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0 and "_DQCODEC_COMPLETE" in done.stdout
