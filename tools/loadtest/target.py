"""The server under load: started here, or one that runs already. What it says of itself, and what the system says of it."""
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

from wire import Connection


class Target:
    def __init__(self, options):
        self.process, self.exit_code, self.pid = None, None, options.pid
        if options.url:
            self.locate(options.url)
            return
        if not os.access(options.shimmy, os.X_OK):
            sys.exit(f"loadtest: {options.shimmy}: no such program; run `make` or give --shimmy")
        given = options.serve or ["--parallel", "8", "--queue", str(options.clients), "--ctx", "2048"]
        self.process = subprocess.Popen(
            [options.shimmy, "serve", "--model-path", options.model, "--bind", "127.0.0.1:0", "--log", "off", *given],
            stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        found = re.search(r"https?://\S+", line)
        if not found:
            sys.exit(f"loadtest: the server did not start: {line.strip()}")
        self.locate(found[0])
        self.pid = self.process.pid

    def locate(self, url):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != "http":
            sys.exit(f"loadtest: {url}: only plain http is spoken here")
        self.host, self.port, self.prefix = parts.hostname, parts.port or 80, parts.path.rstrip("/")

    async def metrics(self):
        """Each of the server's metrics, those with labels summed up."""
        connection = await Connection.open(self)
        answer = await connection.exchange("GET", "/metrics", b"")
        connection.close()
        found = {}
        for line in answer.body.decode().splitlines():
            if line and line[0] != "#":
                name, value = line.rsplit(" ", 1)
                name = name.split("{", 1)[0]
                found[name] = found.get(name, 0) + float(value)
        return found

    def resident(self):
        """Bytes, or None where the process is not known."""
        if not self.pid:
            return None
        text = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", text)
        return int(found[1]) * 1024 if found else None

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd")) if self.pid else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.terminate()
            self.exit_code = self.process.wait(60)
