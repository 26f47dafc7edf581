"""Ctrl-C during training."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts() -> Iterator[threading.Event]:
    """Ctrl-C sets the event, so that the current step completes. A second Ctrl-C raises KeyboardInterrupt."""
    interrupted = threading.Event()

    def interrupt(number, frame):
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    previous = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, previous)
