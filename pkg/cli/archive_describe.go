package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
)

// archiveDoc is the output of `tisnap archive describe`.
type archiveDoc struct {
	header
	Repository string           `json:"repository"` // its id
	Writers    string           `json:"writers"`    // to it at the same time: many, or one
	Retention  *retentionOutput `json:"retention,omitempty"`
	ID         string           `json:"id"`
	archiveSummary
	Manifest manifestOutput `json:"manifest"`
	// Unread is the share of its blocks that no verification has read, as is to be expected, and Verified when the last
	// one ended that did not find damage; nil if the record of that may not be read.
	Unread   *float64        `json:"unreadShare,omitempty"`
	Verified time.Time       `json:"verifiedAt,omitzero"`
	Items    []archiveVolume `json:"items"`
}

// manifestOutput is what an archive has of its backup's manifest.
type manifestOutput struct {
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`
}

// archiveVolume is one volume of an archive. The numbers of blocks add up to its size.
type archiveVolume struct {
	Store    uint64 `json:"store,string"`
	Role     string `json:"role"`
	Source   string `json:"source,omitempty"`
	Size     int64  `json:"sizeBytes"`
	Segments int    `json:"segments"`
	Saved    int64  `json:"savedBlocks"`
	Zero     int64  `json:"zeroBlocks"`
	Free     int64  `json:"freeBlocks"`   // not read: the file system did not use them
	Absent   int64  `json:"absentBlocks"` // never written
	Checksum string `json:"checksum"`     // linear, as EBS' CompleteSnapshot has it, in hexadecimal
}

func (a *app) archiveDescribeCommand(repo *repoFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "describe ARCHIVE",
		Short: "Show an archive: its backup, its volumes, and their blocks",
		Long: `Show an archive: its backup, its volumes, and their blocks of 512 KiB. SAVED blocks have data,
ZERO ones are all zeros, FREE ones were not read as the file system did not use them, and the
rest was never written. ARCHIVE is an id, the beginning of one, the name of a backup, or
latest. Nothing is changed.`,
		Example: `  tisnap archive describe latest --repo s3://archive/prod --repo-identity ops.key`,
		Args:    exactly("ARCHIVE"), ValidArgsFunction: a.completeArchives(repo),
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := a.archiveDescribe(cmd.Context(), repo, args[0])
			if err != nil {
				return err
			}
			return a.print(doc)
		},
	}
	a.localFlag(cmd)
	return cmd
}

func (a *app) archiveDescribe(ctx context.Context, repo *repoFlags, ref string) (*archiveDoc, error) {
	found, done, err := a.openArchive(ctx, repo, ref)
	if err != nil {
		return nil, err
	}
	defer done()
	return a.describeArchive(ctx, found)
}

// describeArchive describes an archive. Who may not read what was verified of it is warned.
func (a *app) describeArchive(ctx context.Context, found readArchive) (*archiveDoc, error) {
	read, err := found.Verified(ctx)
	if err != nil && !failure.Is(err, failure.Denied) {
		return nil, err
	}
	a.warn(err)
	doc := &archiveDoc{
		header: newHeader("Archive"), Repository: found.ID().String(), ID: found.id,
		Writers: writers(found.Settings().Storage), Retention: retentionOf(found.Settings()),
		archiveSummary: *summary(found.archive),
		Manifest:       manifestOutput{found.archive.Manifest.SHA256.String(), len(found.archive.Manifest.Data)},
		Items:          []archiveVolume{},
	}
	if err == nil {
		of := read.Of(found.id, found.archive.Maps())
		doc.Unread, doc.Verified = &of.Unread, of.Last
	}
	for _, s := range found.archive.Stores {
		for _, v := range s.Volumes {
			doc.Items = append(doc.Items, describeVolume(s.ID, v))
		}
	}
	return doc, nil
}

func describeVolume(store uint64, v format.Volume) archiveVolume {
	c := v.Counts
	return archiveVolume{
		Store: store, Role: v.Role, Source: v.Source, Size: v.Size, Segments: len(v.Segments), Saved: c.Saved,
		Zero: c.Zero, Free: c.Free, Absent: format.Blocks(v.Size) - c.Saved - c.Zero - c.Free,
		Checksum: v.Checksum.String(),
	}
}

func (d *archiveDoc) names() []string { return nameIf(true, "archive", d.ID) }

// verified is how much of its blocks was read, and when last.
func (d *archiveDoc) verified(v view) string {
	switch {
	case d.Unread == nil:
		return "unknown"
	case d.Verified.IsZero():
		return "never"
	}
	text := v.text(d.Verified)
	if *d.Unread > 0 {
		text += fmt.Sprintf(", about %.2g%% of its blocks never", max(*d.Unread*100, 0.01))
	}
	return text
}

func (d *archiveDoc) table(w io.Writer, v view) error {
	of, ts := "backup", ""
	if d.Imported {
		of = "import"
	}
	if d.BackupTS != 0 {
		ts = fmt.Sprintf("%s (%s)", d.BackupTS, v.text(d.BackupTS.Time()))
	}
	rows := [][2]string{
		{"archive", d.ID}, {"repository", d.Repository}, {"writers", d.Writers},
		{"retention", d.Retention.String()}, {of, d.Backup},
		{"cluster", d.Cluster}, {"backup ts", ts},
		{"created", v.text(d.Created)}, {"base", d.Base}, {"size", iBytes(d.Size)}, {"data", iBytes(d.Data)},
		{"verified", d.verified(v)},
	}
	for _, row := range rows {
		if row[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%-10s  %s\n", row[0], oneLine(row[1])); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	t := newTable("STORE", "ROLE", "SOURCE", "SIZE", "DATA", "SAVED", "ZERO", "FREE", "ABSENT", "CHECKSUM")
	t.more = []string{"CHECKSUM"}
	t.drop = []string{"ABSENT", "FREE", "ZERO", "SAVED", "SOURCE"}
	for _, i := range d.Items {
		t.row(i.Store, i.Role, i.Source, iBytes(i.Size), iBytes(i.Saved*volume.BlockSize), i.Saved, i.Zero, i.Free,
			i.Absent, i.Checksum)
	}
	return t.write(w, v)
}
