package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
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
		})
	}
	each((&app{}).root())
}

func TestVersion_AlsoAsAFlag(t *testing.T) {
	t.Parallel()
	code, flag, stderr := run(t, "--version")
	require.Equal(t, ExitDone, code, stderr)
	_, command, _ := run(t, "version")
	require.True(t, strings.HasPrefix(command, strings.Replace(flag, " version", "", 1)), flag)
}
