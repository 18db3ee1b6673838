package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// Point 35: what EC2 would refuse for a while is waited for before the hold. A second backup right after another, or right
// after one that failed and deleted its snapshots, meets no refusal in its hold; EC2's clock runs as fast as the program's.
func TestSecondBackupRightAfterAnother_IsRefusedNothingInItsHold(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		first cli.ExitCode
		fault []fault.Rule
	}{
		"after a sealed one": {first: cli.ExitDone},
		"after a failed one": {first: 7, fault: []fault.Rule{{Point: "ec2.CreateSnapshots", Nth: 4, Code: "UnauthorizedOperation"}}}, // after preflight's dry run and two stores
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults := &fault.Plan{}
			p := newPlace(t, testbed.Config{Nodes: 3, Scale: 1, Faults: faults})
			_, err := p.bed.CreateCluster(t.Context(), prod, 3)
			require.NoError(t, err)
			for _, rule := range row.fault {
				require.NoError(t, faults.Add(rule))
			}
			e := p.run(t, "backup", prod.String(), "--name", "first", "--storage", whole, "--hold-attempts", "1")
			require.Equal(t, row.first, e.code, e.stderr)
			faults.Clear()
			before := p.bed.EC2.Cuts()
			require.NotEmpty(t, before)

			e = p.run(t, "backup", prod.String(), "--name", "second", "--storage", whole, "--hold-attempts", "1")
			require.Equal(t, cli.ExitDone, e.code, e.stderr)
			for _, refused := range p.bed.EC2.Refusals() {
				require.NotEqual(t, "CreateSnapshots", refused.Action, "%s in the hold\n%s", refused.Code, e.stderr)
			}
			for _, cut := range p.bed.EC2.Cuts()[len(before):] {
				for _, earlier := range before {
					if cut.Instance == earlier.Instance {
						require.GreaterOrEqual(t, cut.At.Sub(earlier.At), 15*time.Second)
					}
				}
			}
		})
	}
}
