package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// Every command's help ends with the exit codes, below how it is used.
func TestHelp_HasExitCodesBelowUsage(t *testing.T) {
	t.Parallel()
	var each func(cmd *cobra.Command)
	each = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			each(sub)
		}
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			t.Parallel()
			args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
			code, out, stderr := run(t, args...)
			require.Equal(t, ExitDone, code, stderr)
			require.Greater(t, strings.Index(out, "EXIT STATUS"), strings.Index(out, "Usage:"))
			require.Equal(t, 1, strings.Count(out, "EXIT STATUS"))
			helped, _, err := (&app{}).root().Find(args[:len(args)-1])
			require.NoError(t, err)
			_, flags, _ := strings.Cut(out, "\nFlags:\n")
			helped.Flags().VisitAll(func(f *pflag.Flag) {
				shown := len(regexp.MustCompile(`(?m)^ +(-., )?--`+f.Name+`( |$)`).FindAllString(flags, -1))
				require.Equal(t, !f.Hidden, shown == 1, "--%s is shown %d times", f.Name, shown)
			})
		})
	}
	each((&app{}).root())
}

func TestFlagGroups_NameFlagsThatExist(t *testing.T) {
	t.Parallel()
	have := map[string]bool{}
	var each func(cmd *cobra.Command)
	each = func(cmd *cobra.Command) {
		note := func(f *pflag.Flag) { have[f.Name] = true }
		cmd.LocalFlags().VisitAll(note)
		for _, sub := range cmd.Commands() {
			each(sub)
		}
	}
	each((&app{}).root())
	seen := map[string]bool{}
	for _, g := range flagGroups() {
		for _, name := range g.names {
			require.True(t, have[name], "no command has --%s of %s", name, g.title)
			require.False(t, seen[name], "--%s is in two groups", name)
			seen[name] = true
		}
	}
}

func TestVersion_AlsoAsAFlag(t *testing.T) {
	t.Parallel()
	code, flag, stderr := run(t, "--version")
	require.Equal(t, ExitDone, code, stderr)
	_, command, _ := run(t, "version")
	require.True(t, strings.HasPrefix(command, strings.Replace(flag, " version", "", 1)), flag)
}
