"""A process that has to end at once puts right what it would leave behind first: temporary files, other processes.

Python handles a signal in its main thread, and only after the loop of machine code that this thread is in. Here another
thread learns of the signal, puts things right, and ends the process.
"""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

_SECONDS = 1.5  # for all that is put right

_lock = threading.RLock()  # who holds it delays the end
_actions: dict[object, Callable[[], object]] = {}


@contextlib.contextmanager
def at_end(action: Callable[[], object]) -> Iterator[None]:
    """While this lasts: the end of the process begins with the action, which may fail. The last one is done first."""
    key = object()
    with _lock:
        _actions[key] = action
    try:
        yield
    finally:
        with _lock:
            _actions.pop(key, None)


def not_ending() -> contextlib.AbstractContextManager:
    """While this lasts, the process does not end: for a moment in which something comes to be that is to be put right."""
    return _lock


def end(code: int, last: Callable[[], object] = lambda: None) -> NoReturn:
    """Do all actions, then the last one, and end the process, from any thread; what takes too long is not waited for."""

    def act() -> None:
        for action in (*reversed(_actions.values()), last):
            with contextlib.suppress(Exception):
                action()

    _lock.acquire(timeout=_SECONDS)  # and never let go
    actions = threading.Thread(target=act, daemon=True)
    actions.start()
    actions.join(_SECONDS)
    os._exit(code)


def end_with(wait: Callable[[], object]) -> None:
    """End the process when `wait` returns, which another thread calls; that is how it ends with its parent."""

    def watch() -> None:
        wait()
        end(0)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def ending_by_signals(tell: Callable[[signal.Signals], object]) -> Iterator[None]:
    """While this lasts, signals end the process with code 128 + number, after `tell` is called with it.

    Signals that are ignored stay ignored (nohup). Only the main thread can set this; in others it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    receiver, sender = socket.socketpair()
    sender.setblocking(False)

    def watch() -> None:
        with receiver:
            while number := receiver.recv(1):
                if signal.getsignal(number[0]) is _noticed:
                    end(128 + number[0], lambda: tell(signal.Signals(number[0])))

    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    handlers = {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}
    previous = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=watch, daemon=True).start()
    for number in handlers:
        signal.signal(number, _noticed)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(previous)
        sender.close()


def _noticed(number: int, frame: object) -> None:
    """A signal's handler: the number has come through the socket already."""


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """While this lasts, this thread does not get the signals; processes that it starts never do."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def _forked() -> None:
    """The child of a fork has nothing of its parent's to put right, and does not tell it of signals."""
    global _lock
    _lock = threading.RLock()
    _actions.clear()
    for number in SIGNALS:
        if signal.getsignal(number) is _noticed:
            signal.signal(number, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
