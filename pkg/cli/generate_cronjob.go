package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/generate"
	"github.com/tisnap/tisnap/pkg/retention"
)

// cronJobFlags choose another CronJob than that of the backup.
type cronJobFlags struct {
	drill, archive bool
	repo           string
}

func (a *app) generateCronJobCommand() *cobra.Command {
	var n generate.Nightly
	var policy retention.Policy
	var f cronJobFlags
	var cmd *cobra.Command
	cmd = a.generated(&cobra.Command{
		Use:   "cronjob [NAMESPACE/]CLUSTER",
		Short: "Print the CronJob of the nightly backup, its settings and NetworkPolicy",
		Long: `Print the CronJob that backs a TiDB cluster up each night and deletes the backups that no rule
keeps, with its settings in a ConfigMap and the pods' NetworkPolicy.

--namespace is where it runs (default: the cluster's). Without a --keep flag it keeps seven
daily, four weekly and six monthly backups; the flags are those of tisnap prune.

With --drill it is the CronJob of the weekly drill, which needs tisnap generate rbac --drill.

With --archive it is the CronJob that archives the newest backup each night, and keeps 14 daily,
eight weekly and 24 monthly archives without --keep flags. The Secret NAME-key has the file
identity, which unlocks the repository. With --workers the pods of a Job do the work, which the
CronJob makes: their ServiceAccount, and the role that making it needs, are printed, too.`,
		Example: `  tisnap generate cronjob tidb/prod --storage s3://backups/prod --region us-west-2 \
    --image REGISTRY/tisnap:v1 | kubectl apply -f -

  # the first backup, now
  kubectl -n tidb create job first --from=cronjob/tisnap-nightly

  # the weekly drill
  tisnap generate cronjob tidb/prod --drill --storage s3://backups/prod --region us-west-2 \
    --image REGISTRY/tisnap:v1 | kubectl apply -f -

  # the nightly archive
  kubectl -n tidb create secret generic tisnap-archive-key --from-file=identity=ops.key
  tisnap generate cronjob tidb/prod --archive --repo s3://archive/prod --storage s3://backups/prod \
    --region us-west-2 --image REGISTRY/tisnap:v1 --workers 8 | kubectl apply -f -`,
		Args:              exactly("CLUSTER"),
		ValidArgsFunction: a.completeClusters,
	}, func(args []string) (_ []byte, err error) {
		if n.Cluster, err = a.global.clusterName(args[0]); err != nil {
			return nil, err
		}
		n.Account.Namespace = cmp.Or(a.global.namespace, n.Cluster.Namespace)
		if n.Storage, err = a.awsStorage(); err != nil {
			return nil, err
		}
		if n.Keep = keepArgs(cmd.Flags()); len(n.Keep) > 0 {
			if err := policy.Validate(); err != nil {
				return nil, err
			}
		}
		named := cmd.Flags().Changed("name")
		switch {
		case f.archive:
			if !named {
				n.Name = "tisnap-archive"
			}
			return f.archives(n)
		case f.repo != "" || n.KMS || n.Workers != 0 || n.RoleARN != "":
			return nil, failure.New(failure.Usage, "", "", "--repo, --kms and --workers go with --archive")
		case !f.drill:
			return n.Objects()
		case len(n.Keep) > 0:
			return nil, failure.New(failure.Usage, "", "",
				"--drill goes without --keep flags: a drill deletes no backup")
		case !named:
			n.Name = "tisnap-drill"
		}
		return n.Drills()
	})
	f.add(cmd, &n)
	keepFlags(cmd.Flags(), &policy)
	return cmd
}

// archives returns the CronJob of the nightly archive.
func (f *cronJobFlags) archives(n generate.Nightly) (_ []byte, err error) {
	if f.repo != "" {
		if n.Repo, err = generate.ParseStorage("--repo", f.repo, n.Storage.Region); err != nil {
			return nil, err
		}
	}
	if n.Workers < 0 || n.Workers > maxWorkers || n.Workers == 0 && n.RoleARN != "" {
		return nil, failure.New(failure.Usage, "", "",
			"--workers %d: want 0 to %d, and with --worker-role-arn at least 1", n.Workers, maxWorkers)
	}
	return n.Archives()
}

func (f *cronJobFlags) add(cmd *cobra.Command, n *generate.Nightly) {
	fl := cmd.Flags()
	serviceAccountFlag(cmd, &n.Account.Name)
	fl.BoolVar(&f.drill, "drill", false, "print the CronJob of the weekly drill instead, and its settings")
	fl.BoolVar(&f.archive, "archive", false, "print the CronJob of the nightly archive instead, and its settings")
	fl.StringVar(&f.repo, "repo", "", "with --archive: the repository, s3://bucket/prefix")
	fl.BoolVar(&n.KMS, "kms", false,
		"with --archive: a KMS key unlocks the repository, by the pods' role, and no Secret is mounted")
	fl.IntVar(&n.Workers, "workers", 0,
		"with --archive: how many pods of a Job archive; 0: the CronJob's own pod does")
	fl.StringVar(&n.RoleARN, "worker-role-arn", "", "with --workers: ARN of those pods' IAM role, for IRSA")
	cmd.MarkFlagsMutuallyExclusive("drill", "archive")
	fl.StringVar(&n.Name, "name", "tisnap-nightly",
		"name of the CronJob and its ConfigMap (with --drill: tisnap-drill, with --archive: tisnap-archive)")
	fl.StringVar(&n.Image, "image", "", "image of tisnap")
	fl.StringVar(&n.Schedule, "schedule", "",
		"when, in five fields of cron (default: 17 2 * * *, 23 6 * * 0 of a drill, and 47 3 * * * of an archive)")
	fl.StringVar(&n.TimeZone, "time-zone", "", "time zone of the schedule, such as Europe/Berlin (default: Etc/UTC)")
}

// keepArgs are the given flags of what prune keeps, as its arguments.
func keepArgs(flags *pflag.FlagSet) (args []string) {
	flags.Visit(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, "keep-") {
			args = append(args, fmt.Sprintf("--%s=%s", f.Name, strings.Trim(f.Value.String(), "[]"))) // of a list
		}
	})
	return args
}
