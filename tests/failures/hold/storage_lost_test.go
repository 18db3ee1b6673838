package hold_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// TestHold_StorageLostInTheMiddle takes object storage away while the shipped program holds the cluster: the cluster is
// released all the same, though the program lives and renews its leases, and no snapshot stays. A cut that was proven
// before waits for the storage and is sealed when it is back.
func TestHold_StorageLostInTheMiddle_Releases(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]struct {
		at   fault.Rule
		how  fault.Rule
		code int
	}{
		"refuses, before the cut": {
			at:  fault.Rule{Point: "tikv.*.PrepareSnapshotBackup.WaitApply.Region"},
			how: fault.Rule{Point: "s3.*", Position: fault.Before, Code: "ServiceUnavailable", Times: -1}, code: int(exitLimited),
		},
		"does not answer, before the cut": {
			at:  fault.Rule{Point: "tikv.*.PrepareSnapshotBackup.WaitApply.Region"},
			how: fault.Rule{Point: "s3.*", Position: fault.Stall, Times: -1}, code: int(exitLimited),
		},
		"denies, in the cut": {
			at:  fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut},
			how: fault.Rule{Point: "s3.*", Position: fault.Before, Code: "AccessDenied", Times: -1}, code: int(exitDenied),
		},
		"does not answer, in the cut": {
			at:  fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut},
			how: fault.Rule{Point: "s3.*", Position: fault.Stall, Times: -1}, code: 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, 3)
			var once sync.Once
			gone := make(chan struct{})
			lost.at.Position, lost.at.Times = fault.Slow, -1
			lost.at.Do = func() {
				once.Do(func() {
					if err := p.faults.Add(lost.how); err != nil {
						t.Error(err)
					}
					close(gone)
				})
			}
			p.fault(t, lost.at)
			r := p.start(t, "--name", "a", "--lease", "15s", "--max-hold", "20s", "--hold-attempts", "1")
			select {
			case <-gone:
			case <-within(t, time.Minute).Done():
				require.Fail(t, "the program never came to "+lost.at.Point)
			}
			p.releasedWithin(t, 50*time.Second)
			p.reached(t)
			p.faults.Clear() // the rest of the run's end need not wait for its deadlines
			require.Equal(t, lost.code, r.wait(), r.output.String())
			if lost.code != 0 {
				p.leftNothing(t)
			}
		})
	}
}
