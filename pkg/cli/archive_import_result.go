package cli

import (
	"fmt"
	"io"

	"github.com/dustin/go-humanize"

	"github.com/tisnap/tisnap/pkg/archive/importer"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/report"
)

// archiveImportDoc is the output of `tisnap archive import`.
type archiveImportDoc struct {
	header
	Repository string         `json:"repository"` // its id
	Name       string         `json:"name"`
	Archive    string         `json:"archive,omitempty"` // its id
	Base       string         `json:"base,omitempty"`
	DryRun     bool           `json:"dryRun"`
	Continued  bool           `json:"continued"` // an earlier command had begun it
	Committed  bool           `json:"committed"`
	Packs      int64          `json:"packs"`       // that this command stored
	Stored     int64          `json:"storedBytes"` // in these
	Seconds    float64        `json:"seconds"`     // of this command
	Items      []importedItem `json:"items"`       // the volumes that are done
}

// importedItem is a volume, and what was read of it, or would be.
type importedItem struct {
	Store    cluster.StoreID `json:"store"`
	Role     cluster.Role    `json:"role"`
	Source   string          `json:"source"`
	Size     int64           `json:"sizeBytes"` // 0 while it is unknown
	Compared bool            `json:"compared"`  // with the base
	report.ArchivedBytes
	// FreeUnknown is why all blocks are read, as a clause.
	FreeUnknown string  `json:"freeUnknown,omitempty"`
	Seconds     float64 `json:"seconds"`
}

func importPlan(opts importer.Options, r *repository.Repository, plan *importer.Result) *archiveImportDoc {
	doc := importResult(opts, r, plan)
	doc.DryRun = true
	return doc
}

func importResult(opts importer.Options, r *repository.Repository, result *importer.Result) *archiveImportDoc {
	doc := &archiveImportDoc{
		header: newHeader("ArchiveImport"), Repository: r.ID().String(), Name: opts.Name, Archive: result.Archive,
		Base: result.Base, Continued: result.Continued, Committed: result.Committed, Packs: result.Packs,
		Stored: result.StoredBytes, Seconds: result.Finished.Sub(result.Started).Seconds(), Items: []importedItem{},
	}
	for _, v := range result.Volumes {
		doc.Items = append(doc.Items, importedItem{
			Store: v.Store, Role: v.Role, Source: v.Path, Size: v.Size, Compared: v.Compared,
			ArchivedBytes: bytesOf(v.Stats), FreeUnknown: v.FreeUnknown, Seconds: v.Seconds,
		})
	}
	return doc
}

func (d *archiveImportDoc) names() []string { return nameIf(d.Committed, "archive", d.Archive) }

func (d *archiveImportDoc) table(w io.Writer, v view) error {
	t := newTable("STORE", "ROLE", "SIZE", "READ", "ZERO", "UNCHANGED", "REPEATED", "PACKED", "FREE", "TIME", "SOURCE")
	t.drop = []string{"REPEATED", "FREE", "ZERO", "TIME", "SOURCE"}
	if d.DryRun {
		t = newTable("STORE", "ROLE", "SIZE", "TO READ", "FREE", "SOURCE")
		t.drop = []string{"FREE", "SOURCE"}
	}
	for i := range d.Items {
		d.Items[i].row(t, d.DryRun)
	}
	if err := t.write(w, v); err != nil {
		return err
	}
	for _, i := range d.Items {
		if i.FreeUnknown == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "\nfree blocks are unknown of %d/%s: %s\n", i.Store, oneLine(string(i.Role)),
			oneLine(i.FreeUnknown)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n", d.summary())
	return err
}

func (i *importedItem) row(t *table, dryRun bool) {
	size := iBytes(i.Size)
	if i.Size == 0 {
		size = "unknown"
	}
	free := iBytes(i.FreeBytes)
	if i.FreeUnknown != "" {
		free = "unknown"
	}
	if dryRun {
		toRead := size
		if i.Size > 0 {
			toRead = iBytes(i.ReadBytes)
		}
		t.row(i.Store, i.Role, size, toRead, free, i.Source)
		return
	}
	t.row(i.Store, i.Role, size, iBytes(i.ReadBytes), iBytes(i.ZeroBytes), iBytes(i.UnchangedBytes),
		iBytes(i.RepeatedBytes), iBytes(i.PackedBytes), free, report.Duration(i.Seconds), i.Source)
}

// summary is what became of the import.
func (d *archiveImportDoc) summary() string {
	base := "without a base"
	if d.Base != "" {
		base = "after " + oneLine(d.Base)
	}
	switch {
	case d.DryRun:
		return fmt.Sprintf("would import %s, %s\nnothing was changed", d.Name, base)
	case !d.Committed:
		return fmt.Sprintf("no archive of %s was made; the same command continues", d.Name)
	}
	return fmt.Sprintf("%s is archived as %s, %s: %s in %s packs, in %s\nprove it with: tisnap archive verify %s",
		d.Name, d.Archive, base, iBytes(d.Stored), humanize.Comma(d.Packs), report.Duration(d.Seconds), d.Archive)
}
