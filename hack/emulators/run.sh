#!/usr/bin/env bash
# Runs the contracts on all emulators, or on those named, one after the other. See README.md.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
reports="$here/../../.tools/run"

[ $# -gt 0 ] || set -- moto versitygw localstack
TISNAP_TEST_EMULATORS_DEADLINE=$(($(date +%s) + 840))
export TISNAP_TEST_EMULATORS_DEADLINE

failed=()
for name in "$@"; do
  [ -x "$here/$name.sh" ] && [[ "$name" =~ ^(moto|versitygw|localstack)$ ]] ||
    { printf 'unknown emulator %q: choose from moto, versitygw, localstack\n' "$name" >&2; exit 2; }
done
for name in "$@"; do
  status=0
  "$here/$name.sh" || status=$?
  case $status in
  0) ;;
  130 | 143) exit "$status" ;;
  *) failed+=("$name") ;;
  esac
done

printf '\n'
for name in "$@"; do
  if [ -e "$reports/$name/report" ]; then cat "$reports/$name/report"; else printf '%-11s no result\n' "$name"; fi
done
[ ${#failed[@]} -eq 0 ] || { printf '\nfailed: %s\n' "${failed[*]}" >&2; exit 1; }
