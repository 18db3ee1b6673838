package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/reach"
)

func TestChoice_TakesItsWordsAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want reach.Via
		err  string
	}{
		"not given": {nil, reach.Auto, ""},
		"a word":    {[]string{"--via=direct"}, reach.Direct, ""},
		"any case":  {[]string{"--via=DIRECT"}, reach.Direct, ""},
		"empty":     {[]string{"--via=direct", "--via="}, reach.Auto, ""},
		"another":   {[]string{"--via", "tunnel"}, reach.Auto, `invalid argument "tunnel" for "--via" flag: want one of auto, direct, port-forward`},
		"in part":   {[]string{"--via", "dir"}, reach.Auto, "want one of"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var via reach.Via
			cmd := &cobra.Command{}
			choose(cmd, cmd.Flags(), &via, "via", reach.Ways(), "the way")
			require.Contains(t, cmd.UsageString(), `--via string   the way: auto|direct|port-forward (default "auto")`)
			err := cmd.ParseFlags(c.args)
			require.Equal(t, c.want, via)
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.err)
		})
	}
}

// Each of these flags takes its words and completes them, from the command line and from the environment.
func TestChoice_OfTheCommands(t *testing.T) {
	for _, c := range [][]string{
		{"backup", "on-import", "refuse", "wait", "pause"},
		{"backup", "tiflash", "report", "refuse"},
		{"backup", "marks", "auto", "off"},
		{"backup", "early-apply", "prevent", "ignore", "require"},
		{"restore", "tiflash", "report", "refuse"},
		{"restore", "on-tasks", "report", "pause", "refuse"},
		{"resolve", "flashback", "auto", "all"},
		{"resolve", "pd-state", "restore", "skip"},
		{"report", "format", "table", "json", "markdown", "html"},
		{"list", "via", "auto", "direct", "port-forward"},
		{"list", "progress", "auto", "tty", "plain", "json", "none"},
		{"list", "log-format", "text", "json"},
		{"list", "log-level", "warn", "debug", "info", "error"},
		{"restore", "volume-type", "", "gp3", "io1", "io2"},
		{"restore", "after-restore-type", "", "gp3", "io1", "io2"},
		{"estimate", "volume-type", "", "gp3", "io1", "io2"},
		{"gc", "adopt-storage", "", "moved", "copied"},
	} {
		command, flag, words := c[0], c[1], c[2:]
		t.Run(command+" "+flag, func(t *testing.T) {
			found, _, err := new(app).root().Find([]string{command})
			require.NoError(t, err)
			for _, word := range words {
				require.NoError(t, found.ParseFlags([]string{"--" + flag, word}))
				require.Equal(t, word, found.Flag(flag).Value.String())
			}
			require.Equal(t, words[0], found.Flag(flag).DefValue)
			require.Error(t, found.ParseFlags([]string{"--" + flag, "fancy"}))

			var offered, stderr bytes.Buffer
			ask := []string{cobra.ShellCompNoDescRequestCmd, command, "--" + flag, ""}
			require.Equal(t, ExitDone, Run(t.Context(), ask, Streams{Out: &offered, Err: &stderr}, Version{}))
			want := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "" })
			require.Equal(t, append(want, ":4"), strings.Fields(offered.String()))
			require.Equal(t, ExitCode(2), Run(t.Context(), []string{command, "--" + flag, "fancy"}, Streams{Out: &stderr, Err: &stderr}, Version{}))
			t.Setenv(envName(flag), "fancy")
			require.Equal(t, ExitCode(2), Run(t.Context(), []string{command, "x"}, Streams{Out: &stderr, Err: &stderr}, Version{}))
			require.Contains(t, stderr.String(), `for "--`+flag+`" flag: want one of `)
		})
	}
}
