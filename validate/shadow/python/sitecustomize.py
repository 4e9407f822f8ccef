"""Loads gpuplan's hook where `gpuplan shadow` started this Python; otherwise does nothing.

Python imports the first `sitecustomize` on sys.path at its start. This one hides the next (a distribution's, conda's,
the user's own), so it loads that too, as if it had been found itself.
"""

import os
import sys


def _install_hook():
    try:
        import gpuplan_shadow_hook

        gpuplan_shadow_hook.install()
    except Exception as error:  # a script must run even where its report cannot be made
        sys.stderr.write("gpuplan shadow: the Python hook did not load: %r\n" % (error,))


def _load_hidden():
    import importlib.machinery
    import importlib.util

    here = os.path.dirname(os.path.realpath(__file__))
    others = [path for path in sys.path if os.path.realpath(path or os.curdir) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)  # what it raises, site.py reports, as it does without us


if os.environ.get("GPUPLAN_SHADOW_SESSION") and sys.version_info >= (3, 8):
    _install_hook()
if sys.version_info >= (3, 5):
    _load_hidden()
