package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/tisnap/tisnap/pkg/failure"
)

// document is a result that a command prints. Its fields are the JSON and YAML output; fields are added
// between versions and never renamed.
type document interface {
	table(w io.Writer, v view) error
}

// header starts every document, as in Kubernetes.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Warnings are those of the command itself, not of what it did.
	Warnings []string `json:"warnings,omitempty"`
}

func (h *header) warn(text string) { h.Warnings = append(h.Warnings, text) }

func newHeader(kind string) header { return header{APIVersion: "tisnap.io/v1", Kind: kind} }

// print writes the document to stdout in the chosen format.
func (a *app) print(d document) error {
	if headed, ok := d.(interface{ warn(text string) }); ok && a.dryByEnv != "" {
		headed.warn(a.dryByEnv)
		if a.global.output == "table" || a.global.output == "wide" {
			d = warned{d, a.dryByEnv}
		}
	}
	return failure.Annotate(write(a.streams.Out, a.global.output, d, a.view()), "print result", "")
}

// warned is a document with a warning below it.
type warned struct {
	document
	warning string
}

func (d warned) table(w io.Writer, v view) error {
	if err := d.document.table(w, v); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "warning: "+d.warning)
	return err
}

// view is how the command's tables are shown.
func (a *app) view() view { return view{wide: a.global.output == "wide", local: a.global.local} }

func write(w io.Writer, output string, d document, v view) error {
	if output != "json" && output != "yaml" { // these two escape what a terminal must not receive
		var text bytes.Buffer
		err := writeText(&text, output, d, v)
		_, writeErr := io.WriteString(w, failure.Lines(text.String()))
		return cmp.Or(err, writeErr)
	}
	body, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	if output == "yaml" {
		if body, err = yaml.JSONToYAML(body); err != nil {
			return err
		}
	} else {
		body = append(body, '\n')
	}
	_, err = w.Write(body)
	return err
}

// writeText writes the human-readable formats.
func writeText(w io.Writer, output string, d document, v view) error {
	switch output {
	case "table", "wide":
		return d.table(w, v)
	case "name":
		return printNames(w, d)
	}
	return byTemplate(w, output, d)
}
