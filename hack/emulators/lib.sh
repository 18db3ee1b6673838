# shellcheck shell=bash
# Shared by the scripts in this folder. To be sourced, not run.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
source "$ROOT/hack/tools.sh"
NAME="$(basename "$0" .sh)"
HOME_OF_IT="$(tool_folder "$NAME" "$0")" # what is installed: the script pins its version
RUN="$ROOT/.tools/run/$NAME" # logs, test binaries and data of the last run
REPORT="$RUN/report"
# The deadline for everything, in seconds since 1970. run.sh sets it for all emulators together.
DEADLINE="${TISNAP_TEST_EMULATORS_DEADLINE:-$(($(date +%s) + 840))}"
EMULATOR_PID=

# The user's credentials never reach an emulator, and an emulator's test never reaches AWS.
unset AWS_PROFILE AWS_SESSION_TOKEN AWS_ENDPOINT_URL AWS_ENDPOINT_URL_S3 AWS_ENDPOINT_URL_EC2 AWS_ENDPOINT_URL_STS
export AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null AWS_EC2_METADATA_DISABLED=true
export AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY=secret AWS_REGION=us-east-1

say() { printf '%s: %s\n' "$NAME" "$*"; }
die() { say "$*" >&2; exit 1; }

# begin clears the last run, and makes sure that what this one starts is stopped however it ends.
begin() {
  rm -rf "$RUN"
  mkdir -p "$RUN"
  trap stop EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

# note adds a line to the summary at the end.
note() { printf '%-11s %s\n' "$NAME" "$*" >>"$REPORT"; }

# bounded runs a command for at most so many seconds, and not beyond the deadline.
bounded() {
  local seconds=$1 left=$((DEADLINE - $(date +%s)))
  shift
  [ "$left" -gt 0 ] || die "no time is left for: $*"
  timeout --foreground -k 10 "$((seconds < left ? seconds : left))" "$@"
}

# find_python prints an interpreter of one of these versions, the first being preferred, or fails.
find_python() {
  local version candidate
  for version in "$@"; do
    for candidate in "python$version" python3 "${PYENV_ROOT:-${HOME:-/}/.pyenv}/versions/$version".*/bin/python3; do
      # pyenv has shims for versions that it then refuses to run: only running one shows that.
      if "$candidate" -c "import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" 2>/dev/null; then
        printf '%s\n' "$candidate"
        return 0
      fi
    done
  done
  return 1
}

# installed reports whether the emulator is complete; a partial or changed one is removed. The caller then installs the
# emulator and seals it, while it holds the lock against other worktrees.
installed() {
  lock_tool "$HOME_OF_IT"
  whole_tool "$HOME_OF_IT" && exec 9>&-
}

# unused_port prints a free loopback port.
unused_port() {
  local port
  for _ in {1..50}; do
    port=$((20000 + RANDOM % 12000))
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      printf '%s\n' "$port"
      return 0
    fi
  done
  die "no port is free"
}

# start runs an emulator in its own session, so that everything it starts can be ended with it.
start() {
  setsid "$@" >"$RUN/log" 2>&1 </dev/null &
  EMULATOR_PID=$!
}

# await waits until a URL answers at all.
await() {
  local url=$1 seconds=$2 started=$SECONDS
  until curl -s -o "$RUN/answer" --noproxy '*' --max-time 2 "$url"; do
    kill -0 "$EMULATOR_PID" 2>/dev/null || { tail -20 "$RUN/log" >&2; die "it ended while starting"; }
    [ $((SECONDS - started)) -lt "$seconds" ] || { tail -20 "$RUN/log" >&2; die "no answer in $seconds s"; }
    sleep 0.2
  done
  say "answers at $url after $((SECONDS - started)) s"
}

# stop ends what start started, and nothing else.
stop() {
  [ -n "$EMULATOR_PID" ] || return 0
  kill -TERM -- "-$EMULATOR_PID" 2>/dev/null || true
  for _ in {1..50}; do
    kill -0 -- "-$EMULATOR_PID" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL -- "-$EMULATOR_PID" 2>/dev/null || true
  wait "$EMULATOR_PID" 2>/dev/null || true
  EMULATOR_PID=
}
