"""What the python tests share: where the program, the models and ../shared are, and how a command is run.

Set by ctest (tests/CMakeLists.txt), with defaults for a run by hand from the checkout:
    SHIMMY_EXE      the program under test           build/release/shimmy
    SHIMMY_MODELS   folder of the test models        build/models
    AIRFRAME_SHARED other people's vocabularies and templates, beside the checkout; tests that need it skip without
"""
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXE = pathlib.Path(os.environ.get("SHIMMY_EXE", ROOT / "build/release/shimmy")).resolve()
MODELS = pathlib.Path(os.environ.get("SHIMMY_MODELS", ROOT / "build/models")).resolve()
SHARED = pathlib.Path(os.environ.get("AIRFRAME_SHARED", ROOT.parent / "shared")).resolve()
VECTORS = ROOT / "tests/vectors"
SANITIZED = bool(os.environ.get("SHIMMY_SANITIZED"))  # the program under test is slow


def shimmy(*arguments, stdin=None, check=True, env=None, timeout=600, exe=EXE):
    """Runs the program; the result has .stdout, .stderr (bytes) and .returncode."""
    done = subprocess.run([exe, *map(str, arguments)], input=stdin, capture_output=True, timeout=timeout,
                          env={**os.environ, **(env or {})})
    if check:
        assert done.returncode == 0, f"{arguments}: exit {done.returncode}\n{done.stderr.decode(errors='replace')}"
    return done


def shimmy_json(*arguments, **options):
    return json.loads(shimmy(*arguments, "--json", **options).stdout)


def logits(model, tokens, *arguments, positions="all", **options):
    """{position: [logits]} of a list of token ids, of an encoder {position: [state]}; the text of the numbers is kept if `raw`."""
    ids = ",".join(map(str, tokens))
    out = shimmy("logits", model, "--tokens", "-", "--positions", positions, *arguments, stdin=ids.encode(), **options)
    rows = [json.loads(line) for line in out.stdout.splitlines()]
    return {row["position"]: row["logits"] if "logits" in row else row["state"] for row in rows}


def answers(spec):
    """What `logits` should give at the vector's positions."""
    return spec["rows" if spec["kind"] == "embeddings" else "logits"]


def vector(kind, name):
    return json.loads((VECTORS / kind / f"{name}.json").read_text())
