"""The `dqcodec` command. Each command imports what it needs when it runs, so that --help is instant.

Per-file lines and totals go to stderr, images and --json to stdout. Exit codes: 0 ok, 1 some files failed, 2 wrong
usage, 3 nothing done, 128 + number ended by a signal.
"""

from __future__ import annotations

import signal
from typing import Any

import click

from dqcodec import __version__
from dqcodec.base import ending
from dqcodec.command import streams
from dqcodec.command import training as training_cli
from dqcodec.command.bench import bench
from dqcodec.command.compress import compress
from dqcodec.command.decompress import decompress, verify
from dqcodec.command.inspect import inspect
from dqcodec.command.manual import completion, manual
from dqcodec.command.sample import sample
from dqcodec.command.show import info, list_images, models


class _Commands(click.Group):
    """The commands, in the order of their use. Standard streams are made safe first."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        streams.prepare()
        return super().main(*arguments, **options)

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with streams.one_line_errors():  # of --help and --version
            return super().make_context(*arguments, **options)

    def invoke(self, context: click.Context) -> Any:
        with streams.one_line_errors():
            return super().invoke(context)

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dqcodec")
def main() -> None:
    """Lossless image compression with trained models.

    \b
    dqcodec compress photo.png          -> photo.png.dqc
    dqcodec compress photos -o set.dqc  -> all images in one archive
    dqcodec decompress photo.png.dqc    -> photo.png
    """
    click.get_current_context().with_resource(ending.ending_by_signals(_print_end))


def _print_end(number: signal.Signals) -> None:
    streams.print_line(f"dqcodec: ended by {number.name}; files that were being written are removed")


for _command in (compress, decompress, verify, list_images, info, inspect, models, sample, bench):
    main.add_command(_command)
for _command in (training_cli.train, training_cli.evaluate, training_cli.export, manual, completion):
    main.add_command(_command)
