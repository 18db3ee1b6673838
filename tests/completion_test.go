package tests

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// TestCompletion_OffersWhatIsThere asks as the shell's scripts do: clusters, namespaces and contexts are those of Kubernetes, backups
// and runs those of the storage.
func TestCompletion_OffersWhatIsThere(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	e := p.run(t, "backup", prod.String(), "--name", string(firstBackup), "--storage", whole)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	run := strings.TrimPrefix(p.run(t, "runs", "list", "--storage", whole, "-o", "name").stdout, "run/")
	for name, c := range map[string]struct {
		words []string
		want  string
	}{
		"clusters of a namespace":  {[]string{"backup", "-n", "tidb", ""}, "prod"},
		"clusters of all":          {[]string{"release", "tidb/"}, "tidb/prod"},
		"namespaces":               {[]string{"backup", "-n", ""}, "tidb"},
		"contexts":                 {[]string{"backup", "--context", ""}, "testbed"},
		"backups":                  {[]string{"restore", "--storage", whole, ""}, string(firstBackup)},
		"a flag's backups":         {[]string{"resolve", "tidb/prod", "--storage", whole, "--backup", ""}, string(firstBackup)},
		"runs":                     {[]string{"logs", "--storage", whole, ""}, strings.TrimSpace(run)},
		"clusters, of several":     {[]string{"prune", "tidb/old", "tidb/"}, "tidb/prod"},
		"clusters to estimate":     {[]string{"estimate", "backup", "-n", "tidb", ""}, "prod"},
		"no cluster after another": {[]string{"backup", "tidb/prod", ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			args := slices.Concat([]string{"__complete", c.words[0]},
				[]string{"--endpoint-url", p.bed.AWS(), "--region", testbed.Region, "--kubeconfig", p.bed.Kubeconfig()}, c.words[1:])
			code := cli.Run(t.Context(), args, cli.Streams{Out: &stdout, Err: &stderr}, cli.Version{Version: "test"})
			require.Equal(t, cli.ExitDone, code, stderr.String())
			lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
			names := lines[:len(lines)-1]
			assert.Equal(t, ":4", lines[len(lines)-1], "no files are offered")
			if c.want == "" {
				assert.Empty(t, names)
				return
			}
			assert.Contains(t, names, c.want)
		})
	}
}
