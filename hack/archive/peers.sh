#!/usr/bin/env bash
# Installs the backup programs that make bench SUITE=archive compares with, unless they are there.
set -euo pipefail
if ! type restic borg rclone zstd fio mke2fs >/dev/null 2>&1; then
  apt-get update -q >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends restic borgbackup rclone zstd fio e2fsprogs >/dev/null
fi
