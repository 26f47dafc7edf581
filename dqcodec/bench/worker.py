"""Each codec works in its own process, so that its memory is its own and a crash harms no other codec."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

from dqcodec.base import ending
from dqcodec.base.errors import one_line
from dqcodec.bench.codecs import Codec
from dqcodec.bench.images import Image
from dqcodec.bench.measure import Row, measure, warm_up


@dataclass(frozen=True)
class Options:
    """threads: of each codec that can use several. repeat: how often each image is coded; the best time counts."""

    threads: int = 1
    repeat: int = 1


class Worker:
    """One codec in one process. The process starts at the first image, and again after it died."""

    def __init__(self, codec: Codec, options: Options):
        self._codec, self._options = codec, options
        self._process = self._connection = None

    def measure(self, image: Image) -> Row:
        """The row of the image. If the process dies, the row has an error."""
        if self._process is None:
            self._start()
        try:
            self._connection.send(image)
            return self._connection.recv()
        except (EOFError, OSError):
            self._process.join()
            code, self._process = self._process.exitcode, None
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            return Row(self._codec.name, image.name, error=f"the codec's process died ({how})")

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()

    def _start(self) -> None:
        spawn = multiprocessing.get_context("spawn")  # a fork would share this process's memory
        self._connection, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(theirs, self._codec, self._options), daemon=True)
        self._process.start()
        theirs.close()  # so that recv fails when the process dies


def run(
    codecs: Sequence[Codec], images: Sequence[Image], options: Options, on_row: Callable[[Row], None]
) -> Iterator[list[Row]]:
    """Yield the rows of each image. `on_row` gets each row as soon as it is measured.

    All codecs code one image before the next image begins, so that a slow time of the machine affects all of them.
    """
    workers = [Worker(codec, options) for codec in codecs]
    try:
        for image in images:
            rows = []
            for worker in workers:
                rows.append(worker.measure(image))
                on_row(rows[-1])
            yield rows
    finally:
        for worker in workers:
            worker.close()


def _serve(connection: Connection, codec: Codec, options: Options) -> None:
    """The loop of the process: a Row for each Image, until it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    ending.end_with(multiprocessing.parent_process().join)
    failure = None
    try:
        codec.prepare(options.threads)
        warm_up(codec)
    except Exception as error:  # goes to each of its rows
        failure = f"does not load: {one_line(error)}"
    while True:
        try:
            image = connection.recv()
        except EOFError:  # the parent process is gone
            return
        row = Row(codec.name, image.name, error=failure) if failure else measure(codec, image, options.repeat)
        connection.send(row)
