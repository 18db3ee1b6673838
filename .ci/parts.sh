# shellcheck shell=bash
# What .ci/run and .ci/nightly share: parts with limits, and a table of what each took. They source it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

took=()
current=

run() { # run LIMIT COMMAND...
  local started=$SECONDS name="${*:2}"
  name=${name#make }
  current=$name
  printf '\n==> %s (at most %s)\n' "${*:2}" "$1"
  timeout --kill-after=30s "$@"
  took+=("$((SECONDS - started)) $name")
  printf '<== %s: %d s\n' "${*:2}" "$((SECONDS - started))"
}

# table prints the seconds of each part and its share of all, and how it ended.
table() {
  local status=$? part
  printf '\n%7s %6s  part\n' seconds share
  for part in "${took[@]}"; do
    printf '%7d %5d%%  %s\n' "${part%% *}" "$((100 * ${part%% *} / (SECONDS > 0 ? SECONDS : 1)))" "${part#* }"
  done
  printf '%7d         in all\n' "$SECONDS"
  if [ "$status" -eq 0 ]; then
    printf '\nall passed\n'
  else
    printf '\nFAILED: %s\n' "$current" >&2
  fi
}
trap table EXIT
