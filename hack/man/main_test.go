package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
)

func TestWrite_EveryCommandHasAPage(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "man")
	require.NoError(t, write(folder))
	want := []string{}
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		want = append(want, name)
		body, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		page := strings.ReplaceAll(string(body), `\-`, "-")
		assert.Contains(t, page, cmd.Short)
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				assert.Contains(t, page, "--"+f.Name, name)
			}
		})
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				check(c)
			}
		}
	}
	check(cli.Command())
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	got := []string{}
	for _, f := range files {
		got = append(got, f.Name())
	}
	assert.ElementsMatch(t, want, got)
	assert.Contains(t, got, "tisnap-runs-abort.1")
}
