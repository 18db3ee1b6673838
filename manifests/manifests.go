// Package manifests embeds the files from which pkg/generate prints those of a user.
package manifests

import "embed"

// Files are those of this folder that have a user's names in them.
//
//go:embed *.json *.yaml bucket.sh terraform kustomize/archive kustomize/base kustomize/drill kustomize/nightly
//go:embed kustomize/overlays/archive-workers
var Files embed.FS
