// Package shipped builds the program as it is shipped, for tests that run and kill it in a process of its own.
package shipped

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// program builds once, whoever asks first.
var program = sync.OnceValues(build) //nolint:gochecknoglobals // it is built once

// folder is where the program is; "" before it is built.
var folder string //nolint:gochecknoglobals // goes with program

// Program is the path of tisnap, built with the flags of make build on the first call. Only tests of this module
// may call it. Exit removes it.
func Program() (string, error) { return program() }

func build() (string, error) {
	dir, err := os.MkdirTemp("", "tisnap-shipped-")
	if err != nil {
		return "", err
	}
	folder = dir
	path := filepath.Join(dir, "tisnap")
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w", //nolint:gosec // our own path
		"-o", path, "github.com/tisnap/tisnap/cmd/tisnap")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build tisnap: %w: %s", err, out)
	}
	return path, nil
}

// Exit removes the program, if it was built, and ends the process: it is for goleak.Cleanup.
func Exit(code int) {
	if folder != "" {
		_ = os.RemoveAll(folder) // what stays is in the machine's temporary files
	}
	os.Exit(code) //nolint:forbidigo // goleak leaves that to its cleanup
}
