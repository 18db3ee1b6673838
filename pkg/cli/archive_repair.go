package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repair"
	"github.com/tisnap/tisnap/pkg/archive/snapshot"
	"github.com/tisnap/tisnap/pkg/archive/verify"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
)

// archiveRepairDoc is the output of `tisnap archive repair`.
type archiveRepairDoc struct {
	header
	Repository string `json:"repository"` // its id
	DryRun     bool   `json:"dryRun"`
	*repair.Report
}

type archiveRepairFlags struct {
	verifyFlags
	snapshots, dryRun bool
	files             []string
}

func (a *app) archiveRepairCommand(repo *repoFlags) *cobra.Command {
	var f archiveRepairFlags
	cmd := &cobra.Command{
		Use:   "repair [ARCHIVE...]",
		Short: "Repair damaged archives by what is left elsewhere",
		Long: `Repair damaged archives, by default all of the repository.

Damage is found as tisnap archive verify finds it. A block that is lost is taken, by its SHA-256,
from the pack of another archive, from the EBS snapshots that were archived with --from-snapshots,
or from a volume or its image with --from-file. A map that is lost is made again from what packs
record of their blocks, other archives' maps, and the same snapshots and files, if the archive's
proof of it shows that it is the same.

What is repaired is written into new packs and maps, and each archive is replaced by one that refers
to them. Nothing is deleted: what is damaged stays until tisnap archive prune finds it unused. It
needs no quiet time, and the same command continues a repair that was killed. What cannot be
repaired is listed, and the exit code is 10.`,
		Example: `  tisnap archive repair --dry-run --from-snapshots --repo s3://archive/prod --repo-identity ops.key
  tisnap archive repair latest --from-file 4/data=/dev/nvme1n1 --repo s3://archive/prod --repo-identity ops.key`,
		ValidArgsFunction: a.completeArchives(repo),
		RunE: func(cmd *cobra.Command, args []string) error {
			share, err := f.share(cmd)
			if err != nil {
				return usage(cmd, err)
			}
			files, err := f.images()
			if err != nil {
				return usage(cmd, err)
			}
			return a.archiveRepair(cmd.Context(), repo, f, args, share, files)
		},
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.BoolVar(&f.snapshots, "from-snapshots", false,
		"read lost blocks from the archived EBS snapshots that still exist, by --profile")
	fl.StringArrayVar(&f.files, "from-file", nil,
		"read lost blocks of a volume from an image or block device: STORE/ROLE=PATH, such as 4/data=data.img")
	fl.BoolVar(&f.dryRun, "dry-run", false, "read and print what would be repaired; change nothing")
	return cmd
}

// volumeName is a volume of any archive.
type volumeName struct {
	store uint64
	role  string
}

// images are the files that may have the blocks of a volume.
func (f *archiveRepairFlags) images() (map[volumeName]string, error) {
	out := map[volumeName]string{}
	for _, text := range f.files {
		name, path, _ := strings.Cut(text, "=")
		store, role, _ := strings.Cut(name, "/")
		id, err := strconv.ParseUint(store, 10, 64)
		of := volumeName{id, role}
		if err != nil || role == "" || path == "" || out[of] != "" {
			return nil, fmt.Errorf("--from-file %q: want STORE/ROLE=PATH, each volume once", text)
		}
		out[of] = path
	}
	return out, nil
}

func (a *app) archiveRepair(
	ctx context.Context, repo *repoFlags, f archiveRepairFlags, refs []string, share float64,
	files map[volumeName]string,
) (err error) {
	r, done, err := a.openRepository(ctx, repo)
	if err != nil {
		return err
	}
	defer done()
	if f.dryRun {
		var released func(error) error
		if ctx, released, err = a.reading(ctx, r, "repair"); err != nil {
			return err
		}
		defer func() { err = released(err) }()
	} else {
		defer a.unfinished("repair", "the same command continues")()
	}
	ids, err := archiveIDs(ctx, r, refs)
	if err != nil {
		return err
	}
	s, err := a.session()
	if err != nil {
		return err
	}
	defer s.end()
	c, err := a.connections(s.log)
	if err != nil {
		return err
	}
	defer c.close()
	from := &outside{app: a, connections: c, snapshots: f.snapshots, direct: map[string]ebsdirect.Source{}}
	if err := from.open(files); err != nil {
		return err
	}
	emit := s.emitVerify(string(f.level))
	emit(phase.StepStarted, 0, 0)
	opts := verify.Options{
		Archives: ids, Level: f.level, Sample: share, Reads: archiveReads,
		Progress: func(done, total int64) { emit(phase.Progress, done, total) },
	}
	report, err := repair.Run(ctx, r, repair.Options{
		Options: opts, Outside: from.of, Owner: "repair", DryRun: f.dryRun,
	})
	emit(phase.StepFinished, 0, 0)
	s.end()
	if !f.dryRun && report.Found != nil {
		a.recordVerified(ctx, r, opts, report.Found) // what was repaired has other maps: that is unread, too
	}
	doc := &archiveRepairDoc{
		header: newHeader("ArchiveRepair"), Repository: r.ID().String(), DryRun: f.dryRun, Report: report,
	}
	if err = failure.Annotate(err, "repair archives", ""); err == nil {
		err = doc.left()
	}
	return errors.Join(err, a.print(doc))
}

// outside finds what volumes were archived from.
type outside struct {
	*app
	*connections
	files     map[volumeName]repair.Origin
	snapshots bool
	direct    map[string]ebsdirect.Source // by region
}

// open opens the files.
func (o *outside) open(files map[volumeName]string) error {
	o.files = map[volumeName]repair.Origin{}
	for of, path := range files {
		file, err := os.Open(path)
		if err != nil {
			return failure.Wrap(err, failure.Usage, "read --from-file", path)
		}
		o.later(func() { _ = file.Close() }) // it was only read
		size, err := file.Seek(0, io.SeekEnd)
		if err != nil {
			return failure.Wrap(err, failure.Usage, "read --from-file", path)
		}
		o.files[of] = repair.Origin{Name: path, Source: &volume.Image{Bytes: size, From: file}}
	}
	return nil
}

// of is what an archived volume may still be read from. A snapshot that cannot be read is a warning.
func (o *outside) of(ctx context.Context, a *format.Archive, store uint64, v format.Volume) (out []repair.Origin) {
	if file, is := o.files[volumeName{store, v.Role}]; is {
		out = append(out, file)
	}
	if !o.snapshots || !strings.HasPrefix(v.Source, "snap-") {
		return out
	}
	id := cluster.SnapshotID(v.Source)
	source, err := o.snapshot(ctx, a, v)
	if err != nil {
		o.app.warn(fmt.Errorf("snapshot %s of archived backup %s is not used: %w", id, a.Backup, err))
		return out
	}
	return append(out, repair.Origin{
		Name: "snapshot " + v.Source, Source: source, Free: func(ctx context.Context) (func(int64) bool, error) {
			direct, err := o.ebsOf(ctx, a)
			if err != nil {
				return nil, err
			}
			free, err := snapshot.Free(ctx, direct, id)
			if err != nil {
				return nil, err
			}
			return free.Free, nil
		},
	})
}

// snapshot opens the snapshot that a volume was archived from.
func (o *outside) snapshot(ctx context.Context, a *format.Archive, v format.Volume) (volume.Source, error) {
	if !strings.HasPrefix(v.Source, "snap-") {
		return nil, failure.New(failure.NotFound, "open snapshot", v.Source, "it is none")
	}
	direct, err := o.ebsOf(ctx, a)
	if err != nil {
		return nil, err
	}
	return snapshot.Open(ctx, direct, cluster.SnapshotID(v.Source), "")
}

// ebsOf reads snapshots in the region of an archived backup.
func (o *outside) ebsOf(ctx context.Context, a *format.Archive) (ebsdirect.Source, error) {
	m, err := manifest.Decode(a.Manifest.Data)
	if err != nil {
		return nil, err
	}
	if direct := o.direct[m.Region]; direct != nil {
		return direct, nil
	}
	direct, err := o.ebsDirect(ctx, m.Region, ebsdirect.Limits{})
	if err == nil {
		o.direct[m.Region] = direct
	}
	return direct, err
}

// left names what could not be repaired; nil if there is nothing.
func (d *archiveRepairDoc) left() error {
	if len(d.Left) == 0 {
		return nil
	}
	var names []string
	overtaken := true
	for _, l := range d.Left {
		names = append(names, l.Archive+", "+hit(&l.Finding))
		overtaken = overtaken && l.Problem == repair.Overtaken
	}
	if overtaken {
		return failure.New(failure.Conflict, "repair archives", "", "others replaced or forgot archives meanwhile: %s",
			failure.List(names)).WithHint("run the same command again")
	}
	return failure.New(failure.Corrupt, "repair archives", "", "%d findings are left: %s", len(names),
		failure.List(names)).
		WithHint("give --from-snapshots, or --from-file for volumes or images that have the blocks still; otherwise " +
			"archive the backups again, or `tisnap archive forget` the archives")
}

func (d *archiveRepairDoc) names() (names []string) {
	for _, l := range d.Left {
		names = append(names, nameIf(true, "object", l.Object)...)
	}
	return names
}

func (d *archiveRepairDoc) table(w io.Writer, _ view) error {
	repaired := "repaired"
	if d.DryRun {
		repaired = "would be repaired"
	}
	var lines []string
	for _, r := range d.Repaired {
		lines = append(lines, fmt.Sprintf("%s: %s\n  %s, from %s", repaired, damageOf(r), r.Object, oneLine(r.From)))
	}
	for _, l := range d.Left {
		lines = append(lines, fmt.Sprintf("left: %s\n  %s: %s", damageOf(l), l.Object, l.Problem))
	}
	for _, f := range d.Failed {
		lines = append(lines, "not read: "+oneLine(f))
	}
	lines = append(lines, fmt.Sprintf("%d %s, %d left; %s blocks copied, %s of packs written, %d archives replaced",
		len(d.Repaired), repaired, len(d.Left), humanize.Comma(d.Blocks), iBytes(d.Bytes), d.Replaced))
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// damageOf is where damage is, by cluster, archive, store, volume and blocks.
func damageOf(d repair.Damage) string {
	of := fmt.Sprintf("archive %s, %s", oneLine(d.Archive), hit(&d.Finding))
	if d.Cluster != "" {
		of = fmt.Sprintf("cluster %s, %s", oneLine(d.Cluster), of)
	}
	return of
}
