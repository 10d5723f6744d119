"""--cache-dir: what was run before a restart is not run again, and changes nothing: bits on the CPU, text everywhere.

Nine significant digits tell every float from its neighbours, so equal text is equal bits.
"""
import os
import random
import re
import stat

import pytest

from server import Server, counter_model
from support import EXE, MODELS, SANITIZED, shimmy

NANO = ["nano-llama-q4_k_m.gguf", "nano-gemma3-q8_0.gguf", "nano-gpt-oss-f32.gguf", "nano-deepseek2-f32.gguf"]
REAL = ["SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"]
SETTINGS = {
    "as it is": [],
    "f32": ["--kv", "f32"],
    "q8_0": ["--kv", "q8_0"],
    "exact": ["--exact"],
}


def logits(model, tokens, positions, *arguments, **options):
    ids = ",".join(map(str, tokens))
    return shimmy("logits", model, "--tokens", "-", "--positions", positions, "--device", "cpu", *arguments,
                  stdin=ids.encode(), **options)


def cached(out):
    return int(re.search(rb"(\d+) tokens came from the cache", out.stderr)[1])


def random_tokens(count, vocabulary):
    return random.Random(11).choices(range(3, vocabulary), k=count)


def check_restored(folder, model, count, vocabulary, position, arguments):
    """Once without a cache, once to fill it, and then from disk, in other chunks, beside others and by other kernels."""
    tokens, positions = random_tokens(count, vocabulary), f"{position},{count - 1}"
    whole = position // 32 * 32
    ask = lambda *more, **options: logits(MODELS / model, tokens, positions, *arguments, *more, **options)
    cold = ask("--cache-ram", 0)
    first = ask("--cache-dir", folder)
    assert (cached(first), first.stdout) == (0, cold.stdout)
    for more, env in ([], {}), (["--prefill-chunk", 7, "--neighbours", 2], {}), ([], {"AF_CPU_ISA": "scalar"}):
        restored = ask("--cache-dir", folder, *more, env=env)
        assert (cached(restored), restored.stdout) == (whole, cold.stdout)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("model", NANO)
def test_a_restored_prefix_changes_no_bit(tmp_path, model, setting):
    check_restored(tmp_path / "cache", model, 400, 500, 355, SETTINGS[setting])


if not SANITIZED:
    @pytest.mark.parametrize("model", REAL)
    def test_a_thousand_restored_tokens_change_no_bit(tmp_path, model):
        check_restored(tmp_path / "cache", model, 1100, 40000, 1030, [])


def test_pages_of_other_settings_and_other_models_are_not_taken(tmp_path):
    folder, tokens = tmp_path / "cache", random_tokens(200, 500)
    other = tmp_path / "copy.gguf"
    other.write_bytes((MODELS / NANO[0]).read_bytes())
    os.utime(other, (1e9, 1e9))
    ask = lambda model, *more: cached(logits(model, tokens, "199", "--cache-dir", folder, *more))
    assert ask(MODELS / NANO[0]) == 0
    assert ask(MODELS / NANO[0], "--kv", "q8_0") == 0
    assert ask(MODELS / NANO[0], "--exact") == 0
    assert ask(MODELS / "nano-llama-q8_0.gguf") == 0
    assert ask(other) == 0  # the same bytes of another time: it might have been changed where nobody looks
    assert ask(MODELS / NANO[0]) == 192


def test_damaged_files_are_removed_and_the_prompt_runs(tmp_path):
    folder, tokens = tmp_path / "cache", random_tokens(200, 500)
    ask = lambda: logits(MODELS / NANO[1], tokens, "199", "--cache-dir", folder)
    cold = ask()
    for harm in lambda d: d[:-1], lambda d: d[:5000] + bytes([d[5000] ^ 1]) + d[5001:], lambda d: b"", lambda d: d * 2:
        files = sorted(folder.iterdir())
        assert len(files) == 6
        for file in files:
            file.write_bytes(harm(file.read_bytes()))
        harmed = ask()
        assert (cached(harmed), harmed.stdout) == (0, cold.stdout)
        assert b"is removed" in harmed.stderr
        again = ask()  # written anew
        assert (cached(again), again.stdout) == (192, cold.stdout)
        assert b"is removed" not in again.stderr


def test_a_conversation_goes_on_after_the_server_was_restarted(tmp_path):
    folder = tmp_path / "cache"
    talk = [{"role": "user", "content": "x" * 300}]
    model = counter_model(tmp_path)
    start = lambda *how: Server(EXE, "serve", "--model-path", model, "--bind", "127.0.0.1:0", *how)

    def turn(server):
        answer = server.post("/v1/chat/completions", {"messages": talk, "temperature": 0})[2]
        return answer["choices"][0], answer["usage"]

    with start("--cache-dir", folder) as server:
        first, usage = turn(server)
        assert usage["prompt_tokens_details"]["cached_tokens"] == 0
        length = usage["prompt_tokens"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(f.stat().st_mode) for f in folder.iterdir()} == {0o600}
    times = {f: f.stat().st_mtime for f in folder.iterdir()}
    with start("--cache-dir", folder) as server:
        assert server.metric("shimmy_disk_bytes") == sum(f.stat().st_size for f in folder.iterdir())
        assert turn(server) == (first, {**usage, "prompt_tokens_details": {"cached_tokens": (length - 1) // 32 * 32}})
        assert server.metric("shimmy_disk_restored_pages_total") == (length - 1) // 32
        assert server.metric("shimmy_disk_refused_total") == 0
        assert server.metric("shimmy_kept_pages") > 0
        talk += [first["message"], {"role": "user", "content": "y" * 100}]
        second, usage = turn(server)
    assert all(f.stat().st_mtime >= times[f] for f in times)
    with start("--cache-dir", folder) as server, start("--cache-ram", 0) as cold:
        again, then = turn(server)
        assert again == second == turn(cold)[0]
        assert then["prompt_tokens_details"]["cached_tokens"] == (then["prompt_tokens"] - 1) // 32 * 32


def test_a_folder_that_others_may_write_to_stops_the_server(tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    model = MODELS / NANO[0]
    for wrong, said in ((folder, b"others may write to it"), (tmp_path / "a" / "b", b"No such file"),
                        (model, b"Not a directory")):
        done = shimmy("logits", model, "--tokens", "1", "--cache-dir", wrong, check=False)
        assert done.returncode == 1 and b"cache_dir" in done.stderr and said in done.stderr
    for option, value in ("--cache-disk", "auto"), ("--cache-disk", "-1"):
        assert shimmy("logits", model, "--tokens", "1", option, value, check=False).returncode == 2
    done = shimmy("logits", model, "--tokens", "1", "--cache-dir", tmp_path / "c", "--cache-ram", 0, check=False)
    assert done.returncode == 1 and b"cache_ram" in done.stderr


def test_the_folder_stays_within_its_bytes(tmp_path):
    folder = tmp_path / "cache"
    for seed in range(4):
        logits(MODELS / NANO[0], random.Random(seed).choices(range(3, 500), k=300), "299", "--cache-dir", folder,
               "--cache-disk", "1M")
        assert sum(f.stat().st_size for f in folder.iterdir()) <= 1 << 20
