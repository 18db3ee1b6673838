package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// archiveFillDoc is the output of `tisnap archive fill`.
type archiveFillDoc struct {
	header
	Archive string         `json:"archive"`
	Items   []filledDevice `json:"items"`
}

// filledDevice is a device with an archived volume. It is whole without an error.
type filledDevice struct {
	archiveVolume
	To string `json:"to"`
	volume.Filled
	Error string `json:"error,omitempty"`
}

func (a *app) archiveFillCommand(repo *repoFlags) *cobra.Command {
	var to []string
	cmd := &cobra.Command{
		Use:   "fill ARCHIVE --to STORE/ROLE=DEVICE",
		Short: "Write archived volumes to empty block devices, resumably",
		Long: `Write archived volumes to empty block devices, resumably.

Each device, or file that exists, must have been all zeros before the first fill, as a new volume
is, be as large as the volume at least, and not be in use. Blocks of zeros are not written.

The same command resumes one that failed or was killed: of each 32 GiB that are whole one block is
read, and the rest is written. Name the archive by its id: latest may be another one by then. All
volumes are written at the same time.

A block that is not exactly what was archived is never written: the error names it, and the exit
code is 10. The other volumes are written.`,
		Example: `  tisnap archive fill ARCHIVE --to 4/data=/dev/xvdb --to 4/raft-log=/dev/xvdc --repo s3://archive/prod \
    --repo-identity ops.key`,
		Args: exactly("ARCHIVE"), ValidArgsFunction: a.completeArchives(repo),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(to) == 0 {
				return usage(cmd, errors.New("--to is missing: a volume and its device, as 4/data=/dev/xvdb"))
			}
			return a.archiveFill(cmd.Context(), repo, args[0], to)
		},
	}
	cmd.Flags().StringArrayVar(&to, "to", nil, "volume and its device, as 4/data=/dev/xvdb (repeatable)")
	return cmd
}

// fillReads is how many ranges of packs are read at the same time, for all volumes.
const fillReads = archiveReads

func (a *app) archiveFill(ctx context.Context, repo *repoFlags, ref string, to []string) (err error) {
	ctx, found, err := a.holdArchive(ctx, repo, ref, "fill")
	if err != nil {
		return err
	}
	defer func() { err = found.done(err) }()
	fills, err := fillsOf(found.archive, to)
	if err != nil {
		return failure.Annotate(err, "find volume", found.id)
	}
	s, err := a.session()
	if err != nil {
		return err
	}
	defer s.end()
	doc := &archiveFillDoc{header: newHeader("ArchiveFill"), Archive: found.id, Items: make([]filledDevice, len(fills))}
	failed := make([]error, len(fills))
	reads := max(1, fillReads/len(fills))
	err = parallel.Each(ctx, fillReads, fills, func(ctx context.Context, i int, f deviceFill) error {
		item := &doc.Items[i]
		*item = filledDevice{archiveVolume: describeVolume(f.store, f.volume), To: f.to}
		err := showBytes(s.progress, f.name(), f.volume.Counts.Saved*volume.BlockSize,
			func(add func(int64)) (err error) {
				item.Filled, err = volume.FillDevice(ctx, found.Repository, f.volume, f.to, reads, add)
				return failure.Annotate(err, "fill device", f.name())
			})
		if err != nil {
			failed[i], item.Error = err, failure.Line(err.Error())
		}
		return nil // it is one of those that failed
	})
	s.end()
	return errors.Join(a.print(doc), failure.Join(append(damageFirst(failed), err)...))
}

// damageFirst has the errors of damage, after which a retry is of no use, before all others: the first decides the exit
// code.
func damageFirst(errs []error) []error {
	damage, others := []error{}, []error{}
	for _, err := range errs {
		if failure.Is(err, failure.Corrupt) {
			damage = append(damage, err)
		} else {
			others = append(others, err)
		}
	}
	return append(damage, others...)
}

// deviceFill is a volume, and the device to write it to.
type deviceFill struct {
	store  uint64
	volume format.Volume
	to     string
}

func (f deviceFill) name() string { return fmt.Sprintf("store %d %s", f.store, f.volume.Role) }

// fillsOf returns the volumes and devices that the user named, each once.
func fillsOf(a *format.Archive, named []string) ([]deviceFill, error) {
	var out []deviceFill
	seen := map[string]bool{}
	for _, n := range named {
		name, device, ok := strings.Cut(n, "=")
		if !ok || device == "" {
			return nil, failure.New(failure.Usage, "", "", "%q is not STORE/ROLE=DEVICE", n).
				WithHint("write it as 4/data=/dev/xvdb")
		}
		store, v, err := findVolume(a, name)
		if err != nil {
			return nil, err
		}
		for _, one := range []string{name, "=" + device} {
			if seen[one] {
				return nil, failure.New(failure.Usage, "", "", "%s is named twice", strings.TrimPrefix(one, "="))
			}
			seen[one] = true
		}
		out = append(out, deviceFill{store, v, device})
	}
	return out, nil
}

func (d *archiveFillDoc) names() (names []string) {
	for _, i := range d.Items {
		names = append(names, nameIf(i.Error == "", "volume", fmt.Sprintf("%d/%s", i.Store, i.Role))...)
	}
	return names
}

func (d *archiveFillDoc) table(w io.Writer, v view) error {
	t := newTable("STORE", "ROLE", "SIZE", "WRITTEN", "KEPT", "DEVICE")
	t.drop = []string{"SIZE", "KEPT"}
	for _, i := range d.Items {
		t.row(i.Store, i.Role, iBytes(i.Size), iBytes(i.Written), iBytes(i.Kept), i.To)
	}
	return t.write(w, v)
}
