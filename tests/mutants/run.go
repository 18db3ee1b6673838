package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// testTimeout bounds the tests of one mutant; one that makes them hang is caught by it.
const testTimeout = 2 * time.Minute

// ErrSurvived is the error of a mutant that its tests do not notice.
var ErrSurvived = errors.New("survived: its tests pass without the guard")

// Runner runs the tests of mutants.
type Runner struct {
	Root string // the module's folder
	Dir  string // for the mutated sources
	Go   string // the go command; "" is go
}

// Run compiles the mutant and runs its tests. It returns nil if they fail, as they have to; ErrSurvived if they pass;
// and another error if the mutant cannot be judged: its patch does not apply, it does not compile, there is no test.
func (r Runner) Run(ctx context.Context, m Mutant) error {
	source, err := m.Apply(r.Root)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(r.Dir, "mutant-")
	if err != nil {
		return err
	}
	overlay, err := write(dir, filepath.Join(r.Root, filepath.FromSlash(m.File)), source)
	if err != nil {
		return err
	}
	command := r.Go
	if command == "" {
		command = "go"
	}
	cmd := exec.CommandContext(ctx, command, "test", "-trimpath", "-vet=off", "-count=1", "-failfast", "-timeout="+testTimeout.String(),
		"-overlay="+overlay, "-run="+m.Tests, "./"+m.Package)
	cmd.Dir = r.Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return verdict(ctx, string(out), err)
}

// write puts the source, and the overlay that has the compiler read it for file, into dir.
func write(dir, file string, source []byte) (overlay string, err error) {
	file, err = filepath.Abs(file)
	if err != nil {
		return "", err
	}
	mutated := filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(mutated, source, 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{file: mutated}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// verdict reads what go test printed and how it ended.
func verdict(ctx context.Context, out string, err error) error {
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && !errors.As(err, &ended):
		return err
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return fmt.Errorf("it does not compile:\n%s", out)
	case strings.Contains(out, "no tests to run") || strings.Contains(out, "no test files"):
		return errors.New("there is no test of that name")
	case err == nil:
		return ErrSurvived
	case strings.Contains(out, "--- FAIL: ") || strings.Contains(out, "panic: "):
		return nil
	}
	return fmt.Errorf("go test failed, but no test did:\n%s", out)
}
