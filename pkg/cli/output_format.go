package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/kube"
)

// named is a document of objects that have names.
type named interface {
	// names are those of its objects, each with its kind: "backup/nightly-1".
	names() []string
}

// wide is a document whose table can have more columns.
type wide interface {
	wideTable(w io.Writer) error
}

// checkOutput refuses what --output does not know.
func checkOutput(output string) error {
	if slices.Contains(outputs(), output) {
		return nil
	}
	if text, ok := strings.CutPrefix(output, jsonPath); ok {
		_, err := newTemplate(text)
		return err
	}
	return fmt.Errorf("--output %q: want %s or %sTEMPLATE", output, strings.Join(outputs(), ", "), jsonPath)
}

// jsonPath begins the output format that takes a JSONPath template.
const jsonPath = "jsonpath="

// fill writes a JSON value through a template.
type fill func(w io.Writer, value any) error

func newTemplate(text string) (fill, error) {
	fill, err := kube.ParseJSONPath(text)
	if err != nil {
		return nil, fmt.Errorf("--output %s%s: %w", jsonPath, text, err)
	}
	return fill, nil
}

// byTemplate prints a document through the JSONPath template of --output. Field names are those of the JSON output.
func byTemplate(w io.Writer, output string, d document) error {
	fill, err := newTemplate(strings.TrimPrefix(output, jsonPath))
	if err != nil {
		return err
	}
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber() // a float prints with an exponent, and with fewer digits
	var value any
	if err := decoder.Decode(&value); err != nil {
		return err
	}
	return fill(w, value)
}

// printNames prints the objects' names, a line each; a document without names has none to print.
func printNames(w io.Writer, d document) error {
	n, ok := d.(named)
	if !ok {
		return fmt.Errorf("this command prints no objects with names: choose another --output than name")
	}
	for _, name := range n.names() {
		if _, err := fmt.Fprintln(w, oneLine(name)); err != nil {
			return err
		}
	}
	return nil
}
