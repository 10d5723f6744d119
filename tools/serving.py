"""A server for the time of a measurement, and the options that a tool passes on to it."""
import contextlib
import subprocess
import sys


def arguments():
    """(the tool's own, those behind "--", which it passes on)"""
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    return sys.argv[1:cut], sys.argv[cut + 1:]


@contextlib.contextmanager
def serving(shimmy, model, *options):
    """Starts it and gives its port once it listens."""
    server = subprocess.Popen([shimmy, "serve", "--model-path", model, "--bind", "127.0.0.1:0", "--log", "off", *options],
                              stdout=subprocess.PIPE, text=True)
    try:
        yield int(server.stdout.readline().rsplit(":", 1)[1])
    finally:
        server.terminate()
        server.wait()
