"""The command line does what its help says: exit codes, one line of error, exact output, options and their variables.

The model is a toy that says "gr", "een", " tea" and then its end token to any chat, so that every answer is known.
"""
import json
import lzma
import math
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import time

import pytest

from support import EXE, MODELS, ROOT, SHARED, logits, shimmy, shimmy_json

COMMANDS = ["serve", "generate", "list", "discover", "probe", "bench", "tokenize", "detokenize", "render", "logits",
            "perplexity"]
SMOLLM2 = MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf"
NANO = MODELS / "nano-llama-q4_k_m.gguf"


def counter(folder, *pieces, name="toy.gguf"):
    path = folder / name
    tool = ROOT / "tests/tools/counter_gguf.py"
    subprocess.run([sys.executable, tool, path, *pieces], check=True, capture_output=True)
    return path


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return counter(tmp_path_factory.mktemp("toy"), "gr", "een", " tea")


def fails(code, *arguments, **options):
    """The one line (two for usage: what is wrong, and where the help is) that a failing command prints."""
    done = shimmy(*arguments, check=False, **options)
    text = done.stderr.decode()
    assert done.returncode == code, text
    assert text.count("\n") == (2 if code == 2 else 1), text
    assert all(line.startswith("shimmy: ") for line in text.splitlines())
    return text


# ---- Help and usage ----

def test_help_lists_every_command():
    text = shimmy("--help").stdout.decode()
    assert [c for c in COMMANDS if re.search(rf"^  {c} ", text, re.MULTILINE)] == COMMANDS
    assert shimmy("help").stdout == shimmy("-h").stdout == text.encode()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(command):
    text = shimmy("help", command).stdout.decode()
    assert text == shimmy(command, "--help").stdout.decode()
    assert text == shimmy(command, "--model-dirs", "x", "-h").stdout.decode()
    assert text.startswith(f"usage: shimmy {command}") and "--help" in text
    assert max(map(len, text.splitlines())) < 80 and not re.search(r" $", text, re.MULTILINE)


def test_version():
    assert re.fullmatch(r"shimmy \d+\.\d+\.\d+\n", shimmy("--version").stdout.decode())


@pytest.mark.parametrize("arguments, said", [
    ([], "command is missing"),
    (["genarate"], "did you mean generate?"),
    (["help", "nothing"], "unknown command nothing"),
    (["generate", "m", "--temprature", "1"], "did you mean --temperature?"),
    (["generate", "m", "--max", "1"], "did you mean --max-tokens?"),
    (["generate", "m", "-x"], "unknown option -x"),
    (["generate", "m", "--bind", "x"], "unknown option --bind"),
    (["tokenize", "m", "--- x"], "goes after --"),
    (["generate", "m", "--prompt"], "--prompt needs a value: TEXT|-"),
    (["generate", "m", "--raw=1", "--prompt", "x"], "--raw takes no value"),
    (["generate"], "generate needs: MODEL"),
    (["generate", "m"], "--prompt"),
    (["generate", "m", "n", "--prompt", "x"], "unexpected argument 'n'"),
    (["generate", "m", "--prompt", "x", "--raw", "--system", "y"], "not with --raw"),
    (["generate", "m", "--prompt", "x", "--stop", ""], "--stop"),
    (["generate", "m", "--prompt", "x"] + ["--stop", "a"] * 17, "more than 16 times"),
    (["tokenize", "m"], "TEXT"),
    (["tokenize", "m", "text", "--jsonl"], "--jsonl reads standard input"),
    (["detokenize", "m"], "needs: MODEL IDS|-"),
    (["render", "m"], "--messages"),
    (["render", "--messages", "f"], "MODEL or --template"),
    (["logits", "m"], "--tokens"),
    (["perplexity", "m"], "--tokens"),
])
def test_wrong_usage(arguments, said):
    assert said in fails(2, *arguments)


@pytest.mark.parametrize("option, found, allowed", [
    ("--threads", "many", "from 0 to 1024"), ("--threads", "-1", "from 0 to 1024"),
    ("--threads", "1.5", "whole number"),
    ("--threads", "99999999999999999999", "from 0 to 1024"), ("--threads", "", "whole number"),
    ("--max-tokens", "-2", "from -1"), ("--temperature", "nan", "a number from 0"),
    ("--temperature", "-0.1", "a number from 0"),
    ("--top-p", "1.1", "to 1"), ("--kv", "f8", "f16|f32|q8_0"), ("--kv", "", "f16|f32|q8_0"), ("--kv", "f16|f32", "f16|f32|q8_0"),
    ("--prefill-chunk", "0", "from 1"), ("--seed", "-2", "from -1"),
])
def test_values_out_of_bounds(option, found, allowed):
    text = fails(2, "generate", "m", "--prompt", "x", option, found)
    assert option in text and f"'{found}'" in text and allowed in text


def test_failures_are_one_line(toy, tmp_path):
    empty = tmp_path / "empty.gguf"
    empty.touch()
    for arguments in (["probe", empty], ["probe", tmp_path], ["probe", "/nowhere/x.gguf"], ["tokenize", "", "x"],
                      ["generate", toy, "--prompt", "x", "--ctx", "100000"], ["detokenize", toy, "1,99999"],
                      ["perplexity", toy, "--tokens", "5"], ["render", toy, "--messages", "/nowhere/m.json"]):
        fails(1, *arguments)
    for ids in ("1,99999", "1,-2", ",", "/nowhere/ids"):
        fails(1, "logits", toy, "--tokens", ids)
    for positions in ("2", "0;1", "-1", "", "0,"):
        fails(1, "logits", toy, "--tokens", "1,2", "--positions", positions)


def test_output_that_cannot_be_written_is_a_failure():
    with open("/dev/full", "w") as full:
        done = subprocess.run([EXE, "--help"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1 and b"standard output" in done.stderr


# ---- Options and variables ----

def threads(toy, *arguments, **env):
    small = ["--device", "cpu", "--prompt-tokens", 8, "--gen-tokens", 4, "--runs", 1]
    return shimmy_json("bench", toy, *small, *arguments, env=env)["threads"]


def test_a_flag_beats_its_variable_and_a_later_flag_an_earlier_one(toy):
    assert threads(toy, SHIMMY_THREADS="2") == 2
    assert threads(toy, "--threads", 1, SHIMMY_THREADS="2") == 1
    assert threads(toy, "--threads", 1, SHIMMY_THREADS="nonsense") == 1
    assert threads(toy, "--threads", 1, "--threads=2") == 2
    assert threads(toy, "--threads", 1, SHIMMY_THREADS="") == 1


def test_a_wrong_variable_is_named(toy):
    assert "SHIMMY_THREADS: found 'x'" in fails(2, "bench", toy, env={"SHIMMY_THREADS": "x"})
    assert "SHIMMY_KV" in fails(2, "bench", toy, env={"SHIMMY_KV": "q1"})
    done = shimmy("bench", toy, check=False, env={"SHIMMY_DEVICE": "abacus"})
    assert done.returncode == 1 and b"abacus" in done.stderr.splitlines()[-1]  # GPU drivers may have said more before
    assert "100000" in fails(1, "generate", toy, "--prompt", "x", env={"SHIMMY_MAX_CTX": "100000"})


# ---- generate ----

def test_generate_prints_the_text_and_nothing_else(toy):
    done = shimmy("generate", toy, "--prompt", "hi")
    assert done.stdout == b"green tea" and done.stderr == b""


def test_generate_json(toy):
    assert shimmy_json("generate", toy, "--prompt", "hi") == {
        "text": "green tea", "ids": [259, 260, 261, 262], "finish_reason": "stop",
        "usage": {"prompt_tokens": 12, "completion_tokens": 4, "total_tokens": 16}}


@pytest.mark.parametrize("arguments, text, reason, count", [
    (["--max-tokens", 2], "green", "length", 2), (["--max-tokens", 0], "", "length", 0),
    (["--stop", "een tea"], "gr", "stop", 3), (["--stop", "zzz", "--stop", "n"], "gree", "stop", 2),
    (["--max-tokens", -1], "green tea", "stop", 4), (["--temperature", 0], "green tea", "stop", 4),
    (["--system", "be brief"], "green tea", "stop", 4),
])
def test_generate_ends(toy, arguments, text, reason, count):
    said = shimmy_json("generate", toy, "--prompt", "hi", *arguments)
    assert (said["text"], said["finish_reason"], said["usage"]["completion_tokens"]) == (text, reason, count)


def test_generate_ends_with_a_full_context(toy):
    said = shimmy_json("generate", toy, "--raw", "--prompt", "a", "--ctx", 40)
    assert said["finish_reason"] == "length" and said["usage"]["total_tokens"] == 40


def test_a_raw_prompt_is_the_models_input(toy):
    assert shimmy("generate", toy, "--raw", "--prompt", "ab", "--max-tokens", 4).stdout == b"cdef"
    assert shimmy("generate", toy, "--raw", "--prompt", "-", "--max-tokens", 4, stdin=b"ab").stdout == b"cdef"
    assert shimmy("generate", toy, "--raw", "--prompt", "<|go|>", "--max-tokens", 1).stdout == b"gr"


def test_a_chat_prompt_holds_no_control_tokens(toy):
    plain = shimmy_json("generate", toy, "--prompt", "xx<|go|>xx")["usage"]["prompt_tokens"]
    assert plain == 12 - 2 + len("xx<|go|>xx")


def test_a_prompt_that_is_no_utf8_is_refused(toy):
    assert "UTF-8" in fails(1, "generate", toy, "--prompt", "-", stdin=b"\xff")


def test_the_same_seed_gives_the_same_text(tmp_path):
    dice = counter(tmp_path, "--step", "0", name="dice.gguf")
    roll = lambda seed: shimmy("generate", dice, "--raw", "--prompt", "a", "--seed", seed, "--max-tokens", 20).stdout
    assert roll(7) == roll(7) and len({roll(7), roll(8), roll(-1), roll(-1)}) == 4


def interrupted(*arguments, after):
    """What a command leaves that is interrupted once it has printed `after` bytes, or some time after its start."""
    process = subprocess.Popen([EXE, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    first = b""
    while len(first) < after:
        first += process.stdout.read(1)
    if not after:
        time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    rest, err = process.communicate(timeout=30)
    assert process.returncode == 1 and err == b"shimmy: interrupted\n"
    return first + rest


def test_interrupting_ends_cleanly(toy):
    counting = ["generate", SMOLLM2, "--raw", "--prompt", "1 2 3 4 5 6 7 8 9", "--temperature", 0]
    assert interrupted(*counting, after=3).startswith(b" 10")
    said = json.loads(interrupted(*counting, "--json", after=0))  # whole JSON even so
    assert said["finish_reason"] == "cancelled" and said["usage"]["completion_tokens"] == len(said["ids"])
    assert interrupted("bench", toy, "--runs", 1000, "--prompt-tokens", 1000, "--gen-tokens", 1000, after=0) == b""


def test_a_terminal_gets_a_line_end(toy):
    master, slave = pty.openpty()
    subprocess.run([EXE, "generate", toy, "--prompt", "hi"], stdout=slave, check=True)
    os.close(slave)
    said = b""
    while not said.endswith(b"\n"):  # a terminal hands on what was written at any time in any pieces
        said += os.read(master, 100)
    assert said == b"green tea\r\n"
    os.close(master)


# ---- tokenize, detokenize ----

def test_tokenize_and_back(toy):
    ids = json.loads(shimmy("tokenize", toy, "green tea").stdout)
    printed = json.dumps(ids, separators=(",", ":")) + "\n"
    assert shimmy("tokenize", toy, "-", stdin=b"green tea").stdout.decode() == printed
    for form in (",".join, " ".join, lambda s: "[" + ", ".join(s) + "]", lambda s: " , ".join(s) + "\n"):
        assert shimmy("detokenize", toy, form(list(map(str, ids)))).stdout == b"green tea"
    assert shimmy("detokenize", toy, "-", stdin=json.dumps(ids).encode()).stdout == b"green tea"
    assert shimmy("detokenize", toy, "[]").stdout == b"" and json.loads(shimmy("tokenize", toy, "").stdout) == []


def test_tokenize_flags(toy):
    ids = lambda *flags: json.loads(shimmy("tokenize", toy, *flags, "--", "<|go|>").stdout)
    assert ids("--parse-special") == [258]
    assert len(ids()) == 6 and ids("--add-special") == [0] + ids()


def test_tokenize_takes_raw_bytes(toy):
    every = bytes(range(256))
    ids = shimmy("tokenize", toy, "-", stdin=every).stdout
    assert shimmy("detokenize", toy, "-", stdin=ids).stdout == every


def test_tokenize_jsonl_answers_line_by_line(toy):
    process = subprocess.Popen([EXE, "tokenize", toy, "--jsonl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for text in ("ab", "", "é\n\0\"", "🍵"):
        process.stdin.write(json.dumps(text).encode() + b"\n")
        process.stdin.flush()
        ids = json.loads(process.stdout.readline())  # comes before the next line is written
        assert shimmy("detokenize", toy, "-", stdin=json.dumps(ids).encode()).stdout.decode() == text
    process.stdin.close()
    assert process.wait(10) == 0


@pytest.mark.parametrize("line", [b"5", b"nonsense", b'"\\ud800"', b'"\xff"', b'["a"]', b""])
def test_tokenize_jsonl_names_a_bad_line(toy, line):
    done = shimmy("tokenize", toy, "--jsonl", stdin=b'"a"\n' + line + b'\n"b"\n', check=False)
    assert done.returncode == 1 and done.stdout.count(b"\n") == 1
    assert done.stderr.startswith(b"shimmy: line 2: ") and done.stderr.count(b"\n") == 1


# ---- render ----

CHAT = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()


def test_render_adds_nothing(toy):
    prompt = shimmy("render", toy, "--messages", "-", stdin=CHAT).stdout.decode()
    assert "hi" in prompt and prompt.endswith("<|go|>")


def test_render_without_a_model(tmp_path):
    source = tmp_path / "t.jinja"
    source.write_text("{{ bos_token }}{{ messages[0].content }}{{ strftime_now('%Y/%m/%d %H') }}{{ eos_token }}")
    given = ["--bos", "<b>", "--eos", "<e>", "--now", "2024-02-29 13:45"]
    out = shimmy("render", "--template", source, *given, "--messages", "-", stdin=CHAT).stdout
    assert out == b"<b>hi2024/02/29 13<e>"


def test_a_template_s_own_error_is_told_word_for_word(tmp_path):
    source = tmp_path / "t.jinja"
    source.write_text("{{ raise_exception('roles must alternate') }}")
    assert "roles must alternate" in fails(1, "render", "--template", source, "--messages", "-", stdin=CHAT)


def test_a_template_s_syntax_error_names_the_file(tmp_path):
    source = tmp_path / "broken.jinja"
    source.write_text("{% if %}")
    assert "broken.jinja" in fails(1, "render", "--template", source, "--messages", "-", stdin=CHAT)


# ---- probe, logits, perplexity, bench ----

def test_probe(toy):
    info = shimmy_json("probe", toy)
    assert (info["architecture"], info["context"]) == ("llama", 2048)
    assert info["chat_template"] is True and info["runnable"] is True
    assert info["parameters"] == info["active_parameters"] > 0 and info["kv_bytes"] > info["kv_bytes_q8_0"] > 0 and "F32" in info["mix"]
    text = shimmy("probe", toy).stdout.decode()
    for label in ("architecture", "parameters", "active parameters", "quantization", "context", "kv bytes",
                  "chat template"):
        assert re.search(rf"^{label}  ", text, re.MULTILINE)


def test_logits_are_json_lines(toy):
    lines = shimmy("logits", toy, "--tokens", "5,6,7", "--positions", "2,0").stdout.decode().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["position"] for row in rows] == [0, 2]
    for row, token in zip(rows, (5, 7)):
        assert max(range(len(row["logits"])), key=row["logits"].__getitem__) == token + 1
    last = shimmy("logits", toy, "--tokens", "5 6\n7").stdout.decode()
    assert last == lines[1] + "\n"
    assert len(shimmy("logits", toy, "--tokens", "5,6,7", "--positions", "all").stdout.splitlines()) == 3


def test_token_ids_come_from_files_too(toy, tmp_path):
    (tmp_path / "ids").write_text("[5,\n 6, 7]\n")
    from_file = shimmy("logits", toy, "--tokens", tmp_path / "ids").stdout
    assert from_file == shimmy("logits", toy, "--tokens", "5,6,7").stdout


def test_neighbours_change_nothing(toy):
    ids = ",".join(str(5 + i % 200) for i in range(300))
    alone = shimmy("logits", toy, "--tokens", ids, "--positions", "all").stdout
    assert shimmy("logits", toy, "--tokens", ids, "--positions", "all", "--neighbours", 5).stdout == alone


def test_perplexity_of_what_the_model_expects(toy):
    sure = shimmy_json("perplexity", toy, "--tokens", "5,6,7,8")
    assert set(sure) == {"tokens", "mean_nll", "perplexity"}
    assert sure["tokens"] == 4 and abs(sure["mean_nll"]) < 1e-6 and abs(sure["perplexity"] - 1) < 1e-6
    never = shimmy_json("perplexity", toy, "--tokens", "5,7,6")
    assert never["mean_nll"] > 1000 and never["perplexity"] is None  # too large for a number


def test_perplexity_against_itself(toy):
    both = shimmy_json("perplexity", toy, "--tokens", "5,6,7,8,20,21", "--kl")
    assert abs(both["mean_kl"]) < 1e-6 and both["same_top"] == 1


def log_softmax(row):
    top = max(row)
    log_sum = top + math.log(sum(math.exp(x - top) for x in row))
    return [x - log_sum for x in row]


def test_perplexity_is_the_mean_of_the_rows():
    ids = [(i * 37) % 500 for i in range(50)]
    rows = lambda *how: [log_softmax(row) for row in logits(NANO, ids, *how).values()]
    fast, exact = rows(), rows("--exact", "--kv", "f32")
    said = shimmy_json("perplexity", NANO, "--tokens", ",".join(map(str, ids)), "--kl")
    nll = -sum(fast[i][ids[i + 1]] for i in range(49)) / 49
    kl = sum(math.exp(p) * (p - q) for i in range(49) for p, q in zip(exact[i], fast[i])) / 49
    assert abs(said["mean_nll"] - nll) < 1e-5 and abs(said["mean_kl"] - kl) < 1e-5
    assert said["tokens"] == 50 and abs(said["perplexity"] - math.exp(nll)) < 1e-3 * math.exp(nll)


def test_tokens_that_ran_before_come_from_the_cache(toy):
    ids = ",".join(["5"] * 100)
    cold = shimmy("logits", toy, "--tokens", ids, "--device", "cpu", "--cache-ram", 0)
    for size, said in (("auto", 96), (0, 0), ("1M", 96), (1, 96)):
        warm = shimmy("logits", toy, "--tokens", ids, "--device", "cpu", "--warm", "--cache-ram", size)
        assert warm.stderr == b"shimmy: %d tokens came from the cache\n" % said
        assert warm.stdout == cold.stdout
    for wrong in ("x", "", "-1", "1T", "1Kx", "99999999999999999999", "18446744073709551615G"):
        assert "--cache-ram: found" in fails(2, "logits", toy, "--tokens", "1", "--cache-ram", wrong)


def test_bench(toy):
    small = ["--prompt-tokens", 20, "--gen-tokens", 10, "--device", "cpu"]
    said = shimmy_json("bench", toy, *small, "--runs", 2, "--parallel", 3)
    assert {"load_ms", "prompt_tps", "decode_tps", "rss_bytes", "device"} <= set(said)
    assert all(said[k] > 0 for k in ("load_ms", "prompt_tps", "decode_tps", "rss_bytes"))
    assert said["device"].startswith("cpu")
    assert "tokens/s" in shimmy("bench", toy, "--prompt-tokens", 20, "--gen-tokens", 10, "--runs", 1).stdout.decode()


def test_bench_says_where_the_time_goes(toy):
    table = shimmy("bench", toy, "--prompt-tokens", 20, "--gen-tokens", 10, "--runs", 1, "--device", "cpu", "--profile").stderr.decode()
    rows = [line.split() for line in table.splitlines()]
    assert rows[0][:1] == ["operation"] and rows[0][-1] == "GMAC/s"
    assert {"attend", "linear", "head"} <= {row[0] for row in rows}
    times = [float(row[-5]) for row in rows[1:] if row[0] == "linear"]
    assert times == sorted(times, reverse=True) and times[-1] > 0


def test_a_vocabulary_without_tensors_will_do(tmp_path):
    packed = SHARED / "vocab/ggml-vocab-llama-spm.gguf.xz"
    if not packed.exists():
        pytest.skip("no shared vocabularies")
    path = tmp_path / "vocab.gguf"
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    ids = json.loads(shimmy("tokenize", path, "Hello").stdout)
    assert ids and b"Hello" in shimmy("detokenize", path, ",".join(map(str, ids))).stdout
    info = shimmy_json("probe", path)
    assert info["architecture"] == "llama" and not info["runnable"] and info["why_not"]
    fails(1, "generate", path, "--prompt", "x")


# ---- The example ----

def test_the_example_needs_nothing_but_the_library(toy, tmp_path):
    library = pathlib.Path(os.environ.get("SHIMMY_BUILD", ROOT / "build/release")) / "libairframe.a"
    if not library.exists():
        pytest.skip("no library built")
    flags = ["-fsanitize=" + os.environ["SHIMMY_SANITIZED"]] if os.environ.get("SHIMMY_SANITIZED") else []
    program = tmp_path / "chat"
    libraries = ["-ljansson", "-lpcre2-8", "-lutf8proc", "-lpthread", "-ldl", "-lm"]
    subprocess.run(["cc", *flags, f"-I{ROOT / 'include'}", ROOT / "examples/chat.c", library, *libraries,
                    "-o", program], check=True)
    assert subprocess.run([program, toy, 'a "question"\n'], capture_output=True, check=True).stdout == b"green tea\n"
    assert subprocess.run([program, "/nowhere", "x"], capture_output=True).returncode == 1
