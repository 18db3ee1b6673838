# shellcheck shell=bash
# What .ci/run and .ci/nightly share: parts with limits, and a table of what each took. They source it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

took=()
current=
foreground=

run() { # run LIMIT COMMAND...
  local started=$SECONDS name="${*:2}"
  name=${name#make }
  current=$name
  printf '\n==> %s (at most %s)\n' "${*:2}" "$1"
  timeout $foreground --kill-after=30s "$@"
  took+=("$((SECONDS - started)) $name")
  printf '<== %s: %d s\n' "${*:2}" "$((SECONDS - started))"
}

# beside COMMAND... runs it in a session of its own, at the lowest priority; it is ended with the script. Its failure fails
# nothing: the part that needs what it makes makes it again, and fails by itself. Where the kernel shares processors between
# sessions (autogroup), nice alone would give it half of them.
group=
beside() {
  setsid nice -n 19 bash -c '{ echo 19 >/proc/self/autogroup; } 2>/dev/null; exec "$@"' beside "$@" >/dev/null </dev/null &
  group=$!
}

# meanwhile FUNCTION runs the parts of a function beside those that follow, in a process group of its own. Their output and
# their seconds come with "joined", which fails if one of them has failed. They must not need what the others build.
lane=
laned=$(mktemp -d)
meanwhile() {
  rm -f "$laned"/*
  set -m
  (
    set +m
    trap 'printf "%s\n" "${took[@]/%/, meanwhile}" >"$laned/took"; echo "$current" >"$laned/current"' EXIT
    took=()
    foreground=--foreground # so that all that the parts start is in the group
    "$1"
  ) >"$laned/out" 2>&1 </dev/null &
  lane=$!
  set +m
}

joined() {
  local status=0 more
  wait "$lane" || status=$?
  kill -KILL -- "-$lane" 2>/dev/null || true # what a part left: its limit ends only the command itself
  lane=
  cat "$laned/out"
  mapfile -t more < <(grep . "$laned/took") # no line if its first part failed
  took+=("${more[@]}")
  if [ "$status" -ne 0 ]; then
    current=$(<"$laned/current")
    exit "$status"
  fi
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

end() {
  table # first: it reads the status
  if [ -n "$lane" ]; then
    printf '\nwhat ran beside:\n'
    cat "$laned/out"
  fi
  local started
  for started in $group $lane; do
    kill -- "-$started" 2>/dev/null || true # it may have ended by itself
    wait "$started" || true
    kill -KILL -- "-$started" 2>/dev/null || true # what did not end with it
  done
  rm -rf "$laned"
}
trap end EXIT
