package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is that of the flags' descriptions in help.
const helpWidth = 100

// flagGroup is a section of the flags in help.
type flagGroup struct {
	title string
	names []string
}

// flagGroups are the sections, in order. A flag of none is under "Flags", or under "Global flags" if all commands have
// it.
func flagGroups() []flagGroup {
	words := func(title, names string) flagGroup { return flagGroup{title, strings.Fields(names)} }
	return []flagGroup{
		words("Hold", `consistent-now consistent-timeout early-apply hold-attempts import-timeout
			lease marks max-hold max-lag
			on-import steady steady-timeout`),
		words("Snapshot", "keep-tags pending-quota pending-timeout stuck"),
		words("Volume", `after-restore-iops after-restore-throughput after-restore-type fsr initialization-rate kms-key
			volume-iops volume-size volume-throughput volume-type`),
		words("Target",
			"account az-map from-manifest keep-service-settings operator patch print-manifest target-az to"),
		words("Data", "check-unchanged flashback on-tasks pd-state serial tiflash tolerate-store wait-apply"),
		words("Retention", `keep-daily keep-hourly keep-last keep-monthly keep-tag keep-weekly keep-within
			keep-yearly`),
		words("Signature", "sign-key verify-key"),
		words("Repository", `from-archive repo repo-endpoint-url repo-id repo-identity repo-passphrase-file repo-profile
			repo-region`),
		words("Run", "dry-run grace-period keep-on-failure lock-wait run-id timeout wait"),
		words("Announcement", "metrics-file metrics-push notify"),
		words("TiDB cluster", "address-map ca cert key namespace pd resolve via"),
		words("Kubernetes", "as context kubeconfig"),
		words("AWS", "ebs-external-id ebs-role-arn endpoint-url profile region"),
		words("Output", "log-file log-format log-level output progress"),
	}
}

// usageText is how a command is used: its flags by topic, and the exit codes last.
func usageText(cmd *cobra.Command) string {
	var b strings.Builder
	b.WriteString("Usage:")
	if cmd.Runnable() {
		b.WriteString("\n  " + cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\n  " + cmd.CommandPath() + " [command]")
	}
	b.WriteString("\n")
	if cmd.HasExample() {
		b.WriteString("\nExamples:\n" + cmd.Example + "\n")
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nAvailable Commands:\n")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				fmt.Fprintf(&b, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	b.WriteString(flagUsages(cmd) + exitStatus())
	return b.String()
}

// flagUsages is the flags' part of a command's help, by topic.
func flagUsages(cmd *cobra.Command) string {
	var b strings.Builder
	section := func(title string, has func(*pflag.Flag) bool) {
		set := pflag.NewFlagSet(title, pflag.ContinueOnError)
		for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
			flags.VisitAll(func(f *pflag.Flag) {
				if has(f) {
					set.AddFlag(f)
				}
			})
		}
		if set.HasAvailableFlags() {
			b.WriteString("\n" + title + ":\n" + strings.TrimRight(set.FlagUsagesWrapped(helpWidth), "\n") + "\n")
		}
	}
	grouped := func(f *pflag.Flag) bool {
		return slices.ContainsFunc(flagGroups(), func(g flagGroup) bool { return slices.Contains(g.names, f.Name) })
	}
	section("Flags", func(f *pflag.Flag) bool { return !grouped(f) })
	for _, g := range flagGroups() {
		section(g.title+" flags", func(f *pflag.Flag) bool { return slices.Contains(g.names, f.Name) })
	}
	return b.String()
}
