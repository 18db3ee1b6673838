package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/kube"
)

// named is a document of named objects.
type named interface {
	// names returns the objects' names with their kind: "backup/nightly-1".
	names() []string
}

func (d *backupDoc) names() []string      { return nameIf(d.Sealed, "backup", d.Backup) }
func (d *planDoc) names() []string        { return nameIf(true, "backup", d.Backup) }
func (d *restoreDoc) names() []string     { return nameIf(d.Restored, "cluster", d.Cluster) }
func (d *restorePlanDoc) names() []string { return nameIf(true, "cluster", d.Cluster) }
func (d *manifestDoc) names() []string    { return nameIf(true, "cluster", d.of) }
func (d *resolveDoc) names() []string     { return nameIf(d.Resolved, "cluster", d.Cluster) }
func (d *resolvePlanDoc) names() []string { return nameIf(true, "cluster", d.Cluster) }
func (d *releasedDoc) names() []string    { return nameIf(true, "cluster", d.Cluster) }
func (d *releasePlan) names() []string    { return nameIf(true, "cluster", d.Cluster) }
func (d *holdDoc) names() []string        { return nameIf(true, "cluster", d.Cluster) }
func (d *describeDoc) names() []string    { return nameIf(true, "backup", d.Backup) }
func (d *runDoc) names() []string         { return nameIf(true, "run", d.ID) }
func (d *abortedDoc) names() []string     { return nameIf(d.Aborted, "run", d.ID) }
func (d *startedDoc) names() []string     { return nameIf(true, "run", d.Run) }

func (d *listDoc) names() (names []string) {
	for _, e := range d.Items {
		names = append(names, nameIf(true, "backup", e.ID)...)
	}
	return names
}

func (d *runsDoc) names() (names []string) {
	for _, r := range d.Items {
		names = append(names, nameIf(true, "run", r.ID)...)
	}
	return names
}

func (d *clustersDoc) names() (names []string) {
	for _, i := range d.Items {
		names = append(names, nameIf(true, "cluster", i.Cluster)...)
	}
	return names
}

func (d *deletionsDoc) names() (names []string) {
	for _, b := range d.Backups {
		names = append(names, nameIf(removed(b.Action), "backup", b.ID)...)
	}
	return names
}

func (d *gcDoc) names() (names []string) {
	for _, i := range d.Items {
		names = append(names, nameIf(removed(i.Action), string(i.Kind), i.ID)...)
	}
	return names
}

// removed reports whether an item is deleted, or would be.
func removed(action gc.Action) bool { return action == gc.ActionDeleted || action == gc.ActionDelete }

// nameIf names one object, if the run made or found it.
func nameIf(exists bool, kind string, name any) []string {
	if !exists {
		return nil
	}
	return []string{fmt.Sprintf("%s/%s", kind, name)}
}

// jsonPath is the prefix of the output format that takes a JSONPath template.
const jsonPath = "jsonpath="

// formats are the values of --output.
func formats() []string { return []string{"table", "wide", "name", "json", "yaml", jsonPath} }

// noFormat is the annotation of a command, and of those below it, that lacks these formats.
const noFormat = "tisnap_no_format"

func without(formats ...string) map[string]string {
	return map[string]string{noFormat: strings.Join(formats, " ")}
}

// checkOutput rejects values of --output that the command does not print, before it does anything.
func checkOutput(cmd *cobra.Command, output string) error {
	has := formats()
	for c := cmd; c != nil; c = c.Parent() {
		has = slices.DeleteFunc(has, func(format string) bool {
			return slices.Contains(strings.Fields(c.Annotations[noFormat]), format)
		})
	}
	text, isTemplate := strings.CutPrefix(output, jsonPath)
	switch {
	case isTemplate && slices.Contains(has, jsonPath):
		_, err := newTemplate(text)
		return err
	case !isTemplate && slices.Contains(has, output):
		return nil
	}
	return fmt.Errorf("--output %q: want %s", output,
		strings.Replace(strings.Join(has, ", "), jsonPath, jsonPath+"TEMPLATE", 1))
}

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
