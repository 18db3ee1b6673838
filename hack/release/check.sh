#!/usr/bin/env bash
# Checks .goreleaser.yaml by goreleaser, and builds a release by it without publishing: archives, packages, checksums and
# the krew manifest. Not the SBOMs: syft is larger than all the rest. goreleaser is built from its pinned version into the
# user's cache; the first build takes minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source hack/tools.sh
version=v2.15.1
made=$(tool_folder goreleaser <(echo "$version") <("${GO:-go}" env GOVERSION))
lock_tool "$made"
if ! whole_tool "$made"; then
  echo "build goreleaser $version"
  mkdir -p "$made"
  GOFLAGS=-trimpath GOBIN=$made "${GO:-go}" install "github.com/goreleaser/goreleaser/v2@$version"
  seal_tool "$made"
fi
exec 9>&-
"$made/goreleaser" check
"$made/goreleaser" release --snapshot --clean --skip=sbom
(cd dist && sha256sum --check --quiet checksums.txt)
TISNAP_TEST_RELEASE=$PWD/dist "${GO:-go}" test ./hack/release -count=1
