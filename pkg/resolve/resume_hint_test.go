package resolve_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// A restore that fails is undone as a rule: then there is nothing to resolve.
func TestHint_ResolveIsNamedOnlyIfTheClusterIsKept(t *testing.T) {
	t.Parallel()
	o := makeOriginal(t)
	for name, row := range map[string]struct {
		kept bool
		want string
	}{
		"it is kept":   {true, "tisnap resolve tidb/copy --backup nightly"},
		"it is undone": {false, "restore again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := restoreLab(t, o, 1)
			require.NoError(t, l.faults.Add(fault.Rule{Point: "tikv.*.RecoverRegion", Position: fault.Stall, Times: -1}))
			cfg := l.config(o, "run")
			cfg.Kept, cfg.Backup, cfg.Stall = row.kept, "nightly", time.Second
			_, err := l.run(t, cfg, nil)
			require.Equal(t, failure.Limited, failure.KindOf(err))
			hint := failure.HintOf(err)
			require.Contains(t, hint, row.want)
			if !row.kept {
				require.NotContains(t, hint, "tisnap resolve")
			}
		})
	}
}
