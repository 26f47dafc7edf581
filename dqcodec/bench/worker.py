"""A process for each codec, so that its memory and its crashes are its own; images go in, Rows come out."""

from __future__ import annotations

import itertools
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue

from dqcodec.base import ending
from dqcodec.base.errors import one_line
from dqcodec.bench.codecs import Codec
from dqcodec.bench.images import Image
from dqcodec.bench.measure import Row, measure, warm_up


@dataclass(frozen=True)
class Options:
    """threads: for each codec that can use several. jobs: images at a time. repeat: times each, the best counts."""

    threads: int = 1
    jobs: int = 1
    repeat: int = 1


class Worker:
    """One codec in a process that starts when it is first needed, and again after it died."""

    def __init__(self, codec: Codec, options: Options):
        self._codec, self._options = codec, options
        self._process = self._connection = None
        self._closed = False

    def measure(self, image: Image) -> Row:
        if self._closed:
            return Row(self._codec.name, image.name, error="interrupted")
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
        self._closed = True
        if self._process is not None:
            self._process.kill()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would begin with this process's memory
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._codec, self._options), daemon=True)
        self._process.start()
        theirs.close()  # so that its death ends the pipe


def run(
    codecs: Sequence[Codec], images: Sequence[Image], options: Options, see: Callable[[Row], None]
) -> Iterator[list[Row]]:
    """The rows of each image, in order. All codecs code one image before the next, so that they share the machine's
    good and bad times. `see` is shown each row as it comes, by any thread."""
    workers = [[Worker(codec, options) for codec in codecs] for _ in range(options.jobs)]
    idle: SimpleQueue[list[Worker]] = SimpleQueue()
    for team in workers:
        idle.put(team)

    def measure_all(image: Image) -> list[Row]:
        team, rows = idle.get(), []
        for worker in team:
            rows.append(worker.measure(image))
            see(rows[-1])
        idle.put(team)
        return rows

    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            yield from pool.map(measure_all, images)
        finally:  # also where the user interrupts
            for worker in itertools.chain(*workers):
                worker.close()


def _serve(connection: Connection, codec: Codec, options: Options) -> None:
    """What the process does: a Row for each Image, until it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one handles it
    ending.end_with(multiprocessing.parent_process().join)
    failure = None
    try:
        codec.prepare(options.threads)
        warm_up(codec)
    except Exception as error:  # each of its rows says so
        failure = f"does not load: {one_line(error)}"
    while True:
        try:
            image = connection.recv()
        except EOFError:  # the process that started this one is gone
            return
        row = Row(codec.name, image.name, error=failure) if failure else measure(codec, image, options.repeat)
        connection.send(row)
