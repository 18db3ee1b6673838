package brcompat

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tisnap/tisnap/pkg/failure"
)

func (a *app) root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "br",
		Short: "Volume-snapshot backups and restores of TiDB, with br's command line",
		Long: `Volume-snapshot backups and restores of TiDB, with br's command line.

This is tisnap, called as br: set toolImage of a Backup, Restore, VolumeBackup or VolumeRestore
to its image, and TiDB Operator's jobs run it. It does what those jobs ask of br and nothing else;
on the command line, use tisnap itself, which does the same and more.`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              a.noCommand,
		PersistentPreRunE: a.prepare,
	}
	// Not cobra's own: its version template makes the linker keep every method of the EC2 client.
	version := cmd.Flags().BoolP("version", "V", false, "display the version")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !*version {
			return cmd.Help()
		}
		_, err := fmt.Fprint(a.streams.Out, a.version)
		return err
	}
	a.common.define(cmd.PersistentFlags())
	cmd.AddCommand(
		parent(cmd, "backup", "Back up a cluster", a.backupCommand(), "db", "table", "raw", "txn"),
		parent(cmd, "restore", "Restore a cluster", a.restoreCommand(), "db", "table", "raw", "txn", "point"),
		parent(cmd, "operator", "Commands that TiDB Operator runs alongside a backup", a.pauseCommand(),
			"base64ify", "list-migrations", "migrate-to", "force-flush", "checksum-as", "check-storage"),
	)
	for _, name := range []string{"log", "stream", "debug", "validate", "abort"} {
		cmd.AddCommand(unsupported(name))
	}
	return cmd
}

// parent is a command with subcommands only: the supported one, and br's others, which are refused.
func parent(root *cobra.Command, name, short string, child *cobra.Command, others ...string) *cobra.Command {
	cmd := &cobra.Command{
		Use: name, Short: short, Args: root.Args,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(child)
	for _, other := range others {
		cmd.AddCommand(unsupported(other))
	}
	return cmd
}

// unsupported is a br command that is refused, whatever its flags.
func unsupported(name string) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, DisableFlagParsing: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return refuseCommand(cmd.CommandPath()) },
		RunE:              func(cmd *cobra.Command, _ []string) error { return refuseCommand(cmd.CommandPath()) },
	}
}

func refuseCommand(path string) error {
	return failure.New(failure.Usage, "", "", "%q is not supported: this br is tisnap, for volume snapshots only",
		path).
		WithHint("use PingCAP's br for it; see: br --help")
}

// noCommand refuses a word that is not a br command either.
func (a *app) noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return failure.New(failure.Usage, "", "", "unknown command %q", cmd.CommandPath()+" "+args[0]).
		WithHint("see: br --help")
}

// prepare opens the log and validates the flags before any command runs.
func (a *app) prepare(cmd *cobra.Command, _ []string) error {
	if cmd.HasSubCommands() {
		return nil // shows help or the version
	}
	if err := checkFlags(cmd); err != nil {
		return err
	}
	if a.common.EBSExternalID != "" && a.common.EBSRole == "" {
		return failure.New(failure.Usage, "read --ebs-external-id", "", "it goes with --ebs-role-arn")
	}
	log, err := openLog(&a.common, a.streams)
	if err != nil {
		return err
	}
	a.log = log
	a.signalLog.Store(log)
	a.logAside()
	if names := ignoredFlags(cmd); len(names) > 0 {
		a.log.Sugar().Warnf("ignoring flags that do not affect a volume snapshot: --%s",
			strings.Join(names, ", --"))
	}
	return nil
}

// boolFlags returns the boolean flags of a command and its subcommands, as written on the command line.
func boolFlags(cmd *cobra.Command) map[string]bool {
	names := map[string]bool{}
	add := func(f *pflag.Flag) {
		if f.Value.Type() == "bool" {
			names["--"+f.Name] = true
			if f.Shorthand != "" {
				names["-"+f.Shorthand] = true
			}
		}
	}
	cmd.PersistentFlags().VisitAll(add)
	cmd.Flags().VisitAll(add)
	for _, child := range cmd.Commands() {
		for name := range boolFlags(child) {
			names[name] = true
		}
	}
	return names
}

// required refuses an empty flag.
func required(flag, value string) error {
	if value != "" {
		return nil
	}
	return failure.New(failure.Usage, "", "", "--%s is missing", flag)
}

// wantType refuses any full backup type but EBS snapshots.
func wantType(value string) error {
	if value == typeEBS {
		return nil
	}
	return failure.New(failure.Usage, "", "", "--type=%s is not supported: this br is tisnap, for --type=%s only",
		value, typeEBS).
		WithHint("%s", fmt.Sprintf("use --type=%s, or PingCAP's br", typeEBS))
}

// typeEBS is br's name for a backup by EBS snapshots.
const typeEBS = "aws-ebs"
