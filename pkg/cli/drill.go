package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/drill"
	"github.com/tisnap/tisnap/pkg/drill/checks"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/tidb"
)

// drillFlags are the flags of `tisnap drill`.
type drillFlags struct {
	volumeFlags
	cluster, pick, run string
	sql, canary        string
	canaryWithin       time.Duration
	tables             string
	budget             time.Duration
	sqlUser            string
	target             targetFlags
	operatorNamespace  string
	outside            string
	image              string
	lifetime, timeout  time.Duration
	restoreWithin      time.Duration
	verifyKey          string
	lockWait           lockWait
	dryRun             bool
	latest             latestFlags
	checks             checks.Options // of the above
	digest             string
}

// The ways to pick a backup.
const (
	pickLatest    = "latest"
	pickRandom    = "random"
	pickUndrilled = "oldest-undrilled"
)

// sqlPasswordVariable is the environment variable for the password of --sql-user. No flag takes a secret.
const sqlPasswordVariable = "TISNAP_SQL_PASSWORD"

func (a *app) drillCommand() *cobra.Command {
	var f drillFlags
	cmd := &cobra.Command{
		Use:   "drill [BACKUP]",
		Short: "Restore a backup into a cage, check its data, and remove everything again",
		Long: `Restore a backup into a cage, check its data, and remove everything again.

The cage is a namespace of its own that reaches nothing else and that nothing else reaches: it
is made first, and its network policies are proven by connections that have to fail. A network
that ignores them is refused. Then the backup is restored into it with the smallest cluster that
works, checked over SQL, and removed with its volumes, whatever came of it.

There are three results: restore, checks and tear-down. The exit code is 0 only if all three are
good, 12 if the restored data did not pass its checks, 13 if something is left, and otherwise
that of the restore. A drill that was killed is removed by the next one, by the same command,
which starts from scratch, and by tisnap drill clean.`,
		Example: `  # what would be made, checked and billed
  tisnap drill latest --storage s3://backups/prod --dry-run

  # a backup that was never drilled, with a row that is written every minute, and own checks
  tisnap drill --cluster tidb/prod --pick oldest-undrilled --storage s3://backups/prod \
    --canary "SELECT MAX(at) FROM ops.heartbeat" --sql checks.yaml --tables 20 --budget 2h`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeBackups,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.validate(args); err != nil {
				return usage(cmd, err)
			}
			if err := f.readChecks(cmd); err != nil {
				return err
			}
			return a.drill(cmd, f, args)
		},
	}
	f.register(cmd)
	a.latestFlags(cmd, &f.latest)
	a.notifyFlag(cmd)
	a.metricsFlags(cmd)
	cmd.AddCommand(a.drillListCommand(), a.drillReportCommand(), a.drillCleanCommand())
	return cmd
}

func (f *drillFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.cluster, "cluster", "", "cluster of which a backup is picked, NAME or NAMESPACE/NAME")
	choose(cmd, fl, &f.pick, "pick", []string{pickLatest, pickRandom, pickUndrilled},
		"which of its sealed backups: oldest-undrilled is the oldest that no drill has passed, or else the one whose "+
			"last passed drill is the oldest")
	fl.StringVar(&f.run, "run-id", "", "id of the run; one that died starts from scratch (default: generated)")
	fl.StringVar(&f.sql, "sql", "",
		"YAML file with your own checks: a list `checks` of name, sql, and expect, empty or within; and a list `sums` "+
			"of what ADMIN CHECKSUM TABLE answered in the source (docs/drill.md)")
	fl.StringVar(&f.canary, "canary", "",
		"statement that selects the Unix time of the newest row of a table that is always written to")
	fl.DurationVar(&f.canaryWithin, "canary-within", 5*time.Minute, "how much older than the backup that row may be")
	fl.StringVar(&f.tables, "tables", "10", "how many random tables are compared with their indexes: a number, or all")
	fl.DurationVar(&f.budget, "budget", time.Hour, "time for all checks together")
	fl.StringVar(&f.sqlUser, "sql-user", "root",
		"user of the restored cluster; "+sqlPasswordVariable+" has the password, if any")
	f.target.addChanges(fl)
	fl.StringVar(&f.operatorNamespace, "operator-namespace", "tidb-admin",
		"namespace of TiDB Operator, whose pods reach the cage")
	fl.StringVar(&f.outside, "outside-namespace", "default",
		"namespace without network policies, for the pods that must not reach the cage")
	fl.StringVar(&f.image, "probe-image", "busybox:1.37", "image of these pods, with nc")
	fl.DurationVar(&f.lifetime, "lifetime", drill.DefaultLifetime, "when the cage expires and anyone may remove it")
	fl.DurationVar(&f.restoreWithin, "restore-within", drill.DefaultRestore, "time for the whole restore")
	fl.DurationVar(&f.timeout, "timeout", time.Hour, "how long to wait for the volumes, for the stores, and for TiDB")
	f.add(cmd)
	verifyKeyFlag(cmd, &f.verifyKey)
	f.lockWait.add(cmd)
	fl.BoolVar(&f.dryRun, "dry-run", false, "check everything and print the plan; change nothing")
}

func (f *drillFlags) validate(args []string) error {
	switch {
	case (len(args) == 0) == (f.cluster == ""):
		return errors.New("give BACKUP, or --cluster to pick one of its backups")
	case f.cluster != "" && f.latest != (latestFlags{}):
		return errors.New("--before and --of choose the latest backup: give latest as BACKUP, without --cluster")
	case f.budget <= 0 || f.lifetime <= 0 || f.restoreWithin <= 0 || f.canaryWithin <= 0:
		return errors.New("--budget, --lifetime, --restore-within and --canary-within: want positive durations")
	case f.timeout < time.Second:
		return fmt.Errorf("--timeout %s: want at least 1s", f.timeout)
	case f.outside == f.operatorNamespace:
		return errors.New("--outside-namespace is that of TiDB Operator, whose pods reach the cage")
	}
	if err := f.lockWait.validate(); err != nil {
		return err
	}
	return f.volumeFlags.validate()
}

// into reads the flags of the restore, which makes the smallest cluster that works.
func (f *drillFlags) into(cmd *cobra.Command, opts *restore.Options) error {
	opts.Changes.Smallest = true
	if err := f.target.into(cmd, opts); err != nil {
		return err
	}
	return f.volumeFlags.into(opts)
}

// readChecks reads what is checked.
func (f *drillFlags) readChecks(cmd *cobra.Command) error {
	seed := uint64(time.Now().UnixNano())
	f.checks = checks.Options{Budget: f.budget, Each: f.budget, Seed: seed}
	if f.tables == "all" {
		f.checks.AllTables = true
	} else {
		n, err := strconv.Atoi(f.tables)
		if err != nil || n < 0 {
			return usage(cmd, fmt.Errorf("--tables %q: want a number, or all", f.tables))
		}
		f.checks.Tables = n
	}
	if f.canary != "" {
		text, err := json.Marshal(map[string]any{"checks": []map[string]string{
			{"name": "canary", "sql": f.canary, "within": f.canaryWithin.String()},
		}})
		if err != nil {
			return err
		}
		read, err := checks.ReadFile(text, "--canary")
		if err != nil {
			return err
		}
		f.checks.Statements = read.Statements
	}
	if f.sql != "" {
		text, err := readInput(cmd, f.sql)
		if err != nil {
			return err
		}
		read, err := checks.ReadFile(text, f.sql)
		if err != nil {
			return err
		}
		f.checks.Statements, f.checks.Sums = append(f.checks.Statements, read.Statements...), read.Sums
	}
	if len(f.checks.Statements)+len(f.checks.Sums) == 0 {
		return nil
	}
	sums := map[string]tidb.Checksum{}
	for table, sum := range f.checks.Sums {
		sums[table.String()] = sum
	}
	text, err := json.Marshal([]any{f.checks.Statements, sums})
	sum := sha256.Sum256(text)
	f.digest = hex.EncodeToString(sum[:6])
	return err
}

// drill drills a backup, after it has removed what dead drills left.
func (a *app) drill(cmd *cobra.Command, f drillFlags, args []string) error {
	return a.operate(cmd, f.dryRun, func(ctx context.Context, c *connections, s *session) (work, error) {
		d, err := a.drillDeps(ctx, cmd, c, s, f, args)
		if err != nil {
			return work{}, err
		}
		return work{
			plan: func(ctx context.Context) (document, error) { return d.planned(ctx) },
			run: func(ctx context.Context) (document, error) {
				d.cleanDead(ctx)
				result, err := drill.Run(ctx, d.Deps, d.opts)
				disown(&d.opts.Run, &result.Outcome)
				doc := drillResult(ctx, d, result, err)
				return doc, errors.Join(err,
					storeReport(ctx, d.Store, s.log, doc.Report, &result.Outcome, err == nil))
			},
		}, nil
	})
}

// backupOf is the backup that the user named or that is picked, and the reference by which it was; "" if it was named.
func (d *drillWork) backupOf(
	ctx context.Context, cmd *cobra.Command, f drillFlags, args []string,
) (cluster.BackupID, string, error) {
	if len(args) > 0 {
		id, err := d.app.backupID(cmd, f.latest, args[0])
		return id, f.latest.chosen(args[0]), err
	}
	name, err := d.app.global.clusterName(f.cluster)
	if err != nil {
		return "", "", err
	}
	id, err := d.pick(ctx, name, f.pick, f.checks.Seed)
	if err == nil {
		d.app.note(fmt.Sprintf("--pick %s is backup %s of %s", f.pick, oneLine(id), name))
	}
	return id, f.pick, err
}
