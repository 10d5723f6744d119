"""The OpenAI routes, asked by the official client and checked to the token."""
import concurrent.futures
import json

import openai
import pytest

from server import events, real_server, server  # noqa: F401 (a fixture)

USER = [{"role": "user", "content": "hi"}]


def ask(server, **fields):
    return server.client().chat.completions.create(model="counter", messages=USER, **fields)


# ---- Whole answers ----


def test_a_chat_answer_has_text_reason_and_exact_usage(server):
    answer = ask(server)
    choice = answer.choices[0]
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "green tea", "stop")
    usage = answer.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (12, 4, 16)
    assert usage.prompt_tokens_details.cached_tokens == 0  # less than a page
    assert answer.id.startswith("chatcmpl-") and answer.object == "chat.completion" and answer.created > 1.7e9
    assert answer.model == "counter" and answer.system_fingerprint.startswith("shimmy-")


@pytest.mark.parametrize("fields, text, reason, tokens", [
    ({"max_tokens": 2}, "green", "length", 2),
    ({"max_completion_tokens": 1}, "gr", "length", 1),
    ({"max_tokens": 5, "max_completion_tokens": 1}, "gr", "length", 1),
    ({"max_tokens": 0}, "", "length", 0),
    ({"max_tokens": -1}, "green tea", "stop", 4),
    ({"stop": "een tea"}, "gr", "stop", 3),
    ({"stop": ["zzz", "n t"]}, "gree", "stop", 3),
    ({"stop": ["tea!"]}, "green tea", "stop", 4),
    ({"stop": ""}, "green tea", "stop", 4),
    ({"stop": [f"never {i}" for i in range(16)]}, "green tea", "stop", 4),
    ({"temperature": 0}, "green tea", "stop", 4),
    ({"temperature": 0, "seed": 1, "top_p": 0.5, "presence_penalty": -2, "frequency_penalty": 2}, "green tea",
     "stop", 4),
])
def test_where_an_answer_ends(server, fields, text, reason, tokens):
    whole = ask(server, **fields)
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == (text, reason)
    assert whole.usage.completion_tokens == tokens
    chunks = list(ask(server, stream=True, stream_options={"include_usage": True}, **fields))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == reason
    assert chunks[-1].usage == whole.usage or chunks[-1].usage.completion_tokens == tokens


def test_a_conversation_s_usage_says_what_came_from_the_cache(tmp_path):
    talk = [{"role": "user", "content": "x" * 300}]
    with real_server(tmp_path) as server, real_server(tmp_path, "--cache-ram", 0) as cold:
        def turn(server):
            answer = server.post("/v1/chat/completions", {"messages": talk, "temperature": 0})[2]
            usage = answer["usage"]
            return answer["choices"][0], usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]

        first, length, cached = turn(server)
        assert length > 300 and cached == 0
        assert turn(server) == (first, length, (length - 1) // 32 * 32)
        assert turn(cold) == turn(cold) == (first, length, 0)
        talk += [first["message"], {"role": "user", "content": "y" * 100}]
        second, longer, cached = turn(server)
        assert longer > length + 100 and length // 32 * 32 <= cached < longer
        assert turn(cold)[0] == second
        assert server.metric("shimmy_cached_tokens_total") == (length - 1) // 32 * 32 + cached
        assert server.metric("shimmy_prompt_tokens_total") == 2 * length + longer - \
            server.metric("shimmy_cached_tokens_total")


def test_choices_of_one_prompt_run_it_once(tmp_path):
    with real_server(tmp_path) as server:
        _, _, answer = server.chat("x" * 600, n=4, max_tokens=2, temperature=1)
        assert len(answer["choices"]) == 4
        assert server.metric("shimmy_prompt_tokens_total") < answer["usage"]["prompt_tokens"] + 4 * 64


def test_more_tokens_than_fit_run_until_the_context_is_full(server):
    _, _, answer = server.chat(ignore_eos=True, max_tokens=10**9)
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["total_tokens"] in (2048, 2049)  # the last token chosen needs no place of its own


def test_n_choices_are_numbered_and_counted(server):
    answer = ask(server, n=3)
    assert [c.index for c in answer.choices] == [0, 1, 2]
    assert {c.message.content for c in answer.choices} == {"green tea"}
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (12, 12)
    texts = {}
    for chunk in ask(server, n=2, stream=True):
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
    assert texts == {0: "green tea", 1: "green tea"}


def test_null_means_absent_and_unknown_fields_are_nothing(server):
    names = ["max_tokens", "temperature", "top_p", "n", "stop", "stream", "stream_options", "seed", "presence_penalty",
             "logit_bias", "logprobs", "tools", "tool_choice", "response_format", "user", "model", "top_k", "min_p"]
    status, _, answer = server.chat(**dict.fromkeys(names), brand_new_field={"a": [1]})
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "green tea")


def test_content_may_come_in_parts(server):
    parts = [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]
    status, _, answer = server.chat(parts)
    assert status == 200 and answer["choices"][0]["message"]["content"] == "green tea"


def test_control_tokens_in_a_message_are_text(server):
    _, _, answer = server.chat("hi<|go|>")
    assert answer["usage"]["prompt_tokens"] == 12 + 6


# ---- Streams ----


def test_a_stream_is_server_sent_events(server):
    status, headers, body = server.chat(stream=True)
    assert status == 200
    assert headers["Content-Type"].startswith("text/event-stream") and headers["Cache-Control"] == "no-cache"
    found = events(body)
    assert found[-1] == "[DONE]"
    chunks = [json.loads(e) for e in found[:-1]]
    assert {c["object"] for c in chunks} == {"chat.completion.chunk"} and len({c["id"] for c in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chunks[-1]["choices"][0] == {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}
    assert all("usage" not in c for c in chunks)


def test_usage_is_the_last_chunk_where_asked_for(server):
    _, _, body = server.chat(stream=True, stream_options={"include_usage": True})
    chunks = [json.loads(e) for e in events(body)[:-1]]
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["total_tokens"] == 16
    assert all(c["usage"] is None for c in chunks[:-1])


# ---- /v1/completions ----


def complete(server, prompt, **fields):
    return server.client().completions.create(model="counter", prompt=prompt, **fields)


def test_a_raw_prompt_is_continued(server):
    answer = complete(server, "a", max_tokens=3)
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("bcd", "length")
    assert answer.object == "text_completion" and answer.id.startswith("cmpl-")
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (2, 3)
    assert complete(server, "<|go|>").choices[0].text == "green tea"  # control tokens of a raw prompt are its own


def test_prompts_are_strings_ids_or_several(server):
    assert [c.text for c in complete(server, ["a", "x"], max_tokens=1).choices] == ["b", "y"]
    ids = server.post("/tokenize", {"content": "a"})[2]["tokens"]
    assert complete(server, ids, max_tokens=2).choices[0].text == "bc"
    both = complete(server, [ids, "x"], max_tokens=1, n=2)
    assert [(c.index, c.text) for c in both.choices] == [(0, "b"), (1, "b"), (2, "y"), (3, "y")]
    assert both.usage.prompt_tokens == 1 + 2


def test_echo_begins_with_the_prompt(server):
    assert complete(server, "ab", max_tokens=1, echo=True).choices[0].text == "abc"
    streamed = complete(server, "ab", max_tokens=1, echo=True, stream=True)
    assert "".join(c.choices[0].text for c in streamed) == "abc"


# ---- Errors ----


@pytest.mark.parametrize("fields, param", [
    ({"messages": []}, "messages"),
    ({"messages": None}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": [1]}, "messages[0]"),
    ({"messages": [{"content": "hi"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
    ({"max_tokens": -2}, "max_tokens"),
    ({"max_tokens": "5"}, "max_tokens"),
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"max_completion_tokens": -5}, "max_completion_tokens"),
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": "warm"}, "temperature"),
    ({"top_p": 1.5}, "top_p"),
    ({"min_p": -1}, "min_p"),
    ({"top_k": -2}, "top_k"),
    ({"presence_penalty": 3}, "presence_penalty"),
    ({"frequency_penalty": -2.5}, "frequency_penalty"),
    ({"repeat_penalty": 0}, "repeat_penalty"),
    ({"n": 0}, "n"),
    ({"n": 1000}, "n"),
    ({"seed": "x"}, "seed"),
    ({"stream": "yes"}, "stream"),
    ({"stream_options": 1}, "stream_options"),
    ({"stop": 5}, "stop"),
    ({"stop": ["a", 5]}, "stop[1]"),
    ({"stop": ["a"] * 17}, "stop"),
    ({"logprobs": 2}, "logprobs"),
    ({"logit_bias": {"x": 1}}, "logit_bias.x"),
    ({"samplers": ["best"]}, "samplers[0]"),
    ({"response_format": {"type": "json_object"}}, "response_format.type"),
    ({"tools": {}}, "tools"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"model": 5}, "model"),
    ({"reasoning_format": "loud"}, "reasoning_format"),
    ({"reasoning_format": True}, "reasoning_format"),
])
def test_a_wrong_field_is_named(server, fields, param):
    status, _, body = server.post("/v1/chat/completions", {"messages": USER, "stream": True, **fields})
    assert status == 400
    assert body["error"]["type"] == "invalid_request_error" and body["error"]["param"] == param
    assert param in body["error"]["message"]


@pytest.mark.parametrize("prompt, param", [
    (None, "prompt"), (5, "prompt"), ([], "prompt"), ([[]], "prompt[0]"), ([1, "x"], "prompt[1]"),
    (["x", 1], "prompt[1]"),
    ([-1], "prompt[0]"), ([10**6], "prompt[0]"), ([[1, 2], [2**40]], "prompt[1][0]"), ([1.5], "prompt[0]"),
    (["x"] * 100, "prompt"),
])
def test_a_wrong_prompt_is_named(server, prompt, param):
    status, _, body = server.post("/v1/completions", {"prompt": prompt})
    assert status == 400 and body["error"]["param"] == param


def test_errors_reach_the_official_client_as_its_own(server):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(server, temperature=-1)
    assert caught.value.param == "temperature" and caught.value.type == "invalid_request_error"
    with pytest.raises(openai.NotFoundError) as caught:
        server.client().chat.completions.create(model="gpt-4", messages=USER)
    assert caught.value.code == "model_not_found" and "counter" in str(caught.value)


def test_a_prompt_past_the_context_says_both_numbers_before_any_event(server):
    status, headers, body = server.chat("x" * 3000, stream=True)
    assert status == 400 and headers["Content-Type"] == "application/json"
    assert body["error"]["code"] == "context_length_exceeded"
    assert "3010" in body["error"]["message"] and "2048" in body["error"]["message"]


def test_the_served_model_goes_by_name_file_or_nothing(server):
    for name in ("counter", "counter.gguf", "", None):
        assert server.chat(model=name)[0] == 200
    assert server.chat(model="count")[0] == 404


# ---- Models and the small routes ----


def test_models_are_listed_and_found(server):
    models = server.client().models.list().data
    assert [m.id for m in models] == ["counter"] and models[0].object == "model"
    assert server.client().models.retrieve("counter").id == "counter"
    with pytest.raises(openai.NotFoundError):
        server.client().models.retrieve("gpt-4")


def test_tokenize_and_detokenize_are_inverse(server):
    text = "héllo 🍵 \n"
    ids = server.post("/tokenize", {"content": text})[2]["tokens"]
    assert server.post("/detokenize", {"tokens": ids})[2] == {"content": text}
    with_bos = server.post("/tokenize", {"content": text, "add_special": True})[2]["tokens"]
    assert len(with_bos) == len(ids) + 1
    plain, parsed = (server.post("/tokenize", {"content": "<|go|>", "parse_special": p})[2]["tokens"]
                     for p in (False, True))
    assert len(plain) == 6 and len(parsed) == 1
    pieces = server.post("/tokenize", {"content": "aé", "with_pieces": True})[2]["tokens"]
    assert [p["piece"] for p in pieces] == ["a", [195], [169]]
    assert server.post("/tokenize", {"content": "<|go|>"})[2]["tokens"] == parsed  # unless asked not to
    mixed = server.post("/tokenize", {"content": [ids[0], "<|go|>", ""]})[2]["tokens"]
    assert mixed == [ids[0], *parsed]
    status, _, body = server.post("/tokenize", {"content": ["a", 10**6]})
    assert status == 400 and body["error"]["param"] == "content[1]"
    status, _, body = server.post("/detokenize", {"tokens": [1, 10**6]})
    assert status == 400 and body["error"]["param"] == "tokens[1]"


def test_tokenize_gives_bytes_where_a_piece_is_no_text(server):
    def pieces(text, **fields):
        return [p["piece"] for p in server.post("/tokenize", {"content": text, "with_pieces": True, **fields})[2]["tokens"]]
    for text in ("é", "🍵", "\x00"):
        found = pieces(text)
        data = b"".join(p.encode() if isinstance(p, str) else bytes(p) for p in found)
        assert data == text.encode()
    assert pieces("é🍵") == [[byte] for byte in "é🍵".encode()]
    assert pieces("<|go|>") == ["<|go|>"]
    assert pieces("<|go|>", parse_special=False) == list("<|go|>")
    assert len(pieces("a", add_special=True)) == 2 and pieces("a", add_special=True)[1] == "a"


@pytest.mark.parametrize("route, body, param", [
    ("/tokenize", {"content": 5}, "content"), ("/tokenize", {"content": [1.5]}, "content[0]"),
    ("/tokenize", {"content": "a", "add_special": 1}, "add_special"),
    ("/tokenize", {"content": "a", "parse_special": "yes"}, "parse_special"),
    ("/tokenize", {"content": "a", "with_pieces": []}, "with_pieces"),
    ("/detokenize", {"tokens": "a"}, "tokens"), ("/detokenize", {"tokens": ["a"]}, "tokens[0]"),
    ("/detokenize", {"tokens": [-1]}, "tokens[0]"), ("/apply-template", {}, "messages"),
    ("/apply-template", {"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
])
def test_a_wrong_field_of_the_text_routes_is_named(server, route, body, param):
    status, _, answer = server.post(route, body)
    assert status == 400 and answer["error"]["param"] == param and param in answer["error"]["message"]


def test_half_a_character_is_replaced_not_sent(server):
    ids = server.post("/tokenize", {"content": "é"})[2]["tokens"]
    assert server.post("/detokenize", {"tokens": ids[:1]})[2] == {"content": "\ufffd"}


def test_apply_template_gives_the_prompt(server):
    _, _, body = server.post("/apply-template", {"messages": USER})
    assert body == {"prompt": "[user] hi\n<|go|>"}


# ---- Several at once ----


def test_eight_at_once_all_get_their_own_answer(server):
    def one(i):
        return complete(server, chr(ord("a") + i), max_tokens=3).choices[0].text
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(one, range(8)))
    assert texts == ["".join(chr(ord("a") + i + k) for k in (1, 2, 3)) for i in range(8)]


def test_eight_streams_at_once_are_one_text(server):
    def one(_):
        return "".join(c.choices[0].delta.content or "" for c in ask(server, stream=True, temperature=0))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert set(pool.map(one, range(8))) == {"green tea"}
