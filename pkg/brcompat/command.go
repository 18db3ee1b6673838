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
on the command line of a person, tisnap itself does the same and more.`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              a.noCommand,
		PersistentPreRunE: a.prepare,
	}
	// Not cobra's own: its template for the version makes the linker keep every method of the EC2 client.
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
		parent(cmd, "operator", "What TiDB Operator runs beside a backup", a.pauseCommand(),
			"base64ify", "list-migrations", "migrate-to", "force-flush", "checksum-as", "check-storage"),
	)
	for _, name := range []string{"log", "stream", "debug", "validate", "abort"} {
		cmd.AddCommand(unsupported(name))
	}
	return cmd
}

// parent is a command that only has others below it: one that is supported, and br's other ones, which are refused.
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

// unsupported is a command of br that this one refuses, whatever its flags are.
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

// noCommand refuses a word that is no command of br either.
func (a *app) noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return failure.New(failure.Usage, "", "", "unknown command %q", cmd.CommandPath()+" "+args[0]).
		WithHint("see: br --help")
}

// prepare opens the log and settles what the flags say, before any command runs.
func (a *app) prepare(cmd *cobra.Command, _ []string) error {
	if cmd.HasSubCommands() {
		return nil // it shows help, or the version
	}
	if err := checkFlags(cmd); err != nil {
		return err
	}
	log, err := openLog(&a.common, a.streams)
	if err != nil {
		return err
	}
	a.log = log
	a.said.Store(log)
	a.sayAside()
	if names := ignoredFlags(cmd); len(names) > 0 {
		a.log.Sugar().Warnf("flags that make no difference to a volume snapshot are ignored: --%s",
			strings.Join(names, ", --"))
	}
	return nil
}

// boolFlags are the boolean flags of a command and of those below it, as they are written.
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

// required refuses a flag that was left empty.
func required(flag, value string) error {
	if value != "" {
		return nil
	}
	return failure.New(failure.Usage, "", "", "--%s is missing", flag)
}

// wantType refuses another full backup type than EBS snapshots, which is all there is here.
func wantType(value string) error {
	if value == typeEBS {
		return nil
	}
	return failure.New(failure.Usage, "", "", "--type=%s is not supported: this br is tisnap, for --type=%s only",
		value, typeEBS).
		WithHint("%s", fmt.Sprintf("give --type=%s, or use PingCAP's br", typeEBS))
}

// typeEBS is br's name of a backup by EBS snapshots.
const typeEBS = "aws-ebs"
