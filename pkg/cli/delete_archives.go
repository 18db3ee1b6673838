package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// keptArchive is an archive that was made of a backup: it has the data when the backup is deleted.
type keptArchive struct {
	Backup     cluster.BackupID `json:"backup"`
	Archive    string           `json:"archive"`
	Repository string           `json:"repository"` // its id
}

// archivesFrom are those that were made of backups, by the reports in the storage. They may be forgotten by now.
// What cannot be read is a warning: a deletion needs none of it.
func (a *app) archivesFrom(ctx context.Context, store objstore.Store, ids ...cluster.BackupID) (out []keptArchive) {
	for _, id := range ids {
		reports, err := history.Open(store).Reports(ctx, id)
		if err != nil {
			a.warn(fmt.Errorf("which archives have backup %s cannot be determined: %w", id, err))
			continue
		}
		for _, r := range reports {
			if to := r.Archived; r.Operation == report.Archive && r.Outcome == phase.Done && to != nil {
				out = append(out, keptArchive{Backup: id, Archive: to.Archive, Repository: to.Repository})
			}
		}
	}
	return out
}

func writeKept(w io.Writer, archives []keptArchive) error {
	for _, k := range archives {
		if _, err := fmt.Fprintf(w, "backup %s was archived as %s in repository %s: that stays until it is forgotten "+
			"and pruned there\n", oneLine(k.Backup), oneLine(k.Archive), oneLine(k.Repository)); err != nil {
			return err
		}
	}
	return nil
}
