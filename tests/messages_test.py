"""From the messages of a request to the prompt, and from what the model says to content and reasoning_content.

The counter model says a list of pieces after the template's <|go|>, whatever the messages are; /apply-template shows the
prompt itself.
"""
import json
import pathlib

import pytest

from server import EXE, Server, counter_model, events
from support import shimmy_json

USER = {"role": "user", "content": "hi"}
THINKS = "{{ '</think>' if false }}"  # a template that knows the tags and writes none


def serve(folder, pieces, template=None, *arguments):
    if not EXE.exists():
        pytest.skip(f"{EXE} is not built")
    folder = pathlib.Path(folder)
    model = counter_model(folder, pieces=pieces)
    if template is not None:
        (folder / "chat.jinja").write_text(template, encoding="utf-8")
        arguments = ("--chat-template", folder / "chat.jinja", *arguments)
    return Server(EXE, "serve", "--model-path", model, "--bind", "127.0.0.1:0", "--device", "cpu", *arguments)


def dialogue(end="<|go|>"):
    return ("{% for m in messages %}[{{ m.role }}]{{ m.content }}\n{% endfor %}"
            "{% if add_generation_prompt %}" + end + "{% endif %}")


def message(server, messages=(USER,), **fields):
    status, _, body = server.post("/v1/chat/completions", {"messages": list(messages), **fields})
    assert status == 200, body
    return body["choices"][0]["message"]


def deltas(server, messages=(USER,), **fields):
    _, _, body = server.post("/v1/chat/completions", {"messages": list(messages), "stream": True, **fields})
    chunks = [json.loads(e) for e in events(body) if e != "[DONE]"]
    return [c["choices"][0]["delta"] for c in chunks]


def joined(server, messages=(USER,), **fields):
    found = {}
    for delta in deltas(server, messages, **fields):
        for name, text in delta.items():
            found[name] = found.get(name, "") + text
    return found


# ---- Text out: thoughts ----

THOUGHT = ["<think>", "\n", "why", ", ", "oh why\n", "</think>", "\n\n", "green", " tea"]


@pytest.mark.parametrize("pieces", [THOUGHT, ["\n<thi", "nk>\nwh", "y, oh why\n</", "think>", "\n\ngree", "n tea"]])
def test_thoughts_are_told_from_the_answer(tmp_path, pieces):
    with serve(tmp_path, pieces, THINKS + dialogue()) as server:
        whole, stream = message(server), joined(server)
        assert (whole["reasoning_content"], whole["content"]) == ("why, oh why", "green tea")
        assert stream == {"role": "assistant", "reasoning_content": "why, oh why", "content": "green tea"}


def test_control_tokens_may_be_the_tags(tmp_path):
    pieces = ["<|START_THINKING|>", "why", "<|END_THINKING|>", "<|START_RESPONSE|>", "green tea", "<|END_RESPONSE|>"]
    with serve(tmp_path, pieces, "{{ '<|END_THINKING|>' if 0 }}" + dialogue()) as server:
        assert joined(server) == {"role": "assistant", "reasoning_content": "why", "content": "green tea"}
    with serve(tmp_path, pieces, dialogue()) as server:  # unknown to this template: they say nothing, as ever
        assert joined(server) == {"role": "assistant", "content": "whygreen tea"}


def test_the_template_may_have_opened_the_span(tmp_path):
    template = THINKS + dialogue("<|go|>{{ '<think>\\n' if thinking }}")
    # The model goes on from the token before: after <|go|> with the first piece, after the newline with the second.
    with serve(tmp_path, ["\n", "why", "</think>", "green"], template) as server:
        on = {"chat_template_kwargs": {"thinking": True}}
        prompt = server.post("/apply-template", {"messages": [USER], **on})[2]["prompt"]
        assert prompt.endswith("<|go|><think>\n")
        assert joined(server, **on) == {"role": "assistant", "reasoning_content": "why", "content": "green"}
        assert message(server, **on)["reasoning_content"] == "why"
        assert joined(server) == {"role": "assistant", "content": "\nwhy</think>green"}  # nothing was opened


@pytest.mark.parametrize("how, template, split", [
    ("none", THINKS + dialogue(), False), ("auto", dialogue(), False), ("deepseek", dialogue(), True),
    ("auto", THINKS + dialogue(), True)])
def test_reasoning_says_when_to_split(tmp_path, how, template, split):
    with serve(tmp_path, ["<think>", "why", "</think>", "green"], template, "--reasoning", how) as server:
        wanted = {"reasoning_content": "why", "content": "green"} if split else {"content": "<think>why</think>green"}
        assert joined(server) == {"role": "assistant", **wanted}
        assert {k: v for k, v in message(server).items() if k.endswith("content")} == wanted


@pytest.mark.parametrize("how", ["auto", "none", "deepseek"])
def test_a_request_says_when_to_split(tmp_path, how):
    split, whole = {"reasoning_content": "why", "content": "green"}, {"content": "<think>why</think>green"}
    with serve(tmp_path, ["<think>", "why", "</think>", "green"], dialogue(), "--reasoning", how) as server:
        assert joined(server, reasoning_format="deepseek") == {"role": "assistant", **split}
        assert joined(server, reasoning_format="none") == {"role": "assistant", **whole}
        assert joined(server, reasoning_format="auto") == {"role": "assistant", **whole}  # a template without tags
        assert joined(server) == {"role": "assistant", **(split if how == "deepseek" else whole)}


def test_a_thought_cut_short_is_a_thought(tmp_path):
    with serve(tmp_path, THOUGHT, THINKS + dialogue()) as server:
        assert message(server, max_tokens=3)["reasoning_content"] == "why"
        assert message(server, max_tokens=3)["content"] == ""
        assert message(server, stop="oh")["reasoning_content"] == "why,"


# ---- Messages in ----

@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("plain"), ["green", " tea"], dialogue()) as server:
        yield server


def prompt(server, *messages, **fields):
    status, _, body = server.post("/apply-template", {"messages": list(messages), **fields})
    assert status == 200, body
    return body["prompt"]


@pytest.mark.parametrize("content, text", [
    ("a", "a"), (None, ""), ([], ""), ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
    ([{"type": "input_text", "text": "a"}, {"type": "refusal", "refusal": "no"}], "ano")])
def test_content_may_be_text_parts_or_nothing(plain, content, text):
    assert prompt(plain, {"role": "user", "content": content}) == f"[user]{text}\n<|go|>"
    if content is None:
        assert prompt(plain, {"role": "user"}) == "[user]\n<|go|>"
    assert message(plain, [{"role": "user", "content": content}])["content"] == "green tea"


def test_a_nul_passes(plain):
    assert prompt(plain, {"role": "user", "content": "a\0b"}) == "[user]a\0b\n<|go|>"
    ids = plain.post("/tokenize", {"content": "a\0b"})[2]["tokens"]
    assert plain.post("/detokenize", {"tokens": ids})[2] == {"content": "a\0b"}
    assert plain.chat("a\0b")[0] == 200
    status, _, body = plain.chat(stop="a\0b")
    assert (status, body["error"]["param"]) == (400, "stop")


@pytest.mark.parametrize("kind", ["image_url", "input_image", "input_audio"])
def test_what_cannot_be_seen_is_refused(plain, kind):
    parts = [{"type": "text", "text": "what is it?"}, {"type": kind, kind: {"url": "data:image/png;base64,AAAA"}}]
    for path in ("/v1/chat/completions", "/apply-template"):
        status, _, body = plain.post(path, {"messages": [{"role": "user", "content": parts}]})
        assert (status, body["error"]["param"]) == (400, "messages[0].content[1].type")
        assert "cannot see" in body["error"]["message"]


def test_every_role_reaches_the_template(plain):
    roles = ["system", "developer", "user", "tool", "function"]
    found = prompt(plain, *({"role": r, "content": r[0]} for r in roles))
    assert found == "[system]s\n[system]d\n[user]u\n[tool]t\n[function]f\n<|go|>"  # developer: unknown to it


def test_arguments_of_calls_are_objects(tmp_path):
    template = ("{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments.city }}{% endfor %}"
                "{{ m.content }}{% endfor %}<|go|>")
    call = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    with serve(tmp_path, ["x"], template) as server:
        said = [USER, {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "1", "content": "rain"}]
        assert prompt(server, *said) == "hiOslorain<|go|>"


def test_a_last_message_from_the_assistant_is_continued(plain):
    start = {"role": "assistant", "content": "I'd like"}
    assert prompt(plain, USER, start) == "[user]hi\n[assistant]I'd like"
    assert prompt(plain, USER, start, add_generation_prompt=True) == "[user]hi\n[assistant]I'd like\n<|go|>"
    assert prompt(plain, USER, start, continue_final_message=False) == "[user]hi\n[assistant]I'd like\n<|go|>"
    assert prompt(plain, USER, continue_final_message=True) == "[user]hi"
    parts = {"role": "assistant", "content": [{"type": "text", "text": "I'd"}, {"type": "text", "text": " like"}]}
    assert prompt(plain, USER, parts) == "[user]hi\n[assistant]I'd like"


def test_a_call_of_tools_is_not_continued(plain):
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    said = {"role": "assistant", "content": "", "tool_calls": [call]}
    assert prompt(plain, USER, said) == "[user]hi\n[assistant]\n<|go|>"
    assert prompt(plain, USER, {"role": "assistant", "content": None}) == "[user]hi\n[assistant]\n<|go|>"


def test_an_answer_goes_on_with_what_was_begun(tmp_path):
    with serve(tmp_path, ["green", " tea"], dialogue()) as server:
        assert message(server, [USER, {"role": "assistant", "content": "x"}], max_tokens=2)["content"] == "yz"


def test_a_thought_that_was_begun_goes_on(tmp_path):
    with serve(tmp_path, ["x"], THINKS + dialogue()) as server:
        said = message(server, [USER, {"role": "assistant", "content": "<think>a"}], max_tokens=2)
        assert (said["reasoning_content"], said["content"]) == ("bc", "")


def test_kwargs_are_the_templates_variables(tmp_path):
    with serve(tmp_path, ["x"], "{{ enable_thinking }}/{{ messages[0].content }}<|go|>") as server:
        assert prompt(server, USER, chat_template_kwargs={"enable_thinking": False}) == "False/hi<|go|>"
        assert prompt(server, USER) == "/hi<|go|>"


PARTS = ("{% for m in messages %}[{{ m.role }}]{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}"
         "{% endfor %}{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}<|go|>{% endif %}")


def test_a_template_that_reads_parts_gets_parts(tmp_path):
    with serve(tmp_path, ["x"], PARTS) as server:
        wanted = "[system]be brief\n[user]hi\n<|go|>"
        assert prompt(server, {"role": "system", "content": "be brief"}, USER) == wanted
        parts = [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]
        assert prompt(server, {"role": "system", "content": "be brief"}, {"role": "user", "content": parts}) == wanted
        assert prompt(server, USER, {"role": "assistant"}) == "[user]hi\n[assistant]\n<|go|>"
        assert prompt(server, USER, {"role": "assistant", "content": "so"}) == "[user]hi\n[assistant]so"


# ---- Control tokens ----

def test_control_tokens_in_messages_count_only_when_allowed(tmp_path):
    counts = {}
    for allowed in (False, True):
        with serve(tmp_path, ["green"], dialogue(), *["--allow-special"][:allowed]) as server:
            usage = [server.chat(text, max_tokens=1)[2]["usage"]["prompt_tokens"] for text in ("", "<|go|></s>")]
            counts[allowed] = usage[1] - usage[0]
    assert counts == {False: len("<|go|></s>"), True: 2}


def test_generate_takes_control_tokens_when_allowed(tmp_path):
    model = counter_model(tmp_path)
    for allowed, tokens in ((False, len("<|go|></s>")), (True, 2)):
        usage = [shimmy_json("generate", model, "--prompt", text, "--max-tokens", 1, "--device", "cpu",
                             *["--allow-special"][:allowed])["usage"]["prompt_tokens"] for text in ("", "<|go|></s>")]
        assert usage[1] - usage[0] == tokens
