"""tools/loadtest for a short time: a server under many clients of every kind does what it should, and the tool can tell.

Under ThreadSanitizer and AddressSanitizer too, where it is the widest look at the server's threads together.
"""
import json
import subprocess
import sys

from support import EXE, MODELS, ROOT, SANITIZED

SMOLLM2 = MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf"


def run(options, serve):
    done = subprocess.run([sys.executable, "-B", ROOT / "tools/loadtest", SMOLLM2, "--shimmy", EXE, *map(str, options),
                           "--", "--device", "cpu", "--threads", "2", *map(str, serve)], capture_output=True, text=True, timeout=800)
    print(done.stdout, done.stderr)
    assert "Sanitizer" not in done.stderr
    return done


def loadtest(tmp_path, options, serve):
    """(exit code, what was found)"""
    found = tmp_path / "found.json"
    done = run(["--json", found, *options], serve)
    return done.returncode, json.loads(found.read_text())


SMALL = ["--questions", 6, "--words", 20, "--answer", 8] if SANITIZED else ["--questions", 24, "--words", 200, "--answer", 32]


def test_many_clients_of_every_kind_at_once(tmp_path):
    """For so short a time memory still fills, so that its growth is not judged."""
    code, found = loadtest(tmp_path, [*SMALL, "--clients", 24, "--seconds", 20, "--growth", 1000],
                           ["--parallel", 8, "--queue", 32, "--ctx", 1024])
    assert code == 0 and found["violations"] == []
    kinds = {"whole", "stream"} if SANITIZED else {"whole", "stream", "slow writer", "slow reader", "leaves"}
    assert kinds <= set(found["requests"])  # ThreadSanitizer lets thirty requests through
    assert found["answer_tokens"]["usage"] == found["answer_tokens"]["counted"] > 0


def test_what_must_not_be_is_told(tmp_path):
    """A queue too short for the clients: some get a 503."""
    code, found = loadtest(tmp_path, [*SMALL[:1], 2, *SMALL[2:], "--clients", 8, "--seconds", 3, "--growth", 1000],
                           ["--parallel", 1, "--queue", 1, "--ctx", 1024])
    assert code == 1 and found["errors"]["errors"] > 0 and any("503" in text for text in found["violations"])


def test_a_context_too_short_for_the_questions_is_said():
    done = run([*SMALL, "--seconds", 1], ["--ctx", 32])
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "--words" in done.stderr and "context is 32 tokens" in done.stderr
