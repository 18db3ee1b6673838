package command

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the testbed cannot do is refused before anything is started.
func TestFlags_ThatMeanNothing_AreRefused(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		args []string
		want string
	}{
		"an Operator that there is not":        {[]string{"serve", "--operator", "3"}, "must be 1 or 2"},
		"an Operator that no real plane has":   {[]string{"demo", "--operator", "2", "--control-plane", "x"}, "TiDB Operator 1.x alone"},
		"what cannot follow a kill":            {[]string{"crash", "--then", "undo"}, "--then"},
		"a position that a step does not have": {[]string{"crash", "--at", "never"}, "--at"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := root()
			cmd.SetArgs(row.args)
			cmd.SetErr(io.Discard)
			cmd.SetOut(io.Discard)
			require.ErrorContains(t, cmd.ExecuteContext(t.Context()), row.want)
		})
	}
}
