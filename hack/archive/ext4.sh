#!/usr/bin/env bash
# Runs the tests of ext4's free blocks with e2fsprogs, which it installs if it is not there. As root, which can mount, also
# those that copy a mounted file system while it is written to; they need xfsprogs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PATH="$PATH:/usr/sbin:/sbin"
missing=()
command -v debugfs >/dev/null || missing+=(e2fsprogs)
command -v mkfs.xfs >/dev/null || missing+=(xfsprogs)
if [ "${#missing[@]}" -gt 0 ]; then
  echo "install ${missing[*]}"
  apt-get update -q >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}" >/dev/null
fi
TISNAP_TEST_EXT4=1 "${GO:-go}" test -count=1 -timeout=5m ./pkg/archive/ext4
TISNAP_TEST_EXT4=1 "${GO:-go}" test -count=1 -timeout=5m ./tests -run '^TestArchiveCreate_Ext4_'
