"""The program render_lines (render_lines.c) as an object: templates and requests in, texts with origins out."""
import json
import os
import pathlib
import subprocess

from support import ROOT

PROGRAM = pathlib.Path(os.environ.get("SHIMMY_BUILD", ROOT / "build/check")) / "tests/render_lines"


class Lines:
    def __init__(self, **common):
        self.common = common

    def __enter__(self):
        self.process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait() == 0

    def render(self, template, request, **more):
        """{"text", "origin"} or {"error", "status"}."""
        line = {"template": template, "request": request, **self.common, **more}
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"render_lines ended at {template!r}"
        return json.loads(answer)
