package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/gc"
)

// deletionsDoc is the output of `tisnap prune`, and of `tisnap delete` for several backups.
type deletionsDoc struct {
	header
	DryRun bool `json:"dryRun"`
	*gc.BackupsReport
	Archives []keptArchive `json:"archives,omitempty"` // of backups that delete deletes
}

func newPruneDoc(dryRun bool, r *gc.BackupsReport) *deletionsDoc {
	return &deletionsDoc{header: newHeader("PruneReport"), DryRun: dryRun, BackupsReport: r}
}

// newDeletionsDoc names those of the archives whose backup is deleted.
func newDeletionsDoc(dryRun bool, r *gc.BackupsReport, archives ...keptArchive) *deletionsDoc {
	d := &deletionsDoc{header: newHeader("BackupDeletions"), DryRun: dryRun, BackupsReport: r}
	for _, k := range archives {
		if slices.ContainsFunc(r.Backups, func(b gc.BackupOutcome) bool {
			return b.ID == k.Backup && (b.Action == gc.ActionDelete || b.Action == gc.ActionDeleted)
		}) {
			d.Archives = append(d.Archives, k)
		}
	}
	return d
}

// printDeletions prints the decisions even if not all of them could be carried out.
func (a *app) printDeletions(d *deletionsDoc, err error) error {
	if err != nil && len(d.Backups) == 0 {
		return err
	}
	return errors.Join(err, a.print(d))
}

func (d *deletionsDoc) table(w io.Writer, v view) error {
	if len(d.Backups) == 0 {
		_, err := fmt.Fprintln(w, "no backups")
		return err
	}
	t := newTable(v.heading("CREATED"), "ACTION", "NAME", "CLUSTER", "SIZE", "TAGS", "REASON")
	t.drop = []string{"SIZE", "TAGS", "CLUSTER", v.heading("CREATED")}
	for _, b := range d.Backups {
		reason := b.Reason
		if b.Error != "" {
			reason = strings.ReplaceAll(b.Error, "\n", "; ")
		}
		t.row(v.cell(b.CreatedAt), b.Action, b.ID, b.Cluster, gib(b.SizeGiB), strings.Join(b.Tags, " "), reason)
	}
	if err := t.write(w, v); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", d.summary())
	return cmp.Or(err, writeKept(w, d.Archives))
}

func (d *deletionsDoc) summary() string {
	verb, n := "deleted", d.Count(gc.ActionDeleted)
	if d.DryRun {
		verb, n = "would be deleted", d.Count(gc.ActionDelete)
	}
	out := fmt.Sprintf("%d %s, %d kept", n, verb, d.Count(gc.ActionKeep))
	if n := d.Count(gc.ActionInUse); n > 0 {
		out += fmt.Sprintf(", %d in use", n)
	}
	if n := d.Count(gc.ActionLeft); n > 0 {
		out += fmt.Sprintf(", %d NOT deleted", n)
	}
	return out
}
