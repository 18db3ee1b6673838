package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/restore"
)

type restoreFlags struct {
	volumeFlags
	to, run               string
	latest                latestFlags
	onTasks               restore.OnTasks
	tiflash               preflight.TiFlashPolicy
	pdState               restore.PDStatePolicy
	verifyKey             string
	tolerate              []uint
	flash                 flashbackFlags
	archive               archivedFlags
	via                   wayFlags
	object                targetFlags
	waitApply, serial     bool
	timeout               time.Duration
	lockWait              lockWait
	keep, dryRun, compare bool
}

func (a *app) restoreCommand() *cobra.Command {
	var f restoreFlags
	cmd := &cobra.Command{
		Use:   "restore BACKUP --to CLUSTER",
		Short: "Restore a backup into a new cluster",
		Long: `Restore a backup into a new cluster.

All checks come before the first change. The cluster is created in recovery mode with the
source's specification, on volumes of the given type, IOPS and throughput (default: the
source's). A failed run deletes what it made, unless --keep-on-failure is set. The same
command resumes a run whose process died and reuses what it made.

With --from-archive, BACKUP is an archive of --repo; --storage may be a new one. Its volumes become
EBS snapshots first, in the account and region of --profile and --region, which are deleted once
the cluster serves. With --archive-via volumes, the default in another region or without AWS, pods of
Jobs fill volumes of any CSI driver instead: of --storage-class, or of the source's classes.`,
		Example: `  # restore the newest backup, or the newest one from before the damage
  tisnap restore latest --to tidb/copy --storage s3://backups/prod
  tisnap restore latest --before 2026-11-22T09:30:00Z --to tidb/copy --storage s3://backups/prod

  # restore onto fast volumes
  tisnap restore prod-20261121-100000 --to tidb/copy --storage s3://backups/prod --volume-type io2 --volume-iops 7000

  # the published case, gp3 with 7,000 IOPS and 400 MiB/s, compared with its figures
  tisnap restore prod-20261121-100000 --to tidb/copy --storage s3://backups/prod \
    --volume-type gp3 --volume-iops 7000 --volume-throughput 400 --compare

  # fast volumes for the restore, initialized by EC2, and cheaper settings afterwards
  tisnap restore prod-20261121-100000 --to tidb/copy --storage s3://backups/prod --volume-type gp3 \
    --volume-iops 16000 --volume-throughput 1000 --initialization-rate 300 \
    --after-restore-iops 4000 --after-restore-throughput 250

  # the cluster from your own repository, or the source's with changes
  tisnap restore prod-20261121-100000 --to tidb/copy --storage s3://backups/prod --from-manifest copy.yaml
  tisnap restore prod-20261121-100000 --to tidb/copy --storage s3://backups/prod --patch smaller.yaml --print-manifest

  # from an archive, whose backup and account may be gone
  tisnap restore latest --from-archive --repo s3://archive/prod --repo-identity ops.key \
    --to tidb/copy --storage s3://restores/prod

  # in another region or cloud, onto volumes of its CSI driver
  tisnap restore latest --from-archive --archive-via volumes --repo s3://archive/prod --repo-identity ops.key \
    --to tidb/copy --storage s3://restores/prod --storage-class premium --image REGISTRY/tisnap:v1

  # show the plan without executing it
  tisnap restore prod-20261121-100000 --to tidb/copy --storage s3://backups/prod --dry-run`,
		Args:              exactly("BACKUP"),
		ValidArgsFunction: f.archive.complete(a, a.completeBackups),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.validate(cmd); err != nil {
				return usage(cmd, err)
			}
			if !a.wait && f.object.readsInput() {
				return usage(cmd,
					fmt.Errorf("with --wait=false, --from-manifest and --patch need files: standard input ends with "+
						"this process"))
			}
			if f.archive.on {
				return a.restore(cmd, f, cluster.BackupID(args[0]), "")
			}
			id, err := a.backupID(cmd, f.latest, args[0])
			if err != nil {
				return err
			}
			return a.restore(cmd, f, id, f.latest.chosen(args[0]))
		},
	}
	f.register(a, cmd)
	a.waitFlag(cmd)
	a.notifyFlag(cmd)
	a.metricsFlags(cmd)
	cmd.AddCommand(a.restoreAbortCommand())
	return cmd
}

// register adds the flags to the command.
func (f *restoreFlags) register(a *app, cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.to, "to", "", "cluster to create: NAME or NAMESPACE/NAME (required)")
	a.latestFlags(cmd, &f.latest)
	fl.StringVar(&f.run, "run-id", "",
		"id of the run; resumes that run if its process died (default: the target's last run if it died and made the "+
			"same request, else generated from the time)")
	f.add(cmd)
	fl.DurationVar(&f.timeout, "timeout", time.Hour, "how long to wait for the volumes, for the stores, and for TiDB")
	f.lockWait.add(cmd)
	f.archive.add(cmd)
	f.via.add(cmd)
	fl.BoolVar(&f.keep, "keep-on-failure", false, "keep what the run made if it fails")
	f.object.add(cmd)
	fl.BoolVar(&f.dryRun, "dry-run", false, "check everything and print the plan; change nothing")
	fl.BoolVar(&f.compare, "compare", false, "compare the times with the published case")
	tolerateFlag(cmd, &f.tolerate)
	onTasksFlag(cmd, &f.onTasks)
	waitApplyFlag(cmd, &f.waitApply)
	serialFlag(cmd, &f.serial)
	f.flash.add(cmd)
	tiflashFlag(cmd, &f.tiflash)
	pdStateFlag(cmd, &f.pdState)
	verifyKeyFlag(cmd, &f.verifyKey)
}

func (f *restoreFlags) validate(cmd *cobra.Command) error {
	switch {
	case f.to == "":
		return fmt.Errorf("--to CLUSTER is missing")
	case f.timeout < time.Second:
		return fmt.Errorf("--timeout %s: want at least 1s", f.timeout)
	}
	if err := errors.Join(f.archive.validate(f.verifyKey, f.latest), f.via.validate(cmd, f.archive.on)); err != nil {
		return err
	}
	if err := f.lockWait.validate(); err != nil {
		return err
	}
	if err := f.volumeFlags.validate(); err != nil {
		return err
	}
	if err := f.flash.validate(); err != nil {
		return err
	}
	_, err := tolerated(f.tolerate)
	return err
}

// restore restores the backup that the user has named, or chosen by a reference.
func (a *app) restore(cmd *cobra.Command, f restoreFlags, id cluster.BackupID, chosen string) error {
	return a.operate(cmd, f.dryRun || f.object.print,
		func(ctx context.Context, c *connections, s *session) (work, error) {
			deps, opts, err := a.restoreDeps(ctx, cmd, c, s, f, id, chosen)
			if err != nil {
				return work{}, err
			}
			journals := deps.Store
			if f.object.print { // the manifest of the target, whatever became of a run
				journals = nil
			}
			return work{
				id: opts.Run, store: journals, lockWait: opts.LockWait, request: journal.About{
					Operation: journal.Restore, Cluster: opts.Target, Backup: opts.Backup, Request: opts.Request(),
				},
				plan: func(ctx context.Context) (document, error) {
					plan, err := restore.MakePlan(ctx, deps, opts)
					if err != nil {
						return nil, err
					}
					if f.object.print {
						return printedManifest(opts, plan)
					}
					doc := restorePlan(opts, plan)
					if err := doc.addArchive(deps.Archive, deps.Fill); err != nil || deps.Fill != nil {
						return doc, err
					}
					return doc, doc.estimate(ctx, deps.Store, opts, plan)
				},
				run: func(ctx context.Context) (document, error) {
					eta := a.global.newExpecter(deps.Sink, a.global.pastRuns(ctx, deps.Store))
					deps.Sink = eta
					deps.ExpectDuration = nil
					if deps.Fill == nil {
						deps.ExpectDuration = func(
							plan *restore.Plan, earlier json.RawMessage,
						) (json.RawMessage, string) {
							return eta.expectation(plannedRestore(opts, plan), earlier)
						}
					}
					result, err := restore.Run(ctx, deps, opts)
					disown(&opts.Run, &result.Outcome)
					doc := restoreResult(ctx, opts, result, err)
					doc.FromArchive = archivedOf(deps.Archive)
					doc.Report.Forward = c.forwarded(nil)
					doc.compare = f.compare
					return doc, errors.Join(err,
						storeReport(ctx, deps.Store, s.log, doc.Report, &result.Outcome, result.Restored))
				},
			}, nil
		})
}

func (a *app) restoreDeps(
	ctx context.Context, cmd *cobra.Command, c *connections, s *session, f restoreFlags, id cluster.BackupID,
	chosen string,
) (restore.Deps, restore.Options, error) {
	var deps restore.Deps
	var opts restore.Options
	k, err := c.kube()
	if err != nil {
		return deps, opts, err
	}
	target, err := cluster.ParseName(f.to, k.Namespace())
	if err != nil {
		return deps, opts, err
	}
	store, err := c.store(ctx)
	if err != nil {
		return deps, opts, err
	}
	deps = restore.Deps{
		Kube: k, TiKV: c.tikv(), Store: store, Sink: s.progress, Log: s.log, Remains: a.remains(),
		OpenPD: func(ctx context.Context, addresses []string) (restore.PD, error) {
			return c.targetPD(ctx, k, addresses, target)
		},
	}
	opts = restore.Options{
		Backup: id, Chosen: chosen, Target: target, Tool: a.version.Version,
		KeepOnFailure: f.keep, Timeout: f.timeout, Kubernetes: k.Server(),
		PDState: f.pdState, TiFlash: f.tiflash, OnTasks: f.onTasks, WaitApply: f.waitApply,
		Serial: f.serial, LockWait: f.lockWait.limit(),
	}
	if opts.VerifyKey, err = readVerifyKey(f.verifyKey); err != nil {
		return deps, opts, err
	}
	if err := f.object.into(cmd, &opts); err != nil {
		return deps, opts, err
	}
	if opts.TolerateStores, err = tolerated(f.tolerate); err != nil {
		return deps, opts, err
	}
	f.flash.into(&opts)
	if err := f.into(&opts); err != nil {
		return deps, opts, err
	}
	request := journal.About{
		Operation: journal.Restore, Cluster: target, Kubernetes: k.Server(),
		KubernetesUID: kubernetesUID(ctx, k, s.log),
	}
	if f.archive.on {
		if deps.Archive, err = a.openSource(ctx, c, &f.archive, string(id), request, f.run); err != nil {
			return deps, opts, err
		}
		if err := a.openWay(ctx, cmd, c, &f, k, &deps, request); err != nil {
			return deps, opts, err
		}
		opts.Backup, opts.FromArchive = cluster.BackupID(deps.Archive.Archive.Backup), deps.Archive.Request()
		if deps.Fill != nil {
			maps.Copy(opts.FromArchive, deps.Fill.Request())
		}
		if string(id) != deps.Archive.ID {
			chosen, opts.Chosen = string(id), string(id)
		}
	} else if deps.EBS, err = c.ebs(ctx); err != nil {
		return deps, opts, err
	}
	request.Backup, request.Chosen, request.Request = opts.Backup, chosen, opts.Request()
	if opts.Backup, err = a.stillChosen(ctx, store, f.run, request); err != nil {
		return deps, opts, err
	}
	request.Backup = opts.Backup
	run, _, err := continued(ctx, store, s.log, f.run, request)
	opts.Run, opts.Owner = run, owner(cmd, run)
	return deps, opts, err
}
