package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/restore"
)

// What the user chooses for the restored cluster is what a drill restores, as the smallest one.
func TestDrillFlags_OfTheRestore_AreItsOptions(t *testing.T) {
	t.Parallel()
	patch := filepath.Join(t.TempDir(), "patch.yaml")
	require.NoError(t, os.WriteFile(patch, []byte("spec: {}"), 0o600))
	for _, operator := range []string{"", "1", "2"} {
		t.Run(operator, func(t *testing.T) {
			t.Parallel()
			f := drillFlags{target: targetFlags{operator: operator, patches: []string{patch}}}
			var opts restore.Options
			require.NoError(t, f.into(&cobra.Command{}, &opts))
			require.Equal(t, operator, opts.Operator)
			require.True(t, opts.Changes.Smallest)
			require.Len(t, opts.Changes.Patches, 1)
		})
	}
	f := drillFlags{target: targetFlags{operator: "3"}}
	require.Equal(t, failure.Usage, failure.KindOf(f.into(&cobra.Command{}, &restore.Options{})))
}
