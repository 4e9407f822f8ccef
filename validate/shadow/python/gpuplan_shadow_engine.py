"""What a serving engine logs of its memory goes into the report, in its own words."""

import logging
import re

OF_SGLANG = re.compile(r"Load weight end|KV Cache is allocated|max_total_num_tokens=\d|[Nn]ot enough memory")


def watch(after_import, session, safe):
    after_import("sglang.version", safe(lambda module: repeat(session, "SGLang", module.__version__, OF_SGLANG)))


def repeat(session, engine, version, pattern):
    """The lines of the engine's loggers that `pattern` finds. Records are looked at where they are made, since the names
    of the loggers, their filters and handlers change with the engine's versions."""
    make, package = logging.getLogRecordFactory(), engine.lower() + "."

    def made(name, *args, **kwargs):
        record = make(name, *args, **kwargs)
        try:
            text = record.getMessage() if name.startswith(package) else ""
            if pattern.search(text):
                session.write({"event": "engine", "name": engine + " " + version, "line": text.splitlines()[0]})
        except Exception:  # a record whose arguments do not fit its text: its own handlers say so
            pass
        return record

    logging.setLogRecordFactory(made)
