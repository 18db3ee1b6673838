#!/usr/bin/env bash
# Builds the Dockerfile's images with buildah, without a network, and runs in them what TiDB Operator runs in a toolImage.
# Nothing is pulled: stand-ins for the two base images are made from Debian's busybox-static, and a stand-in for make puts
# programs built outside where the real one does. Everything is built twice, from two folders: programs, SBOMs and layers
# must be the same. Needs root, buildah and busybox-static:
#   apt-get install --no-install-recommends buildah busybox-static
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
dir=$(mktemp -d)
storage="--root $dir/root --runroot $dir/run"
b() { command buildah $storage "$@"; }
trap '! mountpoint -q "$dir/readonly" || umount "$dir/readonly"; b rm -a >/dev/null 2>&1 || true; rm -rf "$dir"' EXIT

epoch=$(git log -1 --format=%ct)
mkdir "$dir/again"
git archive HEAD | tar -x -C "$dir/again"
for tree in "$PWD" "$dir/again"; do
  (cd "$tree" && make --silent build sbom VERSION=check COMMIT=none)
done
for c in br tisnap; do
  for f in "$c" "$c.cdx.json"; do cp "bin/$f" "$dir/" && cmp "bin/$f" "$dir/again/bin/$f"; done
done
base() { # base IMAGE: a root with busybox, committed under the name of the image that it replaces
  local c m a
  c=$(b from scratch)
  m=$(b mount "$c")
  mkdir -p "$m/bin" "$m/usr/bin" "$m/etc/ssl/certs" "$m/tmp" "$m/var/lib/br-bin"
  chmod 1777 "$m/tmp" "$m/var/lib/br-bin" # the kubelet's emptyDir is writable to all
  cp /bin/busybox "$m/bin/busybox"
  for a in sh cp echo mkdir rmdir chmod id find touch; do ln -sf busybox "$m/bin/$a"; done
  if [[ $1 == *golang* ]]; then
    cp /etc/ssl/certs/ca-certificates.crt "$m/etc/ssl/certs/"
    cp "$dir"/{br,tisnap}{,.cdx.json} "$m/usr/bin/"
    printf '#!/bin/sh\nexit 0\n' >"$m/bin/go"
    printf '#!/bin/sh\nmkdir -p bin && cp /usr/bin/br* /usr/bin/tisnap* bin/\n' >"$m/bin/make"
    chmod +x "$m/bin/go" "$m/bin/make"
  fi
  b config --env PATH=/bin "$c"
  b commit -q "$c" "docker.io/library/$1" >/dev/null
}
for image in $(sed -n 's/^FROM \([^ ]*:[^ ]*\) AS .*/\1/p' Dockerfile); do base "$image"; done
layers() { b inspect --type image --format '{{.OCIv1.RootFS.DiffIDs}}' "localhost/check-$1"; }
for target in tisnap br; do
  for round in first second; do
    b bud --pull-never --no-cache -q --timestamp "$epoch" --build-arg SOURCE_DATE_EPOCH="$epoch" --target "$target" -t "check-$target" . >/dev/null
    layers "$target" >"$dir/$target.$round"
  done
  cmp "$dir/$target.first" "$dir/$target.second"
done

c=$(b from --pull-never localhost/check-br)
out=$(b run "$c" -- /bin/sh -c "cp /br /var/lib/br-bin/br; echo 'BR copy finished'; /var/lib/br-bin/br --version; id -u")
grep -q 'BR copy finished' <<<"$out"
grep -q 'Stands for: br' <<<"$out"
grep -qx 65532 <<<"$out"
user() { b inspect --type image --format '{{.OCIv1.Config.User}}' "localhost/check-$1"; }
[[ $(user br) == 65532:65532 && $(user tisnap) == 65532:65532 ]]
c=$(b from --pull-never localhost/check-tisnap)
m=$(b mount "$c")
cmp "$m/usr/share/sbom/tisnap.cdx.json" "$dir/tisnap.cdx.json"
(cd "$m" && find . -type f | sort) >"$dir/files"
printf './%s\n' etc/ssl/certs/ca-certificates.crt usr/local/bin/tisnap usr/share/sbom/tisnap.cdx.json | cmp - "$dir/files"

# As the pods of manifests/ run it: not as root, without capabilities, on a read-only root.
mkdir "$dir/readonly"
mount --bind "$m" "$dir/readonly"
mount -o remount,bind,ro "$dir/readonly"
pod() { setpriv --no-new-privs chroot --userspec="$(user tisnap)" --groups= "$dir/readonly" /usr/local/bin/tisnap "$@"; }
pod version
pod estimate --stores 3 --data 1TiB >/dev/null
umount "$dir/readonly"
echo "both images build, twice with the same layers, run as 65532 on a root that cannot be written, and br's works as a toolImage"
