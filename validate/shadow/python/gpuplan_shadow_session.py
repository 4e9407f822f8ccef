"""A process's side of a shadow session (validate/shadow/session.h): the settings it reads, the events it writes."""

import os
import sys
import time


class Session:
    """Where events go. A forked child has a file of its own, and writes to it only once it `begin`s."""

    def __init__(self, directory):
        self.directory = directory
        self.settings = read_settings(os.path.join(directory, "session"))
        self.fork()

    def fork(self):
        """Forgets what the parent process has reported."""
        self.pid = os.getpid()
        self.started = time.monotonic()
        self.said = set()

    def write(self, event):
        """Appends one line, at once and whole, so that processes and crashes cannot mix or lose lines."""
        import json

        line = json.dumps(event, ensure_ascii=True, default=str) + "\n"
        path = os.path.join(self.directory, "events.%d.jsonl" % os.getpid())
        try:
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
            try:
                os.write(file, line.encode("ascii"))
            finally:
                os.close(file)
        except OSError:
            pass  # a full disk, or a session that is over: nowhere to say so

    def unknown(self, what):
        """Something that zeros in place of values, or no GPU, leave open. Written once per text."""
        if what not in self.said:
            self.said.add(what)
            self.write({"event": "unknown", "what": what})

    def problem(self, text, code=0):
        """`code`: the exit code that the problem calls for; 0 where the script goes on without a part of its report."""
        if text not in self.said:
            self.said.add(text)
            self.write({"event": "problem", "code": code, "text": text})


def read_settings(path):
    """The settings that concern Python. Absent keys have the defaults of session.h."""
    text = {}
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                key, equals, value = line.rstrip("\n").partition("=")
                if equals:
                    text[key] = value
    except OSError:
        pass
    return Settings(text)


class Settings:
    def __init__(self, text):
        def number(key, default):
            try:
                return int(text.get(key, default))
            except ValueError:
                return default

        self.text = text  # every key, for what this file does not know
        self.devices = number("devices", 1)
        self.peers = number("peers", 0)  # 0 none, 1 real, 2 imagined
        self.world = number("world", 1)
        self.rank = number("rank", 0)
        self.steps = number("steps", 0)
        self.until_stable = number("until_stable", 0) != 0
        self.values = number("values", 1 << 18)  # elements; 0: off
        self.seed = number("seed", 0)
        self.routing = ("drawn", "balanced", "worst")[number("routing", 0) % 3]
        self.no_compile = number("no_compile", 0) != 0
        self.python_lines = number("python_lines", 1) != 0
        self.snapshot = text.get("snapshot", "")
        self.learn = number("learn", 0) != 0


def guarded(session, what):
    """A decorator for what runs inside the script: an error of ours becomes a problem, never the script's. SystemExit
    and KeyboardInterrupt pass."""
    import functools

    def decorate(function):
        @functools.wraps(function)
        def safe(*args, **kwargs):
            try:
                return function(*args, **kwargs)
            except Exception as error:
                session.problem("%s: %s: %s" % (what, type(error).__name__, first_line(error)))
                return None

        return safe

    return decorate


def first_line(error):
    lines = str(error).splitlines()
    return lines[0] if lines else ""


def say(text):
    """One line for the user, beside the script's own output."""
    try:
        sys.stderr.write("gpuplan shadow: " + text + "\n")
        sys.stderr.flush()
    except Exception:
        pass
