"""A process for each run: PyTorch's allocator and libraries keep what they have once taken."""
import json
import os


def forked(function, *arguments):
    """What `function` returns in a child process. An exception there is a result: PyTorch may refuse a case."""
    r, w = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(r)
        try:
            got = function(*arguments)
        except BaseException as e:
            got = {"error": "%s: %s" % (type(e).__name__, str(e).splitlines()[0] if str(e) else "")}
            if os.environ.get("RECORD_TRACEBACK"):
                import traceback
                traceback.print_exc()
        with os.fdopen(w, "w") as f:
            json.dump(got, f)
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as f:
        text = f.read()
    status = os.waitpid(child, 0)[1]
    return json.loads(text) if text else {"error": "the process ended with status %d" % status}
