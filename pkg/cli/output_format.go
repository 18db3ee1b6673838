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

// named is a document of named objects.
type named interface {
	// names returns the objects' names with their kind: "backup/nightly-1".
	names() []string
}

// wide is a document whose table has optional extra columns.
type wide interface {
	wideTable(w io.Writer) error
}

// checkOutput rejects unknown values of --output.
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

// jsonPath is the prefix of the output format that takes a JSONPath template.
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

// byTemplate prints a document through --output's JSONPath template, with the field names of the JSON output.
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
	decoder.UseNumber() // a float would print with an exponent and lose digits
	var value any
	if err := decoder.Decode(&value); err != nil {
		return err
	}
	return fill(w, value)
}

// printNames prints the objects' names, one per line; it fails for a document without names.
func printNames(w io.Writer, d document) error {
	n, ok := d.(named)
	if !ok {
		return fmt.Errorf("this command has no named objects: --output name is not supported")
	}
	for _, name := range n.names() {
		if _, err := fmt.Fprintln(w, oneLine(name)); err != nil {
			return err
		}
	}
	return nil
}
