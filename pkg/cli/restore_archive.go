package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/restore/filled"
	"github.com/tisnap/tisnap/pkg/restore/fromarchive"
	"github.com/tisnap/tisnap/pkg/runs"
)

// archivedFlags select a backup of an archive, and its repository.
type archivedFlags struct {
	on   bool
	repo repoFlags
}

func (f *archivedFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.on, "from-archive", false,
		"BACKUP is an archive in --repo: its id, the beginning of it, its backup's name, or latest")
	f.repo.add(cmd.Flags())
}

func (f *archivedFlags) validate(verifyKey string, latest latestFlags) error {
	switch {
	case !f.on:
		return nil
	case latest != (latestFlags{}):
		return errors.New("--before and --of choose a backup, not an archive: name one of `tisnap archive list`")
	case verifyKey != "":
		return errors.New("an archive has no signature: --verify-key is for `tisnap archive create`, and an archive " +
			"is authentic by the repository's key and --repo-id")
	}
	return nil
}

// complete completes archives in place of backups.
func (f *archivedFlags) complete(a *app, backups cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if f.on {
			return a.completeArchives(&f.repo)(cmd, args, begun)
		}
		return backups(cmd, args, begun)
	}
}

// fromArchive is the name of the archive in a run's request.
const fromArchive = "from-archive"

// openSource opens the archive that a reference means: the one that the target's unfinished run was begun with by the
// same reference, although a newer one may exist by now.
func (a *app) openSource(
	ctx context.Context, c *connections, f *archivedFlags, ref string, request journal.About, run string,
) (*fromarchive.Source, error) {
	if request.Operation == journal.Restore && run == "" {
		store, err := c.store(ctx)
		if err != nil {
			return nil, err
		}
		last, err := runs.Last(ctx, store, request.Cluster)
		if err != nil {
			return nil, err
		}
		if last != nil && last.About.Chosen == ref && last.About.Request[fromArchive] != "" {
			ref = last.About.Request[fromArchive]
		}
	}
	_, found, err := a.holdArchive(ctx, &f.repo, ref, "restore --from-archive") // whose pack is missing fails anyway
	if err != nil {
		return nil, err
	}
	c.later(func() {
		if err := found.done(nil); err != nil {
			a.warn(err)
		}
	})
	source := &fromarchive.Source{Repository: found.Repository, ID: found.id, Archive: found.archive}
	_, err = source.Region() // which only the archive of a backup has
	return source, err
}

// way is how a restore from an archive makes its volumes.
type way string

const (
	wayAuto      way = "auto"
	waySnapshots way = "snapshots"
	wayVolumes   way = journal.ViaVolumes
)

// wayFlags choose it.
type wayFlags struct {
	way  way
	fill fillFlags
}

func (f *wayFlags) add(cmd *cobra.Command) {
	ways := []string{string(wayAuto), string(waySnapshots), string(wayVolumes)}
	choose(cmd, cmd.Flags(), &f.way, journal.ArchiveVia, ways,
		"with --from-archive: make EBS snapshots, then volumes of them; or fill volumes of a StorageClass by Jobs "+
			"(--image), without EC2; auto does this in another region than the archived one, or without AWS")
	f.fill.add(cmd, "with --archive-via volumes: StorageClass of the cluster's volumes (default: the source's)")
}

func (f *wayFlags) validate(cmd *cobra.Command, archive bool) error {
	given := f.fill.typedOf(cmd)
	switch {
	case !archive && (given || typed(cmd, journal.ArchiveVia)):
		return errors.New("--archive-via, --storage-class, --image and those of workers are for --from-archive")
	case !archive:
		return nil
	case f.way == waySnapshots && given:
		return errors.New("--storage-class, --image and those of workers are for --archive-via volumes")
	case f.way == wayVolumes && f.fill.pod.Image == "":
		return errors.New("--image is missing: the image of tisnap, for the pods that fill the volumes")
	}
	return f.fill.validate()
}

// openWay opens what a restore of an archive makes its volumes by: EC2, or what Jobs fill.
func (a *app) openWay(
	ctx context.Context, cmd *cobra.Command, c *connections, f *restoreFlags, k *kube.Client, deps *restore.Deps,
	request journal.About,
) error {
	region, err := deps.Archive.Region()
	if err != nil {
		return err
	}
	e, why, err := chooseWay(ctx, cmd, c, f, deps, request, region)
	if err != nil {
		return err
	}
	if e != nil {
		deps.EBS = e
		deps.Archive.Blocks, err = c.ebsDirect(ctx, e.Region(), ebsdirect.Limits{})
		return err
	}
	const instead = "EBS snapshots are made by --archive-via snapshots"
	if f.via.fill.pod.Image == "" {
		return failure.New(failure.Usage, "restore from archive", deps.Archive.ID,
			"--image is missing: %s, so the volumes are filled by pods", why).
			WithHint("name the image of tisnap by --image; %s", instead)
	}
	if why != "" {
		a.note(fmt.Sprintf("pods fill the volumes: %s; %s", why, instead))
	}
	deps.Fill = &filled.Way{
		Kube: k, Claims: k.BlockVolumes(), Jobs: k.Jobs(), Class: f.via.fill.class, Workers: f.via.fill.workers,
		Pod: a.podOf(&f.via.fill, &f.archive.repo, deps.Archive.Repository.ID().String()), Final: finalCodes(),
	}
	deps.Fill.Jobs.StartWithin = workersStart
	deps.Fill.Claims.Interval, deps.Fill.Jobs.Interval = a.streams.poll, a.streams.poll
	return nil
}

// chooseWay returns EC2 if snapshots are made; nil if pods fill the volumes, and why if the user did not ask for that.
// A run that is resumed keeps its way. Only AWS that is not configured at all counts as none. region is the archive's;
// "" if it does not say.
func chooseWay(
	ctx context.Context, cmd *cobra.Command, c *connections, f *restoreFlags, deps *restore.Deps, request journal.About,
	region string,
) (e *ebs.Client, why string, err error) {
	chosen := f.via.way
	if chosen == wayAuto {
		earlier, err := unfinishedOf(ctx, deps, f.run, request)
		switch {
		case err != nil:
			return nil, "", err
		case earlier != nil && earlier.About.WithoutEC2():
			return nil, fmt.Sprintf("run %s, which is not finished, began so", earlier.ID), nil
		case earlier != nil || f.volumeFlags.ofEBS(cmd):
			chosen = waySnapshots
		}
	}
	if chosen == wayVolumes {
		return nil, "", nil
	}
	e, err = c.ebs(ctx)
	if chosen == waySnapshots {
		return e, "", err
	}
	switch {
	case ebs.IsAbsent(err) && !c.global.namesAWS():
		return nil, fmt.Sprintf("there is no AWS here (%s)", err), nil
	case err == nil && region != "" && region != e.Region():
		return nil, fmt.Sprintf("the archive is of %s, and this is %s", region, e.Region()), nil
	}
	return e, "", err
}

// unfinishedOf returns the run that the command would resume, if it restores the same archive; nil if there is none.
// named is the run that the user named; "" if none.
func unfinishedOf(
	ctx context.Context, deps *restore.Deps, named string, request journal.About,
) (run *runs.Run, err error) {
	if named != "" {
		id, err := runID(named)
		if err != nil {
			return nil, err
		}
		if run, err = runs.Read(ctx, deps.Store, id); failure.Is(err, failure.NotFound) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	} else if run, err = runs.Last(ctx, deps.Store, request.Cluster); err != nil || run == nil {
		return nil, err
	}
	proven, differs := run.About.SameCluster(run.ID, &request)
	same := differs == nil && (proven || named != "")
	if !same || run.About.Operation != journal.Restore {
		return nil, nil
	}
	for name, value := range deps.Archive.Request() {
		if run.About.Request[name] != value {
			return nil, nil
		}
	}
	return run, nil
}

// namesAWS reports whether a flag or a variable names an account or a region of AWS.
func (g *globalFlags) namesAWS() bool {
	given := cmp.Or(g.profile, g.region, g.ebsRole)
	for _, name := range []string{"AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"} {
		given = cmp.Or(given, os.Getenv(name))
	}
	return given != ""
}

// archivedDoc is the archive of a restore.
type archivedDoc struct {
	Repository string `json:"repository"` // its id
	Archive    string `json:"archive"`
	Bytes      int64  `json:"bytes"` // of its blocks
}

func archivedOf(source *fromarchive.Source) *archivedDoc {
	if source == nil {
		return nil
	}
	bytes, _ := source.Bytes()
	return &archivedDoc{source.Repository.ID().String(), source.ID, bytes}
}

// archivedPlanDoc is what making volumes of an archive would take.
type archivedPlanDoc struct {
	archivedDoc
	Via way `json:"via"`
	// Seconds is how long it takes at AWS's default quota, at least.
	Seconds     float64  `json:"seconds,omitempty"`
	Requests    int64    `json:"requests,omitempty"`
	RequestsUSD *float64 `json:"requestsUSD,omitempty"`
}

// defaultPuts is AWS's default quota of PutSnapshotBlock, in blocks per second, of an account.
const defaultPuts = 1000

// addArchive adds what writing the snapshots takes, if they are an archive's, or that its volumes are filled.
func (d *restorePlanDoc) addArchive(source *fromarchive.Source, fill *filled.Way) error {
	archived := archivedOf(source)
	switch {
	case archived == nil:
		return nil
	case fill != nil:
		d.FromArchive = &archivedPlanDoc{archivedDoc: *archived, Via: wayVolumes}
		return nil
	}
	prices, err := estimate.DefaultPrices()
	if err != nil {
		return err
	}
	requests := archived.Bytes / volume.BlockSize
	d.FromArchive = &archivedPlanDoc{
		archivedDoc: *archived, Via: waySnapshots, Requests: requests, Seconds: float64(requests) / defaultPuts,
	}
	if put := prices.Direct.Put1000; put != nil {
		usd := float64(requests) / 1000 * *put
		d.FromArchive.RequestsUSD = &usd
	}
	return nil
}

func (d *archivedPlanDoc) print(w io.Writer) error {
	if d == nil {
		return nil
	}
	if d.Via == wayVolumes {
		_, err := fmt.Fprintf(w, "\nwould have pods fill the volumes with %s of archive %s first; EC2 is not asked\n",
			iBytes(d.Bytes), oneLine(d.Archive))
		return err
	}
	_, err := fmt.Fprintf(w,
		"\nwould write %s of archive %s to EBS snapshots first, in %s at least; %s requests, %s USD\n",
		iBytes(d.Bytes), oneLine(d.Archive), report.Roughly(d.Seconds), humanize.Comma(d.Requests),
		usd(d.RequestsUSD))
	return err
}
