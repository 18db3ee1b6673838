package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/gc"
)

// gcDoc is the output of `tisnap gc` and `tisnap delete`.
type gcDoc struct {
	header
	DryRun bool             `json:"dryRun"`
	Backup cluster.BackupID `json:"backup,omitempty"` // of a delete
	*gc.Report
	Archives []keptArchive `json:"archives,omitempty"` // of a backup that is deleted
}

func newGCDoc(kind string, dryRun bool, r *gc.Report) *gcDoc {
	return &gcDoc{header: newHeader(kind), DryRun: dryRun, Report: r}
}

func (d *gcDoc) table(w io.Writer, v view) error {
	if d.Nothing {
		return nil // the error is enough
	}
	t := newTable("ACTION", "KIND", "ID", "RUN", "BACKUP", "CLUSTER", "REASON")
	t.drop = []string{"CLUSTER", "BACKUP", "RUN"}
	rows := 0
	t.cut = true // a reason is one of a few sentences, but no two errors are the same
	for _, i := range d.Items {
		if i.Action == gc.ActionInUse {
			continue // counted below: nothing to report
		}
		t.cut = t.cut && i.Error == ""
		id := i.ID
		if i.Zone != "" {
			id += " in " + string(i.Zone)
		}
		t.row(i.Action, i.Kind, id, i.Run, i.Backup, i.Cluster, strings.ReplaceAll(reasonOf(i), "\n", "; "))
		rows++
	}
	if rows > 0 {
		if err := t.write(w, v); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	for _, m := range d.Missing {
		if _, err := fmt.Fprintf(w, "BROKEN: backup %s is sealed, and %d of its snapshots are gone: %s\n",
			oneLine(m.Backup), len(m.Snapshots), oneLine(list(m.Snapshots))); err != nil {
			return err
		}
	}
	if d.Kubernetes != "" {
		if _, err := fmt.Fprintf(w, "cannot determine what restores left in Kubernetes: %s\n",
			oneLine(strings.ReplaceAll(d.Kubernetes, "\n", "; "))); err != nil {
			return err
		}
	}
	if d.Compacted > 0 {
		if _, err := fmt.Fprintf(w, "compacted the journals of %d ended runs into one object each\n",
			d.Compacted); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, d.summary())
	return cmp.Or(err, writeKept(w, d.Archives))
}

func reasonOf(i gc.Item) string {
	if i.Error != "" {
		return i.Error
	}
	return i.Reason
}

func (d *gcDoc) summary() string {
	done := fmt.Sprintf("%d deleted", d.Count(gc.ActionDeleted))
	if d.DryRun {
		done = fmt.Sprintf("%d would be deleted", d.Count(gc.ActionDelete))
	}
	if n := d.Count(gc.ActionLeft); n > 0 {
		done += fmt.Sprintf(", %d NOT deleted", n)
	}
	return fmt.Sprintf("%s, %d kept in doubt, %d in use, %d of other storages",
		done, d.Count(gc.ActionKeep), d.Count(gc.ActionInUse), d.Elsewhere)
}

func list[T ~string](ids []T) string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = string(id)
	}
	return strings.Join(names, " ")
}
