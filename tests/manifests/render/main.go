// Command render writes everything in manifests/ as objects, one a line, with where they are from: what a test has a real
// API server take.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/tisnap/tisnap/tests/manifests"
)

// line is one object and where it is from.
type line struct {
	From   string         `json:"from"`
	Object map[string]any `json:"object"`
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	out := json.NewEncoder(os.Stdout)
	write := func(from string, built manifests.Objects, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
		for _, o := range built {
			if err := out.Encode(line{From: from, Object: o.Object}); err != nil {
				return err
			}
		}
		return nil
	}
	for _, folder := range manifests.Folders() {
		built, err := manifests.Kustomize(folder)
		if err := write("kustomize/"+folder, built, err); err != nil {
			return err
		}
	}
	off := map[string]any{"enabled": false}
	for name, set := range map[string]map[string]any{
		"helm": {}, "helm, all of it": manifests.Everything(), "helm, nothing to run": {"nightly": off},
	} {
		built, err := manifests.Helm(set)
		if err := write(name, built, err); err != nil {
			return err
		}
	}
	folder, err := os.MkdirTemp("", "tisnap-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	program, err := manifests.Program(ctx, folder)
	if err != nil {
		return err
	}
	built, err := manifests.Generate(ctx, program, manifests.Nightly()...)
	return write("generate", built, err)
}
