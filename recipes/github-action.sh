#!/bin/bash
# The step of action.yml: envcheck in an environment of its own, annotations and a step summary, the exit code of the check.
set -euo pipefail
home=$(mktemp -d "${RUNNER_TEMP:-/tmp}/envcheck.XXXXXX")
"${ENVCHECK_HOST_PYTHON:-python3}" -m venv "$home/venv"
"$home/venv/bin/pip" install -q --disable-pip-version-check ${ENVCHECK_PIP_FLAGS:-} "$GITHUB_ACTION_PATH"
read -ra flags <<<"${ENVCHECK_FLAGS:-}"
set +e
"$home/venv/bin/envcheck" --python "${ENVCHECK_PYTHON:-python3}" --format github -o "json=$home/report.json" "${flags[@]}"
code=$?
set -e
if [ -f "$home/report.json" ]; then
  verdict=$("$home/venv/bin/python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["verdict"])' "$home/report.json")
  printf 'verdict=%s\nreport=%s\n' "$verdict" "$home/report.json" >> "$GITHUB_OUTPUT"
fi
exit "$code"
