package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/reach"
	"github.com/tisnap/tisnap/pkg/ui"
)

// app is one invocation: the global flags and where output goes.
type app struct {
	streams  Streams
	version  Version
	global   globalFlags
	announce announceFlags // of the command that runs
	ended    *ended        // what there is to announce
	args     []string      // the command line without the program
	wait     bool          // for the end of the run
	dryByEnv string        // warns of a dry run that the environment asks for; "" for another run
	shutdown *shutdown     // by a signal; nil without
}

// globalFlags are common to all commands, spelled as in kubectl, aws and br.
type globalFlags struct {
	kubeconfig, context, namespace, as string
	region, profile, endpoint          string
	storage                            string
	pd, resolve                        []string
	addressFile                        string
	via                                reach.Via
	tls                                cluster.TLSFiles
	output                             string
	progress                           ui.Mode
	logLevel, logFormat, logFile       string
	ebsRole, ebsExternalID             string
	grace                              time.Duration
	local                              bool // times in tables
}

func (a *app) root() *cobra.Command {
	cmd := &cobra.Command{
		Use:         "tisnap",
		Annotations: a.displayName(),
		Short:       "Back up and restore TiDB clusters on EKS by EBS volume snapshots",
		Long: `Back up and restore TiDB clusters on EKS by EBS volume snapshots.

A backup holds the running cluster for seconds, snapshots all TiKV volumes in parallel,
releases the cluster, waits for the snapshots, and seals a manifest in object storage. A
restore creates a cluster in recovery mode on volumes of the type, IOPS and throughput that
you choose, and brings all stores to one consistent state at the backup ts.`,
		Version:       a.version.text(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromEnv(cmd); err != nil {
				return usage(cmd, err)
			}
			if err := a.global.validate(); err != nil {
				return usage(cmd, err)
			}
			if err := checkOutput(cmd, a.global.output); err != nil {
				return usage(cmd, err)
			}
			a.shutdown.configure(a.global.grace, a.machine())
			if a.dryByEnv = dryByEnv(cmd); a.dryByEnv != "" {
				a.warn(errors.New(a.dryByEnv))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SetFlagErrorFunc(flagError)
	cmd.SetUsageFunc(func(c *cobra.Command) error { // a template would link text/template, which keeps every method
		_, err := io.WriteString(c.OutOrStderr(), usageText(c))
		return err
	})
	f, g := cmd.PersistentFlags(), &a.global
	f.StringVar(&g.kubeconfig, "kubeconfig", "", "path to the kubeconfig (default: KUBECONFIG, then ~/.kube/config)")
	f.StringVar(&g.context, "context", "", "kubeconfig context")
	f.StringVarP(&g.namespace, "namespace", "n", "", "namespace of the cluster (default: the context's, or the pod's)")
	f.StringVar(&g.as, "as", "", "user to impersonate in Kubernetes")
	f.StringVar(&g.region, "region", "", "AWS region (default: the AWS SDK's chain)")
	f.StringVar(&g.profile, "profile", "", "AWS profile")
	f.StringVar(&g.endpoint, "endpoint-url", "", "custom endpoint URL for EC2 and S3 (default: AWS_ENDPOINT_URL)")
	f.StringVar(&g.ebsRole, "ebs-role-arn", "", "role to assume for EC2 and EBS, in the account of the snapshots")
	f.StringVar(&g.ebsExternalID, "ebs-external-id", "", "external id for that role")
	f.StringVarP(&g.storage, "storage", "s", "", "where backups are kept: s3://bucket/prefix or file:///folder")
	f.StringSliceVar(&g.pd, "pd", nil, "PD addresses (default: from the cluster's status)")
	f.StringSliceVar(&g.resolve, "resolve", nil,
		"address of a PD or store name outside the Kubernetes cluster, NAME=IP or NAME:PORT=HOST:PORT; may be repeated")
	choose(cmd, f, &g.via, "via", reach.Ways(),
		"how to reach PD and the stores: direct, port-forward (through Kubernetes' API server), or auto: direct if "+
			"possible, else port-forward")
	f.StringVar(&g.addressFile, "address-map", "", "file with one --resolve mapping per line")
	f.StringVar(&g.tls.CA, "ca", "",
		"CA certificate of the TiDB cluster, for TLS (default: from the secret NAME-cluster-client-secret)")
	f.StringVar(&g.tls.Cert, "cert", "", "client certificate, for TLS")
	f.StringVar(&g.tls.Key, "key", "", "client key, for TLS")
	f.StringVarP(&g.output, "output", "o", "table", "output format: "+strings.Join(formats(), "|")+"…")
	choose(cmd, f, &g.progress, "progress", ui.Modes(), "progress on stderr")
	choose(cmd, f, &g.logLevel, "log-level", []string{"warn", "debug", "info", "error"}, "log level")
	choose(cmd, f, &g.logFormat, "log-format", []string{"text", "json"}, "log format")
	f.StringVar(&g.logFile, "log-file", "", "write the log there instead of stderr")
	complete(cmd, "output", formats()...)
	a.completeFromLive(cmd)
	f.DurationVar(&g.grace, "grace-period", defaultGrace,
		"time to undo and exit after SIGTERM, after which leftovers are listed; a pod's "+
			"terminationGracePeriodSeconds")
	cmd.AddCommand(a.releaseCommand(), a.holdCommand(), a.gcCommand(), a.deleteCommand(), a.pruneCommand())
	cmd.AddCommand(a.pinCommand(), a.unpinCommand(), a.lockCommand(), a.unlockCommand())
	cmd.AddCommand(a.exporterCommand(), a.doctorCommand())
	cmd.AddCommand(a.backupCommand(), a.restoreCommand(), a.resolveCommand(), a.listCommand(), a.describeCommand(),
		a.reportCommand(), a.estimateCommand(), a.versionCommand(), a.archiveCommand(), a.copyCommand(),
		a.adoptCommand(), a.drillCommand())
	cmd.AddCommand(a.runsCommand(), a.statusCommand(), a.logsCommand(), a.generateCommand())
	return cmd
}

// localFlag is the same for every command whose tables have times.
func (a *app) localFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.global.local, "local", false, "show times in the local time zone instead of UTC")
}

func (g *globalFlags) validate() error {
	if g.ebsExternalID != "" && g.ebsRole == "" {
		return errors.New("--ebs-external-id goes with --ebs-role-arn")
	}
	if g.grace < time.Second {
		return fmt.Errorf("--grace-period %s: want at least 1s", g.grace)
	}
	if (g.tls.Cert == "") != (g.tls.Key == "") {
		return fmt.Errorf("--cert and --key go together")
	}
	return nil
}

// machine reports whether a program reads the output.
func (a *app) machine() bool {
	return a.global.output == "json" || a.global.output == "yaml" || a.global.progress == ui.JSON
}
