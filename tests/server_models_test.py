"""Several models in one server: which one answers, when each is loaded and unloaded, what waits for it, and what
happens to a file that is replaced. The counter models say their own names, so that an answer shows who gave it.
"""
import concurrent.futures
import json
import os
import shutil
import threading
import time

import openai
import pytest

from server import Server, counter_model, events, fake_server
from support import EXE, MODELS

CHAT = "/v1/chat/completions"
USER = [{"role": "user", "content": "who is there?"}]


def wait_for(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return found


def say(server, model=None, **fields):
    """(who the answer says it is from, what it says)."""
    if model is not None:
        fields["model"] = model
    status, _, answer = server.chat(**fields)
    assert status == 200, answer
    return answer["model"], answer["choices"][0]["message"]["content"]


def use(server, *names):
    """One after another. A model is unused from when its engine lets go of the request, a moment after the answer."""
    for name in names:
        say(server, name)
        time.sleep(0.25)


def status_of(server, model):
    status, _, card = server.get(f"/v1/models/{model}")
    assert status == 200, card
    return card["status"]


def state(server, model):
    return status_of(server, model)["value"]


def states(server):
    return {card["id"]: card["status"]["value"] for card in server.get("/v1/models")[2]["data"]}


def send(server, content="hi", **fields):
    """A request on a socket of its own, not read yet."""
    s = server.connect()
    data = json.dumps({"messages": [{"role": "user", "content": content}], **fields}).encode()
    s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (CHAT.encode(), len(data), data))
    return s


# ---- Models in files ----


def write(folder, name, says, context=2048):
    """A model that says `says`, put in place whole."""
    made = counter_model(folder, context=context, pieces=[says[:2], says[2:]])
    path = folder / f"{name}.gguf"
    os.replace(made, path)
    return path


class Home:
    """A machine with models on it, and servers there."""

    def __init__(self, folder):
        self.models = folder / "models"
        self.models.mkdir()
        self.env = {"HOME": str(folder / "home"), "SHIMMY_BASE_GGUF": "", "SHIMMY_MODEL_PATHS": str(self.models),
                    "HF_HUB_CACHE": str(folder / "none"), "OLLAMA_MODELS": str(folder / "ollama")}
        self.ollama = folder / "ollama"

    def add(self, name, says=None, **options):
        return write(self.models, name, says or f"I am {name}", **options)

    def serve(self, *arguments):
        return Server(EXE, "serve", "--bind", "127.0.0.1:0", "--device", "cpu", *arguments, env=self.env)


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """a is loaded at the start, b and c lie where models lie; two have room."""
    home = Home(tmp_path_factory.mktemp("three"))
    for name in "abc":
        home.add(name)
    with home.serve("--model-path", home.models / "a.gguf", "--models-max", 2, "--log", "json") as server:
        yield server


def test_every_model_is_listed_loaded_or_not(three):
    listed = {card["id"]: card for card in three.get("/v1/models")[2]["data"]}
    assert set(listed) == {"a", "b", "c"} and listed["a"]["status"]["value"] == "loaded"
    assert all(card["meta"]["architecture"] == "llama" and card["meta"]["size"] > 0 for card in listed.values())
    assert {model.id for model in three.client().models.list()} == {"a", "b", "c"}
    assert three.client().models.retrieve("b").id == "b"


def test_the_model_that_is_named_answers_and_the_answer_names_it(three):
    for name in ("b", "a", "c", "b", "c", "a"):
        assert say(three, name) == (name, f"I am {name}")
        chunks = list(three.client().chat.completions.create(model=name, messages=USER, stream=True))
        assert {c.model for c in chunks} == {name}
        assert "".join(c.choices[0].delta.content or "" for c in chunks) == f"I am {name}"
        assert three.client().completions.create(model=name, prompt="<|go|>").model == name
        assert three.client().embeddings.create(model=name, input="x").model == name
        assert state(three, name) == "loaded"


def test_no_name_means_the_model_of_the_start(three):
    say(three, "b"), say(three, "c")
    assert say(three) == say(three, "") == ("a", "I am a")


def test_a_file_s_name_and_its_path_are_names_too(three):
    path = three.process.args[three.process.args.index("--model-path") + 1]
    for name in ("b.gguf", str(path).replace("a.gguf", "b.gguf")):
        assert say(three, name) == ("b", "I am b")


@pytest.mark.parametrize("name", ["d", "A", "b.ggu", "gpt-4", "../b", "b:latest", "x" * 5000])
def test_an_unknown_name_is_a_404_and_nobody_answers(three, name):
    for path, fields in [(CHAT, {"messages": USER}), ("/v1/completions", {"prompt": "x"}),
                         ("/v1/embeddings", {"input": "x"}), ("/tokenize", {"content": "x"})]:
        status, _, answer = three.post(path, {"model": name, **fields})
        assert status == 404 and answer["error"]["code"] == "model_not_found", answer
        assert answer["error"]["param"] == "model" and answer["error"]["type"] == "invalid_request_error"
    with pytest.raises(openai.NotFoundError):
        three.client().chat.completions.create(model=name, messages=USER)


def test_other_routes_ask_the_model_that_is_named_too(three):
    for name in "ab":
        ids = three.post("/tokenize", {"model": name, "content": "I am " + name})[2]["tokens"]
        assert three.post("/detokenize", {"model": name, "tokens": ids})[2]["content"] == "I am " + name
        assert three.post("/apply-template", {"model": name, "messages": USER})[2]["prompt"].startswith("[user]")


def test_models_that_have_room_are_not_loaded_for_each_request(three):
    say(three, "a"), say(three, "b")
    before = three.metric("shimmy_model_loads_total")
    for _ in range(20):
        say(three, "a"), say(three, "b")
    assert three.metric("shimmy_model_loads_total") == before


def test_the_one_unused_longest_makes_room(three):
    use(three, "a", "b", "c")
    assert states(three) == {"a": "unloaded", "b": "loaded", "c": "loaded"}
    use(three, "b", "a")
    assert states(three) == {"a": "loaded", "b": "loaded", "c": "unloaded"}


def test_numbers_are_told_by_model_and_survive_its_unloading(three):
    use(three, "b")
    before = three.metric("shimmy_generated_tokens_total", "b")
    assert before > 0
    use(three, "a", "c")
    assert three.metric("shimmy_model_loaded", "b") == 0
    assert three.metric("shimmy_generated_tokens_total", "b") == before
    say(three, "b")
    assert three.metric("shimmy_generated_tokens_total", "b") > before


def test_the_log_names_the_model(three):
    status, headers, _ = three.chat(model="b")
    line = wait_for(lambda: [e for e in three.errors if headers["X-Request-Id"] in e])[0]
    assert json.loads(line)["model"] == "b"
    headers = three.get("/health")[1]
    line = wait_for(lambda: [e for e in three.errors if headers["X-Request-Id"] in e])[0]
    assert "model" not in json.loads(line)


def test_many_at_once_each_get_their_own(three):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        asked = ["abc"[i * 7 % 3] for i in range(60)]
        assert list(pool.map(lambda name: say(three, name), asked)) == [(n, f"I am {n}") for n in asked]
    assert list(states(three).values()).count("loaded") <= 2


def test_one_model_given_is_all_that_is_served(home):
    home.add("a"), home.add("b")
    with home.serve("--model-path", home.models / "a.gguf") as server:
        assert states(server) == {"a": "loaded"}
        assert server.chat(model="b")[0] == 404 and say(server, "a")[1] == "I am a"
        assert "{model=" not in server.get("/metrics")[2]  # scripts find the plain names


def test_without_a_model_given_each_is_loaded_when_asked_for(home):
    home.add("a"), home.add("b")
    with home.serve() as server:
        assert states(server) == {"a": "unloaded", "b": "unloaded"} and server.get("/health")[0] == 200
        assert say(server, "b") == ("b", "I am b")
        assert states(server) == {"a": "unloaded", "b": "loaded"}
        assert say(server) == ("a", "I am a")  # the first of them
        assert states(server) == {"a": "loaded", "b": "unloaded"}  # one at a time, where nothing else is asked for


def test_a_server_without_models_says_where_to_put_one(home):
    failed = Server(EXE, "serve", "--bind", "127.0.0.1:0", env=home.env, wait=False)
    assert "~/models" in failed.failure()


def test_ollama_s_names_are_known_with_their_tag_and_latest_without(home):
    for i, (name, tag) in enumerate([("tea", "latest"), ("tea", "2b"), ("rice", "7b")]):
        blob = home.ollama / ("blobs/sha256-" + str(i) * 64)
        blob.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(write(home.models, "made", f"{name} {tag}"), blob)
        manifest = home.ollama / "manifests/registry.ollama.ai/library" / name / tag
        manifest.parent.mkdir(parents=True, exist_ok=True)
        manifest.write_text(json.dumps({"layers": [{"mediaType": "application/vnd.ollama.image.model",
                                                    "digest": "sha256:" + str(i) * 64}]}))
    with home.serve("--models-max", 3) as server:
        assert say(server, "tea") == say(server, "tea:latest") == ("tea:latest", "tea latest")
        assert say(server, "tea:2b") == ("tea:2b", "tea 2b")
        assert say(server, "rice:7b") == ("rice:7b", "rice 7b")
        assert server.chat(model="rice")[0] == 404  # no tag is guessed


def test_a_model_that_came_after_the_start_is_found(home):
    home.add("a")
    with home.serve("--models-max", 2) as server:
        home.add("late")
        wait_for(lambda: server.chat(model="late")[0] == 200, 15)
        assert say(server, "late") == ("late", "I am late") and "late" in states(server)


def test_the_list_has_what_came_and_lacks_what_went(home):
    home.add("a"), home.add("goes")
    with home.serve() as server:
        home.add("comes")
        (home.models / "goes.gguf").unlink()
        wait_for(lambda: set(states(server)) == {"a", "comes"}, 15)
        assert server.chat(model="goes")[0] == 404 and say(server, "comes")[1] == "I am comes"


def test_a_model_that_does_not_load_is_told_with_its_file_and_tried_again(home):
    home.add("a")
    path = home.add("b")
    with home.serve("--model-path", home.models / "a.gguf", "--models-max", 2) as server:
        whole = path.read_bytes()
        path.write_bytes(whole[:len(whole) // 2])
        for _ in range(2):
            status, _, answer = server.chat(model="b")
            assert status == 500 and answer["error"]["code"] == "model_load_failed"
            assert str(path) in answer["error"]["message"]
        told = status_of(server, "b")
        assert told["value"] == "unloaded" and told["failed"] and str(path) in told["error"]
        assert say(server, "a")[1] == "I am a" and server.get("/health")[0] == 200
        assert any("error" in line and str(path) in line for line in server.errors)
        path.write_bytes(whole)
        assert say(server, "b") == ("b", "I am b") and "failed" not in status_of(server, "b")


def test_embeddings_and_chat_side_by_side(home):
    home.add("a")
    shutil.copy(MODELS / "nano-bert-f32.gguf", home.models / "bert.gguf")
    with home.serve("--model-path", home.models / "a.gguf", "--models-max", 2, "--ctx", 1024) as server:
        client = server.client()
        for _ in range(2):
            assert len(client.embeddings.create(model="bert", input="tea").data[0].embedding) > 0
            assert say(server, "a")[1] == "I am a"
        status, _, answer = server.chat(model="bert")
        assert status == 400 and "bert" in answer["error"]["message"] and "/v1/embeddings" in answer["error"]["message"]
        assert server.metric("shimmy_model_loads_total", "bert") == 1


def test_a_template_given_is_the_given_model_s(home):
    home.add("a"), home.add("b")
    template = home.models / "t.jinja"
    template.write_text("{{ messages[0].content }}<|go|>")
    with home.serve("--model-path", home.models / "a.gguf", "--models-max", 2, "--chat-template", template) as server:
        prompt = lambda model: server.post("/apply-template", {"model": model, "messages": USER})[2]["prompt"]
        assert prompt("a") == "who is there?<|go|>" and prompt("b").startswith("[user] who is there?")


def test_a_server_of_several_ends_with_0(home):
    for name in "abc":
        home.add(name)
    server = home.serve("--models-max", 3)
    for name in "abc":
        say(server, name)
    assert server.stop() == 0


# ---- A file that is replaced ----


def test_a_replaced_file_answers_new_requests_while_old_ones_finish_on_the_old(home):
    home.add("a", "old answer", context=4096)
    with home.serve("--model-path", home.models / "a.gguf") as server:
        stream = server.client().completions.create(model="a", prompt="<|go|>", stream=True, temperature=0,
                                                    extra_body={"ignore_eos": True})
        text = next(stream).choices[0].text
        home.add("a", "new answer", context=4096)
        assert say(server, "a") == ("a", "new answer")
        text += "".join(c.choices[0].text for c in stream if c.choices)
        assert text.count("old answer") > 10 and "new answer" not in text
        assert say(server) == ("a", "new answer")
        assert server.metric("shimmy_model_loads_total") == 2


def test_a_replaced_file_that_does_not_load_leaves_the_old_one_serving(home):
    path = home.add("a", "old answer")
    with home.serve("--model-path", path) as server:
        broken = home.models / "broken"
        broken.write_bytes(path.read_bytes()[:5000])
        os.replace(broken, path)
        for _ in range(3):
            assert say(server, "a") == ("a", "old answer")
        wait_for(lambda: any("goes on with the file it has" in line and str(path) in line for line in server.errors))
        assert sum("goes on" in line for line in server.errors) == 1
        path.unlink()
        assert say(server, "a") == ("a", "old answer")
        home.add("a", "new answer")
        assert say(server, "a") == ("a", "new answer")


def test_files_are_replaced_under_load_without_an_error(home):
    path = home.add("a", "old answer")
    with home.serve("--model-path", path, "--queue", 100) as server:
        over = threading.Event()

        def ask():
            heard = []
            while not over.is_set():
                heard.append(say(server, "a")[1])
            return heard
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asking = [pool.submit(ask) for _ in range(4)]
            for i in range(5):
                time.sleep(0.3)
                home.add("a", f"new answer {i}")
            time.sleep(0.5)
            over.set()
            heard = [text for asked in asking for text in asked.result()]
        assert set(heard) <= {"old answer", *(f"new answer {i}" for i in range(5))} and heard[-1] == "new answer 4"


# ---- Loading that takes its time: the fake ----


def test_who_asks_for_a_model_waits_for_it_and_nobody_else_does():
    with fake_server("--models", "b.slow=1000", "--models-max", 2) as server:
        done = {}
        waits = threading.Thread(target=lambda: done.update(b=say(server, "b"), at=time.monotonic()))
        start = time.monotonic()
        waits.start()
        wait_for(lambda: state(server, "b") == "loading")
        longest, seen = 0, set()
        while waits.is_alive():
            before = time.monotonic()
            assert say(server, "counter") == ("counter", "green tea")
            longest = max(longest, time.monotonic() - before)
            status, _, health = server.get("/health")
            assert status == 200 and health["status"] == "ok"
            seen |= {loading["progress"] for loading in health.get("loading", []) if loading["model"] == "b"}
        assert done["b"] == ("b", "green tea") and done["at"] - start >= 0.9
        assert longest < 0.5 and len(seen) >= 3 and seen <= {i / 10 for i in range(10)}
        assert states(server) == {"counter": "loaded", "b": "loaded"}


def test_all_who_wait_for_a_model_are_served_by_one_load():
    with fake_server("--models", "b.slow=300", "--models-max", 2) as server:
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            assert set(pool.map(lambda _: say(server, "b"), range(6))) == {("b", "green tea")}
        assert server.metric("shimmy_model_loads_total", "b") == 1


def test_a_stream_waits_as_well():
    with fake_server("--models", "b.slow=200", "--models-max", 2) as server:
        status, _, text = server.chat(model="b", stream=True)
        assert status == 200 and events(text)[-1] == "[DONE]"
        assert {json.loads(e)["model"] for e in events(text)[:-1]} == {"b"}


def test_waiting_ends_after_the_time_given():
    with fake_server("--models", "b.slow=2500", "--models-max", 2, "--load-timeout", 1) as server:
        start = time.monotonic()
        status, headers, answer = server.chat(model="b")
        assert status == 503 and int(headers["Retry-After"]) > 0 and "b" in answer["error"]["message"]
        assert answer["error"]["code"] == "loading" and 0.9 < time.monotonic() - start < 2
        wait_for(lambda: state(server, "b") == "loaded")  # what was begun is finished
        assert say(server, "b") == ("b", "green tea")


def test_a_request_s_own_time_limit_holds_while_it_waits():
    with fake_server("--models", "b.slow=2500", "--models-max", 2, "--request-timeout", 1) as server:
        start = time.monotonic()
        assert server.chat(model="b")[0] == 504 and time.monotonic() - start < 2
        assert server.metric("shimmy_model_requests_waiting", "b") == 0


def test_a_model_that_fails_tells_each_who_waits():
    with fake_server("--models", "missing", "--models-max", 2, env={"FAKE_LOAD_MS": "300"}) as server:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for status, _, answer in pool.map(lambda _: server.chat(model="missing"), range(4)):
                assert status == 500 and "missing.gguf: no such file" in answer["error"]["message"]
        assert server.chat(model="missing")[0] == 500 and say(server) == ("counter", "green tea")


def test_places_to_wait_are_bounded_and_freed_by_clients_that_leave():
    with fake_server("--models", "b.slow=1500", "--models-max", 2, "--parallel", 1, "--queue", 1) as server:
        waiting = lambda: server.metric("shimmy_model_requests_waiting", "b")
        first, second = send(server, model="b"), send(server, model="b")
        wait_for(lambda: state(server, "b") == "loading")
        wait_for(lambda: waiting() == 2)
        status, headers, answer = server.chat(model="b")
        assert status == 503 and answer["error"]["code"] == "queue_full" and headers["Retry-After"]
        first.close()
        wait_for(lambda: waiting() == 1)
        third = send(server, model="b")
        wait_for(lambda: waiting() == 2)
        for s in (second, third):
            assert b"200 OK" in s.recv(65536)
            s.close()
        server.wait_idle()


def test_a_busy_model_is_not_unloaded_and_the_other_waits_for_its_place():
    with fake_server("--models", "b", "--load-timeout", 1) as server:
        busy = send(server, "#hang")
        wait_for(lambda: server.metric("shimmy_requests_running", "counter") == 1)
        status, headers, answer = server.chat(model="b")
        assert status == 503 and headers["Retry-After"] and "--models-max 1" in answer["error"]["message"]
        assert answer["error"]["code"] == "overloaded" and states(server) == {"counter": "loaded", "b": "unloaded"}
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(say, server, "b")
            time.sleep(0.2)
            busy.close()
            assert asked.result() == ("b", "green tea")
        assert states(server) == {"counter": "unloaded", "b": "loaded"}


def test_a_model_nobody_uses_is_unloaded_and_comes_back():
    with fake_server("--model-idle", 1) as server:
        busy = send(server, "#slow=700")
        time.sleep(1.5)
        assert state(server, "counter") == "loaded"  # it answers
        busy.close()
        wait_for(lambda: state(server, "counter") == "unloaded")
        assert server.get("/health")[0] == 200
        assert say(server) == ("counter", "green tea") and state(server, "counter") == "loaded"


def test_a_server_that_loads_ends_at_once_all_the_same():
    with fake_server("--models", "b.slow=20000", "--models-max", 2) as server:
        s = send(server, model="b")
        wait_for(lambda: state(server, "b") == "loading")
        s.close()
        start = time.monotonic()
        assert server.stop() == 0 and time.monotonic() - start < 3


def test_who_waits_when_the_server_is_to_end_is_answered():
    with fake_server("--models", "b.slow=800", "--models-max", 2) as server:
        s = send(server, model="b")
        wait_for(lambda: state(server, "b") == "loading")
        server.signal()
        assert b"green tea" in s.recv(65536)
        s.close()
        assert server.process.wait(10) == 0


def test_a_server_without_a_model_at_the_start_takes_the_first_for_none():
    with fake_server("--model-path", "", "--models", "x,y") as server:
        assert states(server) == {"x": "unloaded", "y": "unloaded"}
        assert say(server) == ("x", "green tea") and say(server, "y") == ("y", "green tea")
        assert states(server) == {"x": "unloaded", "y": "loaded"}
