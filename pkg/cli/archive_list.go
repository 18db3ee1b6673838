package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// archiveListDoc is the output of `tisnap archive list`.
type archiveListDoc struct {
	header
	Repository string           `json:"repository"` // its id
	Retention  *retentionOutput `json:"retention,omitempty"`
	Items      []archiveItem    `json:"items"`

	now time.Time
}

// archiveItem is an archive in a list.
type archiveItem struct {
	ID string `json:"id"`
	*archiveSummary
	Problem string `json:"problem,omitempty"` // why it cannot be read
}

// archiveSummary is what a list shows of an archive.
type archiveSummary struct {
	Backup   string     `json:"backup"` // or the name of an import
	BackupTS cluster.TS `json:"backupTS"`
	Imported bool       `json:"imported,omitempty"` // it is of no backup
	Cluster  string     `json:"cluster,omitempty"`
	Created  time.Time  `json:"createdAt"`
	Base     string     `json:"base,omitempty"`
	Stores   int        `json:"stores"`
	Volumes  int        `json:"volumes"`
	Size     int64      `json:"sizeBytes"` // of all volumes
	Data     int64      `json:"dataBytes"` // of the saved blocks, before compression
}

func summary(a *format.Archive) *archiveSummary {
	s := &archiveSummary{
		Backup: a.Backup, BackupTS: cluster.TS(a.BackupTS), Cluster: a.Cluster, Created: a.Created, Base: a.Base,
		Stores: len(a.Stores), Imported: a.Imported(),
	}
	for _, store := range a.Stores {
		s.Volumes += len(store.Volumes)
		for _, v := range store.Volumes {
			s.Size += v.Size
			s.Data += v.Counts.Saved * volume.BlockSize
		}
	}
	return s
}

func (a *app) archiveListCommand(repo *repoFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the archives in a repository",
		Long: `List the archives in a repository, oldest first. One that cannot be read is shown with the
reason, and the command exits with 10. DATA is what an archive's blocks have before
compression, wherever they are: archives share blocks. Nothing is changed.`,
		Example: "  tisnap archive list --repo s3://archive/prod --repo-identity ops.key",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			doc, err := a.archiveList(cmd.Context(), repo)
			if err != nil {
				return err
			}
			if err := a.print(doc); err != nil {
				return err
			}
			return doc.unreadable()
		},
	}
	a.localFlag(cmd)
	return cmd
}

func (a *app) archiveList(ctx context.Context, repo *repoFlags) (*archiveListDoc, error) {
	r, done, err := a.openRepository(ctx, repo)
	if err != nil {
		return nil, err
	}
	defer done()
	entries, err := r.List(ctx)
	if err != nil {
		return nil, err
	}
	doc := &archiveListDoc{
		header: newHeader("ArchiveList"), Repository: r.ID().String(), Retention: retentionOf(r.Settings()),
		Items: []archiveItem{}, now: time.Now(),
	}
	for _, e := range entries {
		item := archiveItem{ID: e.ID}
		if e.Err != nil {
			item.Problem = failure.Line(e.Err.Error())
		} else {
			item.archiveSummary = summary(e.Archive)
		}
		doc.Items = append(doc.Items, item)
	}
	return doc, nil
}

// unreadable names the archives that cannot be read.
func (d *archiveListDoc) unreadable() error {
	var ids []string
	for _, i := range d.Items {
		if i.Problem != "" {
			ids = append(ids, i.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return failure.New(failure.Corrupt, "list archives", "", "%d cannot be read: %s", len(ids), failure.List(ids))
}

func (d *archiveListDoc) names() (names []string) {
	for _, i := range d.Items {
		names = append(names, nameIf(true, "archive", i.ID)...)
	}
	return names
}

func (d *archiveListDoc) table(w io.Writer, v view) error {
	if len(d.Items) == 0 {
		_, err := fmt.Fprintln(w, "no archives")
		return err
	}
	t := newTable(v.heading("CREATED"), "ID", "BACKUP", "CLUSTER", "SIZE", "DATA", "STORES", "VOLUMES", "AGE",
		"BACKUP-TS", "BASE")
	t.more = []string{"BACKUP-TS", "BASE"}
	t.drop = []string{"VOLUMES", "STORES", "AGE", "SIZE", "CLUSTER", "DATA", v.heading("CREATED"), "BACKUP"}
	for _, i := range d.Items {
		s := i.archiveSummary
		if s == nil {
			t.row("", i.ID, "", "", "", "", "", "", "", "", "")
			continue
		}
		backup, ts := s.Backup, s.BackupTS.String()
		if s.BackupTS == 0 {
			ts = ""
		}
		if s.Imported {
			backup = "import " + backup
		}
		t.row(v.cell(s.Created), i.ID, backup, s.Cluster, iBytes(s.Size), iBytes(s.Data), s.Stores, s.Volumes,
			d.now.Sub(s.Created).Truncate(time.Second), ts, s.Base)
	}
	if err := t.write(w, v); err != nil {
		return err
	}
	for _, i := range d.Items {
		if i.Problem == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n%s cannot be read: %s\n", i.ID, i.Problem); err != nil {
			return err
		}
	}
	return nil
}

// iBytes is a size for people. It is never negative.
func iBytes(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

// completeArchives offers the ids of archives in the shell.
func (a *app) completeArchives(repo *repoFlags) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Second)
		defer cancel()
		r, done, err := a.openRepository(ctx, repo)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer done()
		ids, err := r.Archives(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return append(ids, repository.Latest), cobra.ShellCompDirectiveNoFileComp
	}
}
