package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/report"
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
	e, err := c.ebs(ctx)
	if err != nil {
		return nil, err
	}
	blocks, err := c.ebsDirect(ctx, e.Region(), ebsdirect.Limits{})
	if err != nil {
		return nil, err
	}
	return &fromarchive.Source{
		Repository: found.Repository, ID: found.id, Archive: found.archive, Blocks: blocks,
	}, nil
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

// archivedPlanDoc is what writing the snapshots of an archive would take.
type archivedPlanDoc struct {
	archivedDoc
	// Seconds is how long it takes at AWS's default quota, at least.
	Seconds     float64  `json:"seconds"`
	Requests    int64    `json:"requests"`
	RequestsUSD *float64 `json:"requestsUSD,omitempty"`
}

// defaultPuts is AWS's default quota of PutSnapshotBlock, in blocks per second, of an account.
const defaultPuts = 1000

// addArchive adds what writing the snapshots takes, if they are an archive's.
func (d *restorePlanDoc) addArchive(source *fromarchive.Source) error {
	archived := archivedOf(source)
	if archived == nil {
		return nil
	}
	prices, err := estimate.DefaultPrices()
	if err != nil {
		return err
	}
	requests := archived.Bytes / volume.BlockSize
	d.FromArchive = &archivedPlanDoc{
		archivedDoc: *archived, Requests: requests, Seconds: float64(requests) / defaultPuts,
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
	_, err := fmt.Fprintf(w,
		"\nwould write %s of archive %s to EBS snapshots first, in %s at least; %s requests, %s USD\n",
		iBytes(d.Bytes), oneLine(d.Archive), report.Roughly(d.Seconds), humanize.Comma(d.Requests),
		usd(d.RequestsUSD))
	return err
}
