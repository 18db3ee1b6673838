#!/usr/bin/env bash
# Installs the backup programs that make bench SUITE=archive compares with, unless they are there.
set -euo pipefail
if ! command -v restic >/dev/null || ! command -v borg >/dev/null; then
  apt-get update -q >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends restic borgbackup >/dev/null
fi
