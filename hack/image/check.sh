#!/usr/bin/env bash
# Builds the Dockerfile's images with buildah, without a network, and runs in them what TiDB Operator runs in a toolImage.
# Nothing is pulled: stand-ins for the two base images are made of Debian's busybox-static, and a stand-in for make puts
# programs that were built outside where the real one does. Needs root, buildah and busybox-static:
#   apt-get install --no-install-recommends buildah busybox-static
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
dir=$(mktemp -d)
storage="--root $dir/root --runroot $dir/run"
b() { command buildah $storage "$@"; }
trap 'b rm -a >/dev/null 2>&1 || true; rm -rf "$dir"' EXIT

for c in br tisnap; do
  CGO_ENABLED=0 go build -trimpath -tags grpcnotrace -ldflags '-s -w' -o "$dir/$c" "./cmd/$c"
done
base() { # base IMAGE: a root with busybox, committed under the name of the image that it stands for
  local c m a
  c=$(b from scratch)
  m=$(b mount "$c")
  mkdir -p "$m/bin" "$m/usr/bin" "$m/etc/ssl/certs" "$m/tmp" "$m/var/lib/br-bin"
  chmod 1777 "$m/tmp" "$m/var/lib/br-bin" # the kubelet's emptyDir is writable to all
  cp /bin/busybox "$m/bin/busybox"
  for a in sh cp echo mkdir chmod id; do ln -sf busybox "$m/bin/$a"; done
  if [[ $1 == *golang* ]]; then
    cp /etc/ssl/certs/ca-certificates.crt "$m/etc/ssl/certs/"
    cp "$dir/br" "$dir/tisnap" "$m/usr/bin/"
    printf '#!/bin/sh\nexit 0\n' >"$m/bin/go"
    printf '#!/bin/sh\nmkdir -p bin && cp /usr/bin/br /usr/bin/tisnap bin/\n' >"$m/bin/make"
    chmod +x "$m/bin/go" "$m/bin/make"
  fi
  b config --env PATH=/bin "$c"
  b commit -q "$c" "docker.io/library/$1" >/dev/null
}
for image in $(sed -n 's/^FROM \([^ ]*:[^ ]*\) AS .*/\1/p' Dockerfile); do base "$image"; done
for target in tisnap br; do b bud --pull-never -q --target "$target" -t "check-$target" . >/dev/null; done

c=$(b from --pull-never localhost/check-br)
out=$(b run "$c" -- /bin/sh -c "cp /br /var/lib/br-bin/br; echo 'BR copy finished'; /var/lib/br-bin/br --version; id -u")
grep -q 'BR copy finished' <<<"$out"
grep -q 'Stands for: br' <<<"$out"
grep -qx 65532 <<<"$out"
user() { b inspect --type image --format '{{.OCIv1.Config.User}}' "localhost/check-$1"; }
[[ $(user br) == 65532:65532 && $(user tisnap) == 65532:65532 ]]
echo "both images build, run as 65532, and br's works as a toolImage"
