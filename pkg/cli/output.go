package cli

import (
	"encoding/json"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/tisnap/tisnap/pkg/failure"
)

// document is a result that a command prints. Its fields are the JSON and YAML output; fields are added
// between versions and never renamed.
type document interface {
	table(w io.Writer) error
}

// header starts every document, as in Kubernetes.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func newHeader(kind string) header { return header{APIVersion: "tisnap.io/v1", Kind: kind} }

// print writes the document to stdout in the chosen format.
func (a *app) print(d document) error {
	if a.global.output == "table" {
		return failure.Annotate(d.table(a.streams.Out), "print result", "")
	}
	body, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return failure.Wrap(err, failure.Unknown, "print result", "")
	}
	if a.global.output == "yaml" {
		if body, err = yaml.JSONToYAML(body); err != nil {
			return failure.Wrap(err, failure.Unknown, "print result", "")
		}
	} else {
		body = append(body, '\n')
	}
	_, err = a.streams.Out.Write(body)
	return failure.Annotate(err, "print result", "")
}
