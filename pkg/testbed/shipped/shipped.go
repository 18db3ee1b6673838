// Package shipped builds the programs as they are shipped, for tests that run and kill them in a process of their own.
package shipped

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// Each program is built once, by its first caller.
var (
	tisnap = sync.OnceValues(func() (string, error) { return build("tisnap") })
	br     = sync.OnceValues(func() (string, error) { return build("br") })
)

// folder is where the programs are.
var folder = sync.OnceValues(func() (string, error) {
	made = true
	return os.MkdirTemp("", "tisnap-shipped-")
})

// made reports whether there is a folder to remove.
var made bool

// Program is the path of tisnap, built with the flags of make build on the first call. Only tests of this module
// may call it. Exit removes it.
func Program() (string, error) { return tisnap() }

// BR is the path of br, as Program is that of tisnap.
func BR() (string, error) { return br() }

func build(name string) (string, error) {
	dir, err := folder()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w", //nolint:gosec // our own path
		"-o", path, "github.com/tisnap/tisnap/cmd/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", name, err, out)
	}
	return path, nil
}

// Exit removes the programs, if any was built, and ends the process: it is for goleak.Cleanup.
func Exit(code int) {
	if made {
		if dir, err := folder(); err == nil {
			_ = os.RemoveAll(dir) // what stays is in the machine's temporary files
		}
	}
	os.Exit(code) //nolint:forbidigo // goleak leaves that to its cleanup
}
