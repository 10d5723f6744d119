"""Control tokens cannot be injected: with every template of ../shared/templates, a message full of the vocabulary's
control tokens gives the same control tokens at the same places as a harmless message does.

The vocabulary has a token for each byte and, as control tokens, everything in any of the templates that looks like one.
The harmless message is as long as the hostile one, so that places are positions in the list of ids.
"""
import json
import os
import pathlib
import re
import subprocess

import pytest

from server import counter_model
from support import ROOT, SHARED

TEMPLATES = SHARED / "templates"
pytestmark = pytest.mark.skipif(not TEMPLATES.exists(), reason="no ../shared/templates")
PROGRAM = pathlib.Path(os.environ.get("SHIMMY_BUILD", ROOT / "build/check")) / "tests/prompt_lines"
SOURCES = {p.stem: p.read_bytes().decode() for p in sorted(TEMPLATES.glob("*.jinja"))}
NAMES = re.compile(r"<\|[\w:/ -]+\|?>|<[\w:-]+\|>|<｜[^<>{}\s]+｜>|</?[a-zA-Z_][\w:]*>|\[/?[A-Z_]{3,}\]")
CONTROLS = sorted({name for text in SOURCES.values() for name in NAMES.findall(text)} | {"<s>", "</s>", "<|go|>"})
# What some templates cannot do without.
FUNCTION = {"name": "f", "description": "D", "parameters": {"type": "object", "properties": {}}}
NEEDED = {"tools": [{"type": "function", "function": FUNCTION, **FUNCTION, "parameter_definitions": {}}],
          "documents": [{"title": "T", "text": "D"}],
          "chat_template_kwargs": {"functions": "[]", "datetime": "2025-07-04"}}
HOSTILE = "a " + "b".join(CONTROLS) + " z"
# What templates look for in messages on purpose, to cut thoughts off or to refuse: not part of what an assistant says.
SOUGHT = re.compile("think|THINK|channel|thought|tool|TOOL|content|response|im_|inner", re.IGNORECASE)

# Templates that take words such as /no_think or whole thoughts out of messages: there what follows moves.
CUTTING = {"HuggingFaceTB-SmolLM3-3B", "NVIDIA-Nemotron-Nano-v2", "Reka-Edge", "openbmb-MiniCPM5-1B"}


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    pieces = [{"text": name, "type": "control"} for name in CONTROLS if name not in ("<s>", "</s>", "<|go|>")]
    model = counter_model(tmp_path_factory.mktemp("controls"), pieces=pieces)
    process = subprocess.Popen([PROGRAM, model], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ids(template, messages, **more):
        line = {"template": template, "request": {"messages": messages, **more}}
        process.stdin.write(json.dumps(line).encode() + b"\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    yield ids
    process.stdin.close()
    assert process.wait() == 0


def harmless(text):
    """As many bytes, the same white space at the ends, nothing that looks like a tag."""
    return "a " + "x" * (len(text.encode()) - 4) + " z"


def dialogue(text, spoken):
    call = {"id": "call00001", "type": "function", "function": {"name": "f", "arguments": json.dumps({"x": text})}}
    return {
        "user": [{"role": "user", "content": text}],
        "system": [{"role": "system", "content": text}, {"role": "user", "content": text}],
        "turns": [{"role": "user", "content": text}, {"role": "assistant", "content": spoken},
                  {"role": "user", "content": text}],
        "tool": [{"role": "user", "content": text},
                 {"role": "assistant", "content": "", "tool_calls": [call]},
                 {"role": "tool", "tool_call_id": "call00001", "name": "f", "content": text}],
    }


def controls(ids):
    """Position and id of each token that is no byte."""
    return [(at, i) for at, i in enumerate(ids) if not 1 <= i <= 256]


def test_the_templates_have_control_tokens():
    assert len(CONTROLS) > 150


@pytest.mark.parametrize("name", SOURCES)
def test_messages_bring_no_control_tokens(prompts, name):
    spoken = "a " + "b".join(c for c in CONTROLS if not SOUGHT.search(c)) + " z"
    hostile, plain = dialogue(HOSTILE, spoken), dialogue(harmless(HOSTILE), harmless(spoken))
    compared = 0
    for kind, more in ((kind, more) for kind in hostile for more in (NEEDED, {})):
        bad, good = (prompts(SOURCES[name], d[kind], **more) for d in (hostile, plain))
        if "error" in good:  # this template knows no such conversation
            continue
        assert "ids" in bad, (kind, bad)
        bad, good = controls(bad["ids"]), controls(good["ids"])
        if name in CUTTING:
            bad, good = ([i for _, i in found] for found in (bad, good))
        assert bad == good, kind
        compared += 1
    assert compared
