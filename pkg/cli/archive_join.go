package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/archive/create"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/phase"
)

// archiveJoinDoc is the output of `tisnap archive join`.
type archiveJoinDoc struct {
	header
	Repository string `json:"repository"` // its id
	Archive    string `json:"archive"`
	Name       string `json:"name"`
	*create.Joined
}

type archiveJoinFlags struct {
	name           string
	index, workers int
	limit          string
}

// indexEnv is set in the pods of an indexed Job.
const indexEnv = "JOB_COMPLETION_INDEX"

func (a *app) archiveJoinCommand(repo *repoFlags) *cobra.Command {
	var f archiveJoinFlags
	cmd := &cobra.Command{
		Use:   "join ARCHIVE",
		Short: "Archive a part of the blocks of an archive that is being made",
		Long: `Archive a part of the blocks of an archive that is being made by
tisnap archive create --shared.

The command needs the repository and the snapshots' region, and not the backup's storage. It
archives units of 32 GiB until all are done, by it and others. It can be killed: what it had begun
is done again, at once by a command of the same --name, and by the others after 15 minutes.

The quota of reading blocks is the account's: --limit-rate is of each command.`,
		Example: `  tisnap archive join prod-20261121-100000-5f3a9c01 --repo s3://archive/prod --repo-identity ops.key`,
		Args:    exactly("ARCHIVE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.complete(); err != nil {
				return usage(cmd, err)
			}
			return a.archiveJoin(cmd.Context(), repo, f, args[0])
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.name, "name", "",
		"name of this command among those that join: it does what an earlier one of its name left (default: the "+
			"host's)")
	fl.IntVar(&f.index, "index", -1,
		"number of this command of --workers, from 0: where it begins (default: $"+indexEnv+
			", which an indexed Job sets)")
	fl.IntVar(&f.workers, "workers", 1, "how many commands join")
	addLimitRate(fl, &f.limit)
	return cmd
}

// complete fills in the defaults.
func (f *archiveJoinFlags) complete() (err error) {
	if f.name == "" {
		if f.name, err = os.Hostname(); err != nil {
			return fmt.Errorf("--name is missing, and the host has none: %w", err)
		}
	}
	if f.index < 0 {
		if f.index, err = strconv.Atoi(cmp.Or(os.Getenv(indexEnv), "0")); err != nil {
			return fmt.Errorf("$%s: %w", indexEnv, err)
		}
	}
	if f.workers < 1 || f.index < 0 || f.index >= f.workers {
		return fmt.Errorf("--index %d of --workers %d: want 0 to %d", f.index, f.workers, max(f.workers, 1)-1)
	}
	_, err = readLimits(f.limit)
	return err
}

func (a *app) archiveJoin(ctx context.Context, repo *repoFlags, f archiveJoinFlags, archive string) error {
	limits, err := readLimits(f.limit)
	if err != nil {
		return err
	}
	r, done, err := a.openRepository(ctx, repo)
	if err != nil {
		return err
	}
	defer done()
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
	e, err := c.ebs(ctx)
	if err != nil {
		return err
	}
	deps := create.JoinDeps{Repository: r, Region: e.Region()}
	if deps.Blocks, err = c.ebsDirect(ctx, e.Region(), limits); err != nil {
		return err
	}
	began, blocks := time.Now(), atomic.Int64{}
	emit := func(what phase.EventType, done int64) {
		now := time.Now()
		s.progress.Emit(phase.Event{
			Type: what, Time: now, Phase: "archive blocks", Step: "join", Done: done, Unit: "blocks",
			Elapsed: now.Sub(began),
		})
	}
	deps.Progress = func(more volume.Stats) { emit(phase.Progress, blocks.Add(more.Read)) }
	emit(phase.StepStarted, 0)
	joined, err := create.Join(ctx, deps, create.JoinOptions{
		Archive: archive, Name: f.name, Index: f.index, Workers: f.workers,
	})
	if err == nil {
		emit(phase.StepFinished, blocks.Load())
	}
	s.end()
	return errors.Join(err, a.print(&archiveJoinDoc{
		header: newHeader("ArchiveJoined"), Repository: r.ID().String(), Archive: archive, Name: f.name, Joined: joined,
	}))
}

func (d *archiveJoinDoc) names() []string { return []string{d.Archive} }

func (d *archiveJoinDoc) table(w io.Writer, _ view) error {
	_, err := fmt.Fprintf(w, "%s did %d units of archive %s: %d blocks read, %s in %d packs\n",
		d.Name, d.Units, d.Archive, d.Stats.Read, iBytes(d.Spent.StoredBytes), d.Spent.Packs)
	return err
}
