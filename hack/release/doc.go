// Package release holds the release's configuration, .goreleaser.yaml, against the sources, and a release against both.
package release
