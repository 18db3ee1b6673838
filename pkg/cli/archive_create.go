package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/create"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// archiveCreateFlags are the flags of `tisnap archive create`.
type archiveCreateFlags struct {
	latest    latestFlags
	chosen    string // by latest: see create.Options
	run, base string
	level     codec.Level
	skipFree  create.SkipFree
	limit     string
	prices    string
	verifyKey string
	lockWait  lockWait
	dryRun    bool
	shared    bool
	lead      bool
	workers   archiveWorkersFlags
}

func (a *app) archiveCreateCommand(repo *repoFlags) *cobra.Command {
	var f archiveCreateFlags
	cmd := &cobra.Command{
		Use:   "create BACKUP",
		Short: "Archive a sealed backup: copy its snapshots' blocks into the repository",
		Long: `Archive a sealed backup: copy its snapshots' blocks into the repository.

The blocks are read by the EBS direct APIs: the cluster is not touched, and can be backed up
meanwhile. Each block is stored once, compressed and encrypted. Compared with a base, by default the newest
archive of the cluster, only blocks that changed are read while the base's snapshots exist;
afterwards all are read, and those that changed are stored. Blocks that a volume's ext4 file system
does not use are not read: they are restored as zeros. If anything about it is unusual, all blocks
are read, and the report gives the reason.

An archive is listed once all of it is stored, and only then does the command exit with 0. The
same command resumes a run that failed or died, and does not read again what is stored. The
backup cannot be deleted meanwhile.

With --shared, the volumes are archived in units of 32 GiB by this command and all those that join
it, on other machines or pods: tisnap archive join. They need no storage but the repository.

With --on-kubernetes, this command makes a Job of --workers pods that join, leads them, and removes
the Job once the archive is committed. If it dies meanwhile, the pods continue, and the same command
finds their Job.`,
		Example: `  tisnap archive create latest --storage s3://backups/prod --repo s3://archive/prod --repo-identity ops.key

  # how much would be read, how long that takes at least, and what the requests cost
  tisnap archive create prod-20261121-100000 --storage s3://backups/prod --repo s3://archive/prod \
    --repo-identity ops.key --dry-run

  # by eight pods
  tisnap archive create latest --storage s3://backups/prod --repo s3://archive/prod --repo-identity ops.key \
    --on-kubernetes --namespace tidb --workers 8 --image REGISTRY/tisnap:v1`,
		Args: exactly("BACKUP"), ValidArgsFunction: a.completeBackups,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.validate(repo); err != nil {
				return usage(cmd, err)
			}
			id, err := a.backupID(cmd, f.latest, args[0])
			if err != nil {
				return err
			}
			f.chosen = f.latest.chosen(args[0])
			a.limitMemory()
			return a.archiveCreate(cmd, f, repo, id)
		},
	}
	f.add(a, cmd, repo)
	a.waitFlag(cmd)
	a.notifyFlag(cmd)
	a.metricsFlags(cmd)
	return cmd
}

// add adds the flags to the command.
func (f *archiveCreateFlags) add(a *app, cmd *cobra.Command, repo *repoFlags) {
	fl := cmd.Flags()
	a.latestFlags(cmd, &f.latest)
	fl.StringVar(&f.run, "run-id", "",
		"id of the run; resumes that run if it is unfinished (default: the cluster's last unfinished archive of the "+
			"same request, else generated from the time)")
	fl.StringVar(&f.base, "base", "",
		"archive to compare with, or none (default: the newest one of the cluster that is not of a newer backup)")
	addCompression(cmd, &f.level)
	var skips []string
	for _, s := range create.SkipFrees() {
		skips = append(skips, string(s))
	}
	choose(cmd, fl, &f.skipFree, "skip-free", skips,
		"what to do about blocks that a volume's ext4 does not use: auto does not read them, audit counts them")
	addLimitRate(fl, &f.limit)
	fl.BoolVar(&f.shared, "shared", false,
		"let other commands join, which read a part of the blocks: tisnap archive join ARCHIVE")
	fl.BoolVar(&f.lead, "lead", false, "with --shared: read no block in this process, and wait for those that join")
	f.workers.add(cmd)
	fl.StringVar(&f.prices, "prices", "", "TOML file with prices (default: built-in us-east-1 prices)")
	verifyKeyFlag(cmd, &f.verifyKey)
	f.lockWait.add(cmd)
	fl.BoolVar(&f.dryRun, "dry-run", false, "list the blocks and print what would be read; change nothing")
	a.offer(cmd, "base", func(
		cmd *cobra.Command, _ []string, begun string,
	) ([]string, cobra.ShellCompDirective) {
		return a.completeArchives(repo)(cmd, nil, begun)
	})
}

func (f *archiveCreateFlags) validate(repo *repoFlags) error {
	if _, err := readLimits(f.limit); err != nil {
		return err
	}
	if err := f.workers.validate(repo); err != nil {
		return err
	}
	if f.workers.on {
		f.shared, f.lead = true, true
	}
	if f.lead && !f.shared {
		return errors.New("--lead is for --shared")
	}
	return f.lockWait.validate()
}

// addCompression adds --compression.
func addCompression(cmd *cobra.Command, level *codec.Level) {
	levels := []string{string(codec.Auto)}
	for _, l := range codec.Levels() {
		if l != codec.Auto {
			levels = append(levels, string(l))
		}
	}
	choose(cmd, cmd.Flags(), level, "compression", levels, "how hard blocks are compressed")
}

// addLimitRate adds --limit-rate, which readLimits reads.
func addLimitRate(fl *pflag.FlagSet, limit *string) {
	fl.StringVar(limit, "limit-rate", "",
		"how much to read per second, such as 100MiB (default: AWS's default quota of 1,000 blocks, 500MiB)")
}

// defaultReads is AWS's default quota of GetSnapshotBlock, in blocks per second, of an account and of a snapshot.
const defaultReads = 1000

// readLimits returns the rates of the calls to the EBS direct APIs.
func readLimits(limit string) (l ebsdirect.Limits, err error) {
	if limit == "" {
		return l, nil
	}
	bytes, err := positiveSize("limit-rate", limit)
	if err != nil {
		return l, err
	}
	if l.Reads = float64(bytes) / volume.BlockSize; l.Reads < 1 {
		return l, fmt.Errorf("--limit-rate %s: want at least one block of 512KiB", limit)
	}
	return l, nil
}

// archiveCreate archives a backup.
func (a *app) archiveCreate(cmd *cobra.Command, f archiveCreateFlags, repo *repoFlags, id cluster.BackupID) error {
	prices, err := estimate.ReadPrices(f.prices)
	if err != nil {
		return err
	}
	return a.operate(cmd, f.dryRun, func(ctx context.Context, c *connections, s *session) (work, error) {
		deps, opts, err := a.archiveDeps(ctx, c, s, f, repo, id)
		if err != nil {
			return work{}, err
		}
		pods, err := a.archiveWorkers(c, f, repo, archiveRun{opts.Run, deps.Repository.ID().String(), deps.Region})
		if err != nil {
			return work{}, err
		}
		if pods != nil {
			deps.Helpers = pods
		}
		return work{
			id: opts.Run, store: deps.Store, lockWait: opts.LockWait, request: opts.About(deps.Repository),
			plan: func(ctx context.Context) (document, error) {
				limits, err := readLimits(f.limit)
				if err != nil {
					return nil, err
				}
				plan, err := create.Estimate(ctx, deps, opts, cmp.Or(limits.Reads, defaultReads))
				if err != nil {
					return nil, err
				}
				doc := archivePlan(opts, deps.Repository, plan, prices)
				if pods != nil {
					doc.Job, err = pods.manifest("ARCHIVE")
				}
				return doc, err
			},
			run: func(ctx context.Context) (document, error) {
				result, err := create.Run(ctx, deps, opts)
				disown(&opts.Run, &result.Outcome)
				doc := archiveResult(ctx, opts, deps.Repository, result, prices, err)
				doc.Workers = pods.end(ctx, result.Committed, a.warn)
				if result.Committed {
					a.warn(recordArchives(ctx, deps.Store, deps.Repository))
				}
				return doc, errors.Join(err,
					storeReport(ctx, deps.Store, s.log, doc.Report, &result.Outcome, result.Committed))
			},
		}, nil
	})
}

func (a *app) archiveDeps(
	ctx context.Context, c *connections, s *session, f archiveCreateFlags, repo *repoFlags, id cluster.BackupID,
) (deps create.Deps, opts create.Options, err error) {
	deps = create.Deps{Sink: s.progress, Log: s.log, Remains: a.remains()}
	if deps.Store, err = c.store(ctx); err != nil {
		return deps, opts, err
	}
	opts = create.Options{
		Tool: a.version.Version, Backup: id, Chosen: f.chosen, Base: f.base, Level: f.level, SkipFree: f.skipFree,
		LockWait: f.lockWait.limit(), Shared: f.shared, Lead: f.lead,
	}
	if opts.VerifyKey, err = readVerifyKey(f.verifyKey); err != nil {
		return deps, opts, err
	}
	m, err := catalog.Catalog{Store: deps.Store, VerifyKey: opts.VerifyKey}.Load(ctx, id)
	if err != nil {
		return deps, opts, noBackup(ctx, deps.Store, id, err)
	}
	opts.Cluster, opts.ClusterID = m.Source.Cluster, m.Source.ClusterID
	r, done, err := a.openRepository(ctx, repo)
	if err != nil {
		return deps, opts, err
	}
	c.later(done)
	deps.Repository = r
	limits, err := readLimits(f.limit)
	if err != nil {
		return deps, opts, err
	}
	e, err := c.ebs(ctx)
	if err != nil {
		return deps, opts, err
	}
	if deps.Blocks, err = c.ebsDirect(ctx, e.Region(), limits); err != nil {
		return deps, opts, err
	}
	deps.EC2, deps.Region = e, e.Region()
	if opts.Backup, err = a.stillChosen(ctx, deps.Store, f.run, opts.About(r)); err != nil {
		return deps, opts, err
	}
	opts.Run, _, err = continued(ctx, deps.Store, s.log, f.run, opts.About(r))
	opts.Owner = runlock.NewOwner(opts.Run, string(journal.Archive))
	return deps, opts, err
}
