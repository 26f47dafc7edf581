"""Cleaning up when a process must end at once: temporary files are removed, other processes are ended.

Python runs signal handlers in the main thread, and only after a running compiled loop returns. So here another thread
receives the signal, runs the registered actions, and ends the process.
"""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

_SECONDS = 1.5  # time limit for all actions

_lock = threading.RLock()  # the process does not end while a thread holds it
_actions: dict[object, Callable[[], object]] = {}


@contextlib.contextmanager
def at_end(action: Callable[[], object]) -> Iterator[None]:
    """Inside this context, `action` runs before the process ends. The last one registered runs first; errors are
    ignored."""
    key = object()
    with _lock:
        _actions[key] = action
    try:
        yield
    finally:
        with _lock:
            _actions.pop(key, None)


def not_ending() -> contextlib.AbstractContextManager:
    """Inside this context the process does not end. Use it briefly, while something is created that needs cleaning
    up."""
    return _lock


def end(code: int, last: Callable[[], object] = lambda: None) -> NoReturn:
    """Run all actions, then `last`, and end the process with exit code `code`. Any thread may call it.

    The process ends after 1.5 seconds even if an action still runs.
    """

    def act() -> None:
        for action in (*reversed(_actions.values()), last):
            with contextlib.suppress(Exception):
                action()

    _lock.acquire(timeout=_SECONDS)  # never released
    actions = threading.Thread(target=act, daemon=True)
    actions.start()
    actions.join(_SECONDS)
    os._exit(code)


def end_with(wait: Callable[[], object]) -> None:
    """End the process when `wait` returns; another thread calls it. So a worker process ends with its parent."""

    def watch() -> None:
        wait()
        end(0)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def ending_by_signals(tell: Callable[[signal.Signals], object]) -> Iterator[None]:
    """Inside this context, a signal ends the process with exit code 128 + its number, after the actions and
    tell(signal).

    Ignored signals stay ignored (nohup). In another thread than the main one, this does nothing.
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
    """A signal's handler: it does nothing, because Python has already written the number to the socket."""


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Inside this context, this thread does not receive the signals; the processes that it starts never do."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def _forked() -> None:
    """The child of a fork does not clean up for its parent, and does not send it signals."""
    global _lock
    _lock = threading.RLock()
    _actions.clear()
    for number in SIGNALS:
        if signal.getsignal(number) is _noticed:
            signal.signal(number, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
