package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Go templates are written by a program of their own: text/template calls methods by name, and so the linker would have to
// keep every one of this program's.
const (
	goTemplate     = "go-template="
	goTemplateFile = "go-template-file="
	templateHelper = "tisnap-template"
)

// readTemplate turns go-template-file into go-template, as the file may change during a run.
func readTemplate(output string) (string, error) {
	path, ok := strings.CutPrefix(output, goTemplateFile)
	if !ok {
		return output, nil
	}
	text, err := os.ReadFile(path) //nolint:gosec // the user names it
	if err != nil {
		return output, fmt.Errorf("--output %s: %w", goTemplateFile+path, err)
	}
	return goTemplate + string(text), nil
}

// checkGoTemplate refuses what could not be printed at the end of a run.
func checkGoTemplate(text string) error {
	return runTemplate("check", text, nil, io.Discard)
}

// byGoTemplate prints a document through the Go template of --output. Field names are those of the JSON output.
func byGoTemplate(w io.Writer, text string, d document) error {
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return runTemplate("write", text, body, w)
}

// runTemplate runs the other program, which ends by itself: a template has no endless loop.
func runTemplate(what, text string, document []byte, w io.Writer) error {
	path, err := findHelper()
	if err != nil {
		return err
	}
	var said bytes.Buffer
	cmd := exec.Command(path, what, text) //nolint:gosec,noctx // ours, beside this one; the result is printed after an interrupt, too
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(document), w, &said
	err = cmd.Run()
	if err != nil && said.Len() > 0 {
		return fmt.Errorf("--output %s: %s", goTemplate, failure.Line(strings.TrimSpace(said.String())))
	}
	return failure.Annotate(err, "run "+templateHelper, path)
}

// findHelper is the path of the program for Go templates: beside this one, or where the shell would find it.
func findHelper() (string, error) {
	if self, err := os.Executable(); err == nil {
		if linked, err := filepath.EvalSymlinks(self); err == nil { // kubectl-tisnap is a link
			self = linked
		}
		beside := filepath.Join(filepath.Dir(self), templateHelper)
		if _, err := os.Stat(beside); !errors.Is(err, fs.ErrNotExist) {
			return beside, nil
		}
	}
	path, err := exec.LookPath(templateHelper)
	if err != nil {
		return "", failure.New(failure.Usage, "find program", templateHelper, "--output go-template needs it, and it is neither beside tisnap nor on PATH").
			WithHint("install %s beside tisnap (make build makes it in bin/), or take --output %s…", templateHelper, jsonPath)
	}
	return path, nil
}
