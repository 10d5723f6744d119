#!/usr/bin/env bash
# make run: serves a model on 127.0.0.1:11435 (or SHIMMY_BIND_ADDRESS), fetching a small one where there is none at all.
# SHIMMY_BASE_GGUF chooses the model; arguments go to `shimmy serve`.
set -euo pipefail
cd "$(dirname "$0")/.."

shimmy=build/release/shimmy
if [ -z "$($shimmy list 2>/dev/null)" ]; then
    tools/fetch_model.sh >/dev/null
fi

echo "models (shimmy list):"
$shimmy list | sed 's/^/    /'
name=$($shimmy list --json | sed 's/.*"models":\[{"name":"\([^"]*\)".*/\1/')

# Passes the server's ready line on, and then says what to try.
follow() {
    local line url
    while IFS= read -r line; do
        echo "$line"
        url=${line##* }
        [[ $url == http://* ]] || continue
        printf "try:\n    curl %s/v1/chat/completions -H 'Content-Type: application/json' -d '\n" "$url"
        printf "      {\"model\": \"%s\", \"messages\": [{\"role\": \"user\", \"content\": \"Write a haiku about the sea.\"}]}'\n" "$name"
    done
}

# The server takes this process's place, so that signals and the exit code are its own.
exec $shimmy serve "$@" > >(follow)
