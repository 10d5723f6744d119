"""What a server keeps of its rights while it serves (docs/SECURITY.md); what a sandbox forbids at all is os_sandbox_test.c's."""
import os
import pathlib
import re
import shutil
import signal
import stat
import time

import pytest

from server import Server, counter_model
from support import EXE, ROOT

CERTIFICATES = ROOT / "tests/tls"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return counter_model(tmp_path_factory.mktemp("model"))


def serve(model, *arguments, device="cpu", **options):
    return Server(EXE, "serve", "--model-path", model, "--bind", "127.0.0.1:0", "--device", device, *arguments, **options)


def wait_for(condition, seconds=5):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def states(server):
    """{thread: (no_new_privs, seccomp mode)} as the kernel has it."""
    found = {}
    for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        text = (task / "status").read_text()
        found[(task / "comm").read_text().strip()] = tuple(
            int(re.search(rf"^{name}:\s+(\d)", text, re.M)[1]) for name in ("NoNewPrivs", "Seccomp"))
    return found


def opens(server, key):
    return server.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})[0] == 200


def reload(server, line):
    """SIGHUP, and what the log then says of it."""
    before = len(server.errors)
    server.signal(signal.SIGHUP)
    wait_for(lambda: any(line in text for text in server.errors[before:]))


def replace(path, text):
    new = path.with_name("new")
    new.write_text(text)
    os.replace(new, path)


def test_every_thread_is_in_the_sandbox_unless_it_is_turned_off(model):
    with serve(model, "--threads", 2) as server:
        assert server.chat()[2]["choices"][0]["message"]["content"] == "green tea"
        threads = states(server)
        assert len(threads) >= 3 and set(threads.values()) == {(1, 2)}, threads
        assert not any("sandbox" in line for line in server.errors)
    with serve(model, "--no-sandbox") as server:
        assert server.chat()[0] == 200
        assert set(states(server).values()) == {(0, 0)}


def test_files_that_are_replaced_are_read_again(model, tmp_path):
    keys, certificate, key = tmp_path / "keys", tmp_path / "used.pem", tmp_path / "used.key"
    keys.write_text("old\n")
    for path in (certificate, key):
        shutil.copy(CERTIFICATES / f"one{path.suffix}", path)
    with serve(model, "--api-keys", keys) as server:
        replace(keys, "new\n")
        reload(server, "read again: the file of keys")
        assert opens(server, "new") and not opens(server, "old")
    with serve(model, "--tls-cert", certificate, "--tls-key", key) as server:
        for path in (certificate, key):
            replace(path, (CERTIFICATES / f"two{path.suffix}").read_text())
        reload(server, "read again: the certificate")


def test_a_certificate_behind_links_may_move_on(model, tmp_path):
    """As certbot keeps them: live/x.pem leads to archive/x1.pem, after a renewal to archive/x2.pem."""
    live, archive = tmp_path / "live", tmp_path / "archive"
    live.mkdir()
    archive.mkdir()

    def link(number, name):
        for end in ("pem", "key"):
            shutil.copy(CERTIFICATES / f"{name}.{end}", archive / f"x{number}.{end}")
            (live / f"x.{end}").unlink(missing_ok=True)
            (live / f"x.{end}").symlink_to(f"../archive/x{number}.{end}")
    link(1, "one")
    with serve(model, "--tls-cert", live / "x.pem", "--tls-key", live / "x.key") as server:
        link(2, "two")
        reload(server, "read again: the certificate")


def test_no_other_file_is_read(model, tmp_path):
    """Were a key's file led elsewhere, its lines would be taken as keys."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("secret\n")

    def lead_astray(*arguments):
        keys = inside / "keys"
        keys.unlink(missing_ok=True)
        keys.write_text("old\n")
        server = serve(model, "--api-keys", keys, *arguments)
        keys.unlink()
        keys.symlink_to(outside / "secret")
        return server
    with lead_astray() as server:
        reload(server, "keys: cannot open: Permission denied; the file of keys in use stays")
        assert opens(server, "old") and not opens(server, "secret")
    with lead_astray("--no-sandbox") as server:
        reload(server, "read again")
        assert opens(server, "secret")


def test_a_home_is_not_opened_for_one_file_in_it(model, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("old\n")
    with serve(model, "--api-keys", keys, env={"HOME": str(tmp_path)}) as server:
        keys.write_text("new\n")
        reload(server, "read again")
        assert opens(server, "new")
        replace(keys, "newer\n")
        reload(server, "Permission denied")
        assert opens(server, "new")


def test_a_model_behind_a_link_is_reached(tmp_path):
    """As in Hugging Face's cache: the folder of a snapshot holds links into one of blobs."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots/main"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (snapshot / "counter.gguf").symlink_to(counter_model(blobs).rename(blobs / "0a1b2c"))
    with serve(snapshot / "counter.gguf") as server:
        assert server.chat()[0] == 200


def test_the_socket_is_removed_at_the_end(model, tmp_path):
    path = tmp_path / "socket"
    with Server(EXE, "serve", "--model-path", model, "--bind", f"unix:{path}", "--device", "cpu"):
        assert path.exists()
    assert not path.exists()


def test_a_gpu_works_in_the_sandbox(model):
    import lavapipe
    with serve(model, device=lavapipe.DEVICE) as server:
        assert server.chat()[2]["choices"][0]["message"]["content"] == "green tea"
        assert set(states(server).values()) == {(1, 2)}


def made_node():
    """A device node such as a driver has, as long as the test runs; None where this user cannot make one."""
    path = pathlib.Path(f"/dev/nvidia-shimmy-test-{os.getpid()}")
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except OSError:
        return None
    return path


# Of a real driver only lavapipe's can be had here, which has no node and another cache.
def test_a_driver_has_its_nodes_and_its_cache_and_nothing_else(model, tmp_path):
    import lavapipe  # noqa: F401: without it there is no loader either
    driver = tmp_path / "driver"
    driver.mkdir()
    shutil.copy(EXE.parent / "tests/libfake_driver.so", driver)
    (driver / "icd.json").write_text(
        '{"file_format_version": "1.0.0", "ICD": {"library_path": "libfake_driver.so", "api_version": "1.3.0"}}')
    home, cache = tmp_path / "home", tmp_path / "home/.cache/nvidia"
    cache.mkdir(parents=True)
    node = made_node()
    server = Server(EXE, "serve", "--model-path", model, "--bind", "127.0.0.1:0", "--device", "gpu", wait=False, env={
        "HOME": str(home), "XDG_CACHE_HOME": "", "VK_DRIVER_FILES": str(driver / "icd.json"),
        "LD_LIBRARY_PATH": str(driver), "FAKE_DRIVER_CACHE": str(cache), "FAKE_DRIVER_HOME": str(home),
        "FAKE_DRIVER_NODE": str(node or "")})
    try:
        server.process.wait(20)  # no device: it says so and ends
        server.reader.join()
    finally:
        server.process.kill()
        if node:
            node.unlink()
    found = dict(re.findall(r"fake driver: (.*): (.*)", "".join(server.errors)))
    refused = ["write in the home", "read the home", "connect", "start a program"]
    assert {what for what in found if found[what] != "done"} == set(refused), found
    assert {found[what] for what in refused} <= {"Permission denied", "Operation not permitted"}
    assert (cache / "GLCache/shader.bin").read_bytes().startswith(b"shader") and not (home / "planted").exists()
    assert len(found) == (18 if node else 16)
