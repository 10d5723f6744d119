"""Models are found where other programs put them, under names people know, once each; what is not taken is explained.

Every test has a home of its own. Files are GGUF headers with one small tensor: discovery reads no further.
"""
import json
import os
import pathlib

import gguf
import numpy as np
import pytest

from support import shimmy

VARIABLES = ["SHIMMY_BASE_GGUF", "SHIMMY_MODEL_PATHS", "HF_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS"]


def write_model(path, architecture="llama", vocabulary=4, tensors=1, name="tiny", split=None):
    """A header as discovery sees it. `split` is (index, count) of a shard."""
    path.parent.mkdir(parents=True, exist_ok=True)
    w = gguf.GGUFWriter(path, architecture)
    w.add_name(name)
    if vocabulary:
        w.add_context_length(64)
        w.add_tokenizer_model("gpt2")
        w.add_token_list([f"t{i}" for i in range(vocabulary)])
    if split:
        w.add_uint16("split.no", split[0])
        w.add_uint16("split.count", split[1])
        w.add_int32("split.tensors.count", split[1])
    for i in range(tensors):
        w.add_tensor(f"blk.{split[0] if split else i}.weight", np.zeros((2, 32), dtype=np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path


def write_shards(folder, stem, count):
    for i in range(count):
        write_model(folder / f"{stem}-{i + 1:05}-of-{count:05}.gguf", split=(i, count))


def write_ollama(models, name, tag="latest", registry="registry.ollama.ai", namespace="library", digest=None, blob=True,
                 **model):
    digest = digest or "%064x" % (abs(hash((name, tag))) + 1)
    if blob:
        write_model(models / f"blobs/sha256-{digest}", **model)
    manifest = models / "manifests" / registry / namespace / name / tag
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": [
        {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:" + "0" * 64, "size": 1},
        {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}", "size": 1}]}))
    return digest


def write_hub(hub, repository, revision, *files, main=True):
    root = hub / ("models--" + repository.replace("/", "--"))
    for i, file in enumerate(files):
        blob = write_model(root / f"blobs/{revision}{i}")
        link = root / "snapshots" / revision / file
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    if main:
        (root / "refs").mkdir(exist_ok=True)
        (root / "refs/main").write_text(revision)


class Home:
    def __init__(self, path):
        self.path = path
        self.env = {**dict.fromkeys(VARIABLES, ""), "HOME": str(path)}

    def discover(self, *arguments, **env):
        done = shimmy("discover", "--json", *arguments, env={**self.env, **env})
        assert done.stdout.count(b"\n") == 1
        return json.loads(done.stdout)

    def names(self, *arguments, **env):
        return [m["name"] for m in self.discover(*arguments, **env)["models"]]

    def why(self, path, **env):
        return [p["why"] for p in self.discover(**env)["passed"] if p["path"] == str(path)]

    def models(self, *names):
        return [write_model(self.path / "models" / n) for n in names]


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


def test_an_empty_home_is_no_error(home):
    assert home.names() == []
    done = shimmy("list", env=home.env)
    assert done.stdout == b"" and b"no models found" in done.stderr


def test_places_are_looked_at_in_order(home):
    p = home.path
    home.models("last.gguf")
    write_model(p / ".cache/lm-studio/models/pub/repo/old-studio.gguf")
    write_model(p / ".lmstudio/models/pub/repo/studio.gguf")
    write_ollama(p / ".ollama/models", "llama3.2", tag="1b")
    write_hub(p / ".cache/huggingface/hub", "org/repo", "abc", "hub.gguf")
    write_model(p / ".cache/shimmy/models/own.gguf")
    write_model(p / "given/in-list.gguf")
    base = write_model(p / "base.bin")
    env = {"SHIMMY_BASE_GGUF": str(base), "SHIMMY_MODEL_PATHS": str(p / "given")}
    assert home.names(**env) == ["base.bin", "in-list", "own", "org/repo/hub", "llama3.2:1b", "studio", "old-studio",
                                 "last"]


def test_list_prints_a_line_a_model(home):
    home.models("b.gguf", "a.gguf")
    lines = shimmy("list", env=home.env).stdout.decode().splitlines()
    assert [line.split()[0] for line in lines] == ["a", "b"]
    assert all(line.split()[3:] == ["llama", "F32"] for line in lines)
    models = json.loads(shimmy("list", "--json", env=home.env).stdout)["models"]
    assert models[0]["bytes"] == (home.path / "models/a.gguf").stat().st_size


# ---- What the user names ----

def test_a_named_file_is_found_whatever_it_is_called(home):
    odd = write_model(home.path / "some where/model.bin")
    assert home.names(SHIMMY_MODEL_PATHS=str(odd)) == ["model.bin"]


def test_model_dirs_beat_the_variable(home):
    write_model(home.path / "a/flag.gguf")
    write_model(home.path / "b/variable.gguf")
    env = {"SHIMMY_MODEL_PATHS": str(home.path / "b")}
    assert home.names(**env) == ["variable"]
    assert home.names("--model-dirs", str(home.path / "a"), **env) == ["flag"]


def test_lists_hold_files_folders_and_tilde(home):
    write_model(home.path / "x/one.gguf")
    two = write_model(home.path / "two.gguf")
    assert home.names(SHIMMY_MODEL_PATHS=f"~/x::{two}:") == ["one", "two"]


def test_a_missing_place_is_shown_as_missing(home):
    places = home.discover(SHIMMY_MODEL_PATHS="/nowhere/at/all")["places"]
    assert {"name": "SHIMMY_MODEL_PATHS", "path": "/nowhere/at/all", "exists": False, "found": 0} in places


# ---- One model, one name ----

def test_shards_are_one_model(home):
    write_shards(home.path / "models", "big", 3)
    found = home.discover()
    assert [m["name"] for m in found["models"]] == ["big"]
    assert found["models"][0]["bytes"] == sum(f.stat().st_size for f in (home.path / "models").iterdir())
    assert found["passed"] == []


def test_shards_without_their_first_are_explained(home):
    write_shards(home.path / "models", "big", 3)
    (home.path / "models/big-00001-of-00003.gguf").unlink()
    assert home.names() == []
    assert home.why(home.path / "models/big-00002-of-00003.gguf") == ["shard 2 of 3, and the first is not beside it"]


def test_shards_with_a_gap_are_explained(home):
    write_shards(home.path / "models", "big", 3)
    (home.path / "models/big-00002-of-00003.gguf").unlink()
    assert home.names() == []
    assert "00002-of-00003" in home.why(home.path / "models/big-00001-of-00003.gguf")[0]


def test_models_named_alike_get_more_of_their_path(home):
    home.models("one/Q4_K_M.gguf", "two/Q4_K_M.gguf", "more/two/Q4_K_M.gguf")
    names = home.names()
    assert names == ["Q4_K_M", "one/Q4_K_M", "two/Q4_K_M"] and len(set(names)) == 3


def test_a_file_found_twice_is_one_model(home):
    file, = home.models("a.gguf")
    (home.path / "models/b.gguf").symlink_to(file)
    os.link(file, home.path / "models/c.gguf")
    assert home.names(SHIMMY_BASE_GGUF=str(file)) == ["a"]
    assert home.why(home.path / "models/b.gguf") == ["the same file as a"]


def test_names_hold_no_control_characters(home):
    home.models("li\nne\x1b[31m.gguf")
    assert home.names() == ["li_ne_[31m"]
    assert len(shimmy("list", env=home.env).stdout.splitlines()) == 1


def test_a_file_name_that_is_no_utf8(home):
    path = os.fsencode(home.path) + b"/models/caf\xe9.gguf"
    os.makedirs(os.path.dirname(path))
    os.rename(write_model(home.path / "x.gguf"), path)
    assert home.names() == ["caf_"]


# ---- Hugging Face ----

def test_hub_models_are_called_by_repository_and_file(home):
    write_hub(home.path / ".cache/huggingface/hub", "org/my-repo", "abc", "a-Q4_0.gguf", "sub/b.gguf")
    assert home.names() == ["org/my-repo/a-Q4_0", "org/my-repo/sub/b"]


def test_hub_variables(home):
    write_hub(home.path / "hf/hub", "org/repo", "abc", "a.gguf")
    write_hub(home.path / "cache", "org/other", "abc", "b.gguf")
    assert home.names(HF_HOME=str(home.path / "hf")) == ["org/repo/a"]
    assert home.names(HF_HOME=str(home.path / "hf"), HF_HUB_CACHE=str(home.path / "cache")) == ["org/other/b"]


def test_the_main_revision_of_a_repository_counts(home):
    hub = home.path / ".cache/huggingface/hub"
    write_hub(hub, "org/repo", "aaa", "m.gguf", "only-old.gguf")
    write_hub(hub, "org/repo", "bbb", "m.gguf")
    models = {m["name"]: m["path"] for m in home.discover()["models"]}
    assert set(models) == {"org/repo/m", "org/repo/only-old"} and "/bbb/" in models["org/repo/m"]
    assert home.why(hub / "models--org--repo/snapshots/aaa/m.gguf") == ["another revision of org/repo/m"]


def test_a_link_to_nothing_is_explained(home):
    hub = home.path / ".cache/huggingface/hub"
    write_hub(hub, "org/repo", "abc", "m.gguf")
    (hub / "models--org--repo/blobs/abc0").unlink()
    assert home.names() == []
    assert home.why(hub / "models--org--repo/snapshots/abc/m.gguf") == ["a link to nothing"]


# ---- Ollama ----

def test_ollama_models_go_by_name_and_tag(home):
    models = home.path / ".ollama/models"
    write_ollama(models, "llama3.2", tag="1b")
    write_ollama(models, "mine", namespace="me")
    write_ollama(models, "gemma", registry="hf.co", namespace="org", tag="Q4_0")
    write_model(models / ("blobs/sha256-" + "f" * 64))  # a blob that no manifest names is no model
    assert sorted(home.names()) == ["hf.co/org/gemma:Q4_0", "llama3.2:1b", "me/mine:latest"]
    assert home.names(OLLAMA_MODELS=str(home.path / "elsewhere")) == []


def test_two_tags_of_one_blob_are_one_model(home):
    models = home.path / ".ollama/models"
    digest = write_ollama(models, "m", tag="a")
    write_ollama(models, "m", tag="b", digest=digest, blob=False)
    assert home.names() == ["m:a"]
    assert any(p["why"] == "the same file as m:a" for p in home.discover()["passed"])


@pytest.mark.parametrize("digest", ["../../../../etc/passwd", "0" * 63, "g" * 64, "0" * 65])
def test_a_manifest_cannot_lead_out_of_the_store(home, digest):
    models = home.path / ".ollama/models"
    write_ollama(models, "bad", digest=digest, blob=False)
    assert home.names() == []
    assert "64 hexadecimal digits" in home.why(models / "manifests/registry.ollama.ai/library/bad/latest")[0]


def test_broken_manifests_are_explained(home):
    models = home.path / ".ollama/models"
    write_ollama(models, "gone", blob=False)
    folder = models / "manifests/registry.ollama.ai/library/broken"
    folder.mkdir()
    (folder / "json").write_text("{")
    (folder / "deep").write_text("[" * 100000)
    (folder / "empty").write_text("{}")
    assert home.names() == []
    assert home.why(folder / "json") == ["not the JSON of a manifest"] == home.why(folder / "deep")
    assert "no layer" in home.why(folder / "empty")[0]
    assert "missing" in home.why(folder.parent / "gone/latest")[0]


# ---- What is passed over ----

@pytest.mark.parametrize("why, model", [
    ("projector", {"architecture": "clip"}),
    ("without tensors", {"tensors": 0}),
    ("adapter", {"vocabulary": 0}),
    ("architecture", {"architecture": "unheard-of"}),
])
def test_files_that_are_no_language_model(home, why, model):
    path = write_model(home.path / "models/x.gguf", **model)
    assert home.names() == [] and why in home.why(path)[0]


def test_damaged_files_are_explained_once_and_hide_nothing(home):
    good, = home.models("z.gguf")
    folder = home.path / "models"
    (folder / "empty.gguf").write_bytes(b"")
    (folder / "text.gguf").write_bytes(b"hello, I am no model")
    (folder / "cut.gguf").write_bytes(good.read_bytes()[:-8])
    (folder / "part.gguf.incomplete").write_bytes(b"GGUF")
    os.mkfifo(folder / "pipe.gguf")
    (folder / "folder.gguf").mkdir()
    (folder / "notes.txt").write_text("nothing to say about this one")
    assert home.names() == ["z"]
    passed = {pathlib.Path(p["path"]).name for p in home.discover()["passed"]}
    assert passed == {"empty.gguf", "text.gguf", "cut.gguf", "part.gguf.incomplete", "pipe.gguf"}


def test_loops_of_links_end(home):
    home.models("a/m.gguf", "b/n.gguf")
    models = home.path / "models"
    for folder, other in ("ab", "ba"):
        (models / folder / "up").symlink_to(home.path)
        (models / folder / "other").symlink_to(models / other)
        (models / folder / "self").symlink_to(models / folder)
    (home.path / "models/me").symlink_to("me")
    assert sorted(home.names()) == ["m", "n"]


def test_folders_end_at_a_depth(home):
    write_model(home.path / "models" / "/".join("abcdefghi") / "in.gguf")
    write_model(home.path / "models" / "/".join("abcdefghijk") / "out.gguf")
    found = home.discover()
    assert [m["name"] for m in found["models"]] == ["in"]
    assert any("deep" in p["why"] for p in found["passed"])


# ---- Names on the command line ----

@pytest.fixture
def several(home):
    home.models("SmolLM2-Q4_0.gguf", "SmolLM2-Q8_0.gguf")
    write_ollama(home.path / ".ollama/models", "llama3")
    write_ollama(home.path / ".ollama/models", "llama3", tag="70b")
    write_hub(home.path / ".cache/huggingface/hub", "org/repo", "abc", "gemma-it.gguf")
    return home


def probe(home, model):
    return shimmy("probe", model, "--json", env=home.env, check=False)


@pytest.mark.parametrize("word, name", [
    ("SmolLM2-Q4_0", "SmolLM2-Q4_0"), ("smollm2-q4_0", "SmolLM2-Q4_0"), ("SmolLM2-Q8_0.gguf", "SmolLM2-Q8_0"),
    ("llama3", "llama3:latest"), ("llama3:70b", "llama3:70b"), ("org/repo/gemma-it", "org/repo/gemma-it"),
    ("gemma-it", "org/repo/gemma-it"), ("gemma", "org/repo/gemma-it"), ("org", "org/repo/gemma-it"),
])
def test_a_name_may_be_shortened(several, word, name):
    done = shimmy("probe", word, env=several.env, check=False)
    # The file is a bare header, which is either described or refused; what counts is which file it was.
    path = {m["name"]: m["path"] for m in several.discover()["models"]}[name]
    assert path in (done.stdout + done.stderr).decode()


def test_a_name_that_fits_several_models_is_not_guessed(several):
    done = probe(several, "SmolLM2")
    assert done.returncode == 1
    assert done.stderr.decode().strip() == "shimmy: SmolLM2: several models are meant: SmolLM2-Q4_0, SmolLM2-Q8_0"


def test_an_unknown_name_lists_those_there_are(several):
    done = probe(several, "mistral")
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1
    assert b"SmolLM2-Q4_0" in done.stderr and b"llama3:latest" in done.stderr
    assert b"did you mean SmolLM2-Q4_0" in probe(several, "SmolML2-Q4_0").stderr
