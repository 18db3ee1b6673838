package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/copyrun"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// copyFlags are the flags of `tisnap copy`.
type copyFlags struct {
	latest              latestFlags
	run                 string
	toStorage, toRegion string
	fromStorage         string
	roleARN, externalID string
	kmsKey              string
	within, stuck       time.Duration
	prices              string
	verifyKey, signKey  string
	lockWait            lockWait
	dryRun              bool
}

func (a *app) copyCommand() *cobra.Command {
	var f copyFlags
	cmd := &cobra.Command{
		Use:   "copy BACKUP",
		Short: "Copy a sealed backup into another region, account or key",
		Long: `Copy a sealed backup into another region, account or key.

The snapshots are copied by EC2, and the manifest into another storage. The copy is a backup
like any other there: list, describe, restore, prune and delete work on it, and it needs
nothing of the source any more. It is sealed as the last thing, and only then does the command
exit with 0. The same command resumes a run that failed or died; its journal is in the storage
of the copy. The source cannot be deleted meanwhile.

With --to-storage the backup is in --storage and is pushed: into --to-region, and into another
account by --role-arn, a role there. Its snapshots are shared with that account until they are
copied. With --from-storage it is pulled into --storage and the region and account of the
credentials: run in the target's account, this keeps the copy out of reach of the source's.`,
		Example: `  # what would be copied, incrementally or in full, and what that costs
  tisnap copy latest --storage s3://backups/prod --to-storage s3://dr/prod --to-region eu-west-1 --dry-run

  # into another account, under a key there
  tisnap copy latest --storage s3://backups/prod --to-storage s3://dr/prod --to-region eu-west-1 \
    --role-arn arn:aws:iam::222222222222:role/tisnap-copy --kms-key arn:aws:kms:eu-west-1:222222222222:key/ID

  # in the target's account
  tisnap copy latest --from-storage s3://backups/prod --storage s3://dr/prod --region eu-west-1`,
		Args: exactly("BACKUP"), ValidArgsFunction: a.completeBackups,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.validate(); err != nil {
				return usage(cmd, err)
			}
			id, err := a.backupToCopy(cmd, f, args[0])
			if err != nil {
				return err
			}
			return a.copyBackup(cmd, f, id)
		},
	}
	f.add(a, cmd)
	a.waitFlag(cmd)
	a.notifyFlag(cmd)
	a.metricsFlags(cmd)
	return cmd
}

// add adds the flags to the command.
func (f *copyFlags) add(a *app, cmd *cobra.Command) {
	fl := cmd.Flags()
	a.latestFlags(cmd, &f.latest)
	fl.StringVar(&f.run, "run-id", "",
		"id of the run; resumes that run if it is unfinished (default: the cluster's last unfinished copy of the same "+
			"request, else generated from the time)")
	fl.StringVar(&f.toStorage, "to-storage", "", "storage that gets the copy of a backup in --storage")
	fl.StringVar(&f.toRegion, "to-region", "", "AWS region of a pushed copy (default: the backup's)")
	fl.StringVar(&f.fromStorage, "from-storage", "", "storage that has the backup, whose copy --storage gets")
	fl.StringVar(&f.roleARN, "role-arn", "",
		"role of the target's account to assume for its EC2 and S3, for a push")
	fl.StringVar(&f.externalID, "external-id", "", "external id for that role")
	fl.StringVar(&f.kmsKey, "kms-key", "",
		"KMS key of the copies, in their region (default: copies of encrypted snapshots get the default key there)")
	fl.DurationVar(&f.within, "within", 0,
		"ask EC2 to complete all copies in this time, a multiple of 15m, which costs extra (default: as EC2 does it)")
	fl.DurationVar(&f.stuck, "stuck", copyrun.DefaultStuck, "end the run if the copies make no progress for this time")
	fl.StringVar(&f.prices, "prices", "", "TOML file with prices (default: built-in us-east-1 prices)")
	verifyKeyFlag(cmd, &f.verifyKey)
	fl.StringVar(&f.signKey, "sign-key", "", "minisign secret key file that signs the copy")
	f.lockWait.add(cmd)
	fl.BoolVar(&f.dryRun, "dry-run", false, "check everything and print what would be copied; change nothing")
}

// maxWithin is for copies in ten rounds, 200 snapshots, each as long as EC2 takes.
const maxWithin = 10 * ebs.MaxCopyWithin

func (f *copyFlags) validate() error {
	switch {
	case (f.toStorage == "") == (f.fromStorage == ""):
		return errors.New("give --to-storage to push a copy of a backup in --storage, or --from-storage to pull one " +
			"into it")
	case f.fromStorage != "" && (f.toRegion != "" || f.roleARN != ""):
		return errors.New("--to-region and --role-arn go with --to-storage: a pulled copy is made with --region and " +
			"the credentials of its account")
	case f.externalID != "" && f.roleARN == "":
		return errors.New("--external-id goes with --role-arn")
	case f.stuck <= 0:
		return fmt.Errorf("--stuck %s: want a positive duration", f.stuck)
	case f.within < 0 || f.within > maxWithin || f.within%ebs.CopyWithinStep != 0:
		return fmt.Errorf("--within %s: want a multiple of %s, up to %s", f.within, ebs.CopyWithinStep, maxWithin)
	}
	return f.lockWait.validate()
}

// backupToCopy returns the backup's id; latest is that of the storage that has it.
func (a *app) backupToCopy(cmd *cobra.Command, f copyFlags, arg string) (cluster.BackupID, error) {
	if f.fromStorage == "" {
		return a.backupID(cmd, f.latest, arg)
	}
	return a.backupAmong(cmd, f.latest, arg, func(ctx context.Context) ([]catalog.Entry, error) {
		c, err := a.connections(zap.NewNop())
		if err != nil {
			return nil, err
		}
		defer c.close()
		from, err := c.storeAt(ctx, f.fromStorage, c.storeConfig())
		if err != nil {
			return nil, err
		}
		return catalog.Catalog{Store: from}.List(ctx)
	})
}

// copyBackup copies a backup.
func (a *app) copyBackup(cmd *cobra.Command, f copyFlags, id cluster.BackupID) error {
	prices, err := estimate.ReadPrices(f.prices)
	if err != nil {
		return err
	}
	return a.operate(cmd, f.dryRun, func(ctx context.Context, c *connections, s *session) (work, error) {
		deps, opts, err := a.copyDeps(ctx, c, s, f, id)
		if err != nil {
			return work{}, err
		}
		return work{
			id: opts.Run, store: deps.To, lockWait: opts.LockWait, request: opts.About(&deps),
			plan: func(ctx context.Context) (document, error) {
				plan, err := copyrun.Estimate(ctx, deps, opts)
				if err != nil {
					return nil, err
				}
				return copyPlan(opts, &deps, plan, prices), nil
			},
			run: func(ctx context.Context) (document, error) {
				deps.Cost = func(p *copyrun.Plan) string {
					doc := copyPlan(opts, &deps, p, prices)
					return doc.least() + ", " + doc.bill()
				}
				result, err := copyrun.Run(ctx, deps, opts)
				disown(&opts.Run, &result.Outcome)
				doc := copyResult(ctx, opts, &deps, result, err)
				return doc, errors.Join(err,
					storeReport(ctx, deps.To, s.log, doc.Report, &result.Outcome, result.Sealed))
			},
		}, nil
	})
}

func (a *app) copyDeps(
	ctx context.Context, c *connections, s *session, f copyFlags, id cluster.BackupID,
) (deps copyrun.Deps, opts copyrun.Options, err error) {
	deps = copyrun.Deps{Sink: s.progress, Log: s.log, Remains: a.remains()}
	opts = copyrun.Options{
		Tool: a.version.Version, Backup: id, KMSKey: f.kmsKey, Within: f.within, Stuck: f.stuck,
		LockWait: f.lockWait.limit(),
	}
	if opts.VerifyKey, err = readVerifyKey(f.verifyKey); err != nil {
		return deps, opts, err
	}
	if opts.SignKey, err = readSigningKey(f.signKey); err != nil {
		return deps, opts, err
	}
	if err = c.copyStores(ctx, f, &deps); err != nil {
		return deps, opts, err
	}
	m, err := catalog.Catalog{Store: deps.From, VerifyKey: opts.VerifyKey}.Load(ctx, id)
	if err != nil {
		return deps, opts, noBackup(ctx, deps.From, id, err)
	}
	opts.Cluster, opts.ClusterID = m.Source.Cluster, m.Source.ClusterID
	source, err := c.ebsAt(ctx, ebs.Config{Region: m.Region})
	if err != nil {
		return deps, opts, err
	}
	at := ebs.Config{Region: c.global.region}
	if f.toStorage != "" {
		at = ebs.Config{Region: m.Region, RoleARN: f.roleARN, ExternalID: f.externalID}
		if f.toRegion != "" {
			at.Region = f.toRegion
		}
	}
	target, err := c.ebsAt(ctx, at)
	if err != nil {
		return deps, opts, err
	}
	deps.Source, deps.Target = source, target
	opts.Run, _, err = continued(ctx, deps.To, s.log, f.run, opts.About(&deps))
	opts.Owner = runlock.NewOwner(opts.Run, string(journal.Copy))
	return deps, opts, err
}

// storeConfig is that of another storage with the credentials of --storage.
func (c *connections) storeConfig() objstore.Config {
	return objstore.Config{
		Region: c.global.region, Endpoint: c.global.endpoint, Profile: c.global.profile, Log: c.log,
	}
}

// copyStores opens the storage of the backup and that of the copy.
func (c *connections) copyStores(ctx context.Context, f copyFlags, deps *copyrun.Deps) (err error) {
	config := c.storeConfig()
	if f.fromStorage != "" {
		if deps.From, err = c.storeAt(ctx, f.fromStorage, config); err != nil {
			return err
		}
		deps.To, err = c.store(ctx)
		return err
	}
	if deps.From, err = c.store(ctx); err != nil {
		return err
	}
	if f.toRegion != "" {
		config.Region = f.toRegion
	}
	config.RoleARN, config.ExternalID, config.RoleEndpoint = f.roleARN, f.externalID, c.global.endpoint
	deps.To, err = c.storeAt(ctx, f.toStorage, config)
	return err
}

// ebsAt connects to EC2 in a region, by a role of its own or that of --ebs-role-arn.
func (c *connections) ebsAt(ctx context.Context, config ebs.Config) (*ebs.Client, error) {
	if config.RoleARN == "" {
		config.RoleARN, config.ExternalID = c.global.ebsRole, c.global.ebsExternalID
	}
	config.Endpoint, config.Profile, config.Log = c.global.endpoint, c.global.profile, c.log
	client, err := ebs.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	c.later(client.Close)
	return client, nil
}
