package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// archiveReads is how many ranges of packs are read at the same time. They take 120 MiB, and twice that until the
// garbage collector runs.
const archiveReads = 8

// volumeDoc is the output of `tisnap archive cat` to a file or device.
type volumeDoc struct {
	header
	Archive string `json:"archive"`
	archiveVolume
	To string `json:"to"`
}

func (a *app) archiveCatCommand(repo *repoFlags) *cobra.Command {
	var to string
	var zeroed bool
	cmd := &cobra.Command{
		Use:   "cat ARCHIVE STORE/ROLE",
		Short: "Write one archived volume to a file, a block device, or standard output",
		Long: `Write one archived volume to a file, a block device, or standard output.

A file must not exist; blocks of zeros are holes in it. It gets its name once all of it is right
and on disk. Of a device, which must not be in use, all blocks are written, unless
--device-is-zeros asserts that it is all zeros already. Standard output gets the volume from its
first byte to its last; memory stays below 300 MiB.

A block that is not exactly what was archived is never written: the error names it, and the exit
code is 10. Then there is no file, a device has a part of the volume, and standard output had
the volume's beginning.`,
		Example: `  tisnap archive cat latest 4/data --to data.img --repo s3://archive/prod --repo-identity ops.key
  tisnap archive cat latest 4/data --to - --repo … --repo-identity ops.key | ssh host "cat > data.img"`,
		Args: exactly("ARCHIVE", "STORE/ROLE"), ValidArgsFunction: a.completeArchives(repo),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return usage(cmd, errors.New("--to is missing: a file, a block device, or - for standard output"))
			}
			return a.archiveCat(cmd.Context(), repo, args[0], args[1], to, zeroed)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "file, block device, or - for standard output")
	cmd.Flags().BoolVar(&zeroed, "device-is-zeros", false,
		"the device is all zeros: blocks of zeros are not written; what it has there instead stays")
	return cmd
}

func (a *app) archiveCat(ctx context.Context, repo *repoFlags, ref, name, to string, zeroed bool) (err error) {
	if file, ok := a.streams.Out.(*os.File); to == "-" && ok && term.IsTerminal(int(file.Fd())) {
		return failure.New(failure.Usage, "write volume", name, "standard output is a terminal").
			WithHint("redirect it, or give --to FILE")
	}
	ctx, found, err := a.holdArchive(ctx, repo, ref, "cat")
	if err != nil {
		return err
	}
	defer func() { err = found.done(err) }()
	store, v, err := findVolume(found.archive, name)
	if err != nil {
		return failure.Annotate(err, "find volume", found.id)
	}
	s, err := a.session()
	if err != nil {
		return err
	}
	defer s.end()
	w := &volumeWriter{
		repository: found.Repository, volume: v, progress: s.progress, name: fmt.Sprintf("store %d %s", store, v.Role),
	}
	if to == "-" {
		return w.stream(ctx, a.streams.Out)
	}
	if err := w.write(ctx, to, zeroed); err != nil {
		return err
	}
	s.end()
	return a.print(&volumeDoc{
		header: newHeader("ArchivedVolume"), Archive: found.id, archiveVolume: describeVolume(store, v), To: to,
	})
}

// findVolume returns the volume that STORE/ROLE names.
func findVolume(a *format.Archive, name string) (store uint64, v format.Volume, err error) {
	id, role, _ := strings.Cut(name, "/")
	store, err = strconv.ParseUint(id, 10, 64)
	if err != nil || role == "" {
		return 0, v, failure.New(failure.Usage, "", "", "%q is not STORE/ROLE", name).WithHint("write it as 4/data")
	}
	var have []string
	found := 0
	for _, s := range a.Stores {
		for _, volume := range s.Volumes {
			have = append(have, fmt.Sprintf("%d/%s", s.ID, volume.Role))
			if s.ID == store && volume.Role == role {
				v = volume
				found++
			}
		}
	}
	switch found {
	case 1:
		return store, v, nil
	case 0:
		return 0, v, failure.New(failure.NotFound, "", "", "it has no volume %s", name).
			WithHint("it has %s", failure.List(have))
	}
	return 0, v, failure.New(failure.Corrupt, "", "", "it has %d volumes %s", found, name)
}

// volumeWriter writes one volume, with progress.
type volumeWriter struct {
	repository *repository.Repository
	volume     format.Volume
	progress   phase.Sink
	name       string
}

// phaseRestore is what progress is shown as.
const phaseRestore = "read archive"

func (w *volumeWriter) stream(ctx context.Context, out io.Writer) error {
	return w.shown(w.volume.Size, func(add func(int64)) error {
		return volume.Stream(ctx, w.repository, w.volume, countingWriter{out, add}, archiveReads)
	})
}

// write writes to a file or device.
func (w *volumeWriter) write(ctx context.Context, to string, zeroed bool) error {
	info, err := os.Stat(to)
	switch {
	case err == nil && info.Mode().Type() == os.ModeDevice:
		total := w.volume.Size
		if zeroed {
			total = w.volume.Counts.Saved * volume.BlockSize
		}
		return w.shown(total, func(add func(int64)) error {
			return volume.WriteDevice(ctx, w.repository, w.volume, to, zeroed, archiveReads, add)
		})
	case zeroed:
		return failure.New(failure.Usage, "write volume", to, "--device-is-zeros is for a block device")
	}
	return w.shown(w.volume.Counts.Saved*volume.BlockSize, func(add func(int64)) error {
		return volume.WriteFile(ctx, w.repository, w.volume, to, archiveReads, add)
	})
}

// shown shows the progress of do, which adds bytes to a total.
func (w *volumeWriter) shown(total int64, do func(add func(bytes int64)) error) error {
	return failure.Annotate(showBytes(w.progress, w.name, total, do), phaseRestore, w.name)
}

// showBytes shows the progress of do, which adds bytes to a total, concurrently.
func showBytes(sink phase.Sink, step string, total int64, do func(add func(bytes int64)) error) error {
	var done atomic.Int64
	began := time.Now()
	emit := func(what phase.EventType, e phase.Event) {
		e.Type, e.Time, e.Phase, e.Step, e.Unit = what, time.Now(), phaseRestore, step, "bytes"
		e.Elapsed = e.Time.Sub(began)
		sink.Emit(e)
	}
	emit(phase.StepStarted, phase.Event{})
	err := do(func(bytes int64) { emit(phase.Progress, phase.Event{Done: done.Add(bytes), Total: total}) })
	if err != nil {
		emit(phase.StepFailed, phase.Event{Message: err.Error()})
		return err
	}
	emit(phase.StepFinished, phase.Event{})
	return nil
}

// countingWriter reports what it wrote.
type countingWriter struct {
	io.Writer
	add func(bytes int64)
}

func (c countingWriter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.add(int64(n))
	return n, err
}

func (d *volumeDoc) names() []string {
	return nameIf(true, "volume", fmt.Sprintf("%d/%s", d.Store, d.Role))
}

func (d *volumeDoc) table(w io.Writer, _ view) error {
	_, err := fmt.Fprintf(w, "archive  %s\nvolume   %d/%s\nsize     %s\ndata     %s\nwritten  %s\n", d.Archive, d.Store,
		oneLine(d.Role), iBytes(d.Size), iBytes(d.Saved*volume.BlockSize), oneLine(d.To))
	return err
}
