package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/ui"
)

// The process in the background waits, whatever made this one not wait, and a value of a flag stays one.
func TestBackgroundArgs_TheOtherProcessWaits(t *testing.T) {
	t.Setenv("TISNAP_WAIT", "false")
	for name, args := range map[string][]string{
		"a flag":             {"backup", "prod", "--wait=false", "--tag", "x"},
		"an abbreviation":    {"backup", "--wait=f", "prod", "--tag", "x"},
		"the environment":    {"backup", "prod", "--tag", "x"},
		"an argument at end": {"backup", "--wait=0", "--tag", "x", "--", "prod"},
		"a run of its own":   {"backup", "prod", "--run-id", "other", "--progress", "json", "--tag=x"},
	} {
		t.Run(name, func(t *testing.T) {
			parse := func(args []string) (*app, *pflag.FlagSet) {
				a := new(app)
				cmd, rest, err := a.root().Find(args)
				require.NoError(t, err)
				require.NoError(t, cmd.ParseFlags(rest))
				require.NoError(t, fromEnv(cmd))
				return a, cmd.Flags()
			}
			before, flags := parse(args)
			if name != "a run of its own" {
				require.False(t, before.wait)
			}
			after, flags := parse(backgroundArgs(args, flags, "r1"))
			require.True(t, after.wait)
			require.Equal(t, "r1", flags.Lookup("run-id").Value.String())
			require.Equal(t, ui.Plain, after.global.progress)
			require.Equal(t, "[x]", flags.Lookup("tag").Value.String())
			require.Equal(t, []string{"prod"}, flags.Args())
		})
	}
}

// The other process does not have this one's standard input.
func TestRestore_InTheBackground_TakesNoStandardInput(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--patch", "--from-manifest"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			code := Run(t.Context(), []string{"restore", "b", "--to", "x", "--wait=false", flag, "-"}, Streams{In: strings.NewReader("{}"), Out: &out, Err: &out}, Version{})
			require.Equal(t, exitCodeOf(failure.Usage), code, out.String())
			require.Contains(t, out.String(), "standard input ends with this process")
		})
	}
}

func TestEndedEarly_SuccessIsNoError(t *testing.T) {
	t.Parallel()
	require.NoError(t, endedEarly("r1", nil))
	require.Equal(t, failure.Unknown, failure.KindOf(endedEarly("r1", assert.AnError)))
}

// The other process restores the backup that this one printed: it must not choose again.
func TestBackgroundArgs_LatestStaysTheSame(t *testing.T) {
	t.Parallel()
	parse := func(args []string) (*app, *cobra.Command) {
		a := new(app)
		cmd, rest, err := a.root().Find(args)
		require.NoError(t, err)
		require.NoError(t, cmd.ParseFlags(rest))
		return a, cmd
	}
	args := []string{"restore", "latest", "--to", "copy", "--of", "prod", "--wait=false"}
	_, cmd := parse(args)
	require.NoError(t, cmd.Flags().Set(latestIs, "b1"))
	other, cmd := parse(backgroundArgs(args, cmd.Flags(), "r1"))
	id, err := other.backupID(cmd, latestFlags{of: "prod"}, cmd.Flags().Arg(0))
	require.NoError(t, err)
	require.Equal(t, cluster.BackupID("b1"), id)
}
