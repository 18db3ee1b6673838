package backup_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// One refusal by PD or by the API server that is gone a moment later does not end a backup before it has begun.
func TestPreflight_OneTransientAnswer_IsTriedAgain(t *testing.T) { //nolint:tparallel // one cluster
	t.Parallel()
	r := newRig(t)
	for _, rule := range []fault.Rule{
		{Point: "pd.*", Nth: 1, Code: "500"},
		{Point: "pd.*", Nth: 4, Code: "etcdserver: leader changed"},
		{Point: "pd.*", Nth: 7, Code: "500"},
		{Point: "kube.*", Nth: 1, Code: "ServiceUnavailable"},
		{Point: "kube.*", Nth: 3, Code: "ServiceUnavailable"},
		{Point: "ec2.DescribeVolumes", Nth: 1, Code: "InternalError"},
	} {
		t.Run(fmt.Sprintf("%s %d %s", rule.Point, rule.Nth, rule.Code), func(t *testing.T) {
			r.fault(t, rule)
			_, err := backup.Plan(t.Context(), r.deps, r.options())
			require.NoError(t, err)
			require.Empty(t, r.faults.Unreached())
		})
	}
}

// What waiting does not fix in a preflight ends it at once, whatever its kind: a quota, above all.
func TestPreflight_Quota_IsNotTriedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := r.options()
	o.PendingQuota = 5 // of 6 volumes
	_, err := backup.Plan(t.Context(), r.deps, o)
	require.Equal(t, failure.Limited, failure.KindOf(err))
	require.ErrorContains(t, err, "EC2 allows 5")
	for _, text := range r.events.texts() {
		require.NotContains(t, text, "trying again")
	}
}

// Two runs of one name that begin at the same moment: the second finds the name taken before it comes to the lock, and still
// reports who holds it and until when.
func TestPreflight_NameTakenByARunThatIsAlive_NamesIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := r.options()
	require.NoError(t, catalog.Catalog{Store: r.store}.Claim(t.Context(), catalog.Claim{ID: o.Backup, Run: "first", Cluster: o.Cluster}))
	_, err := backup.Plan(t.Context(), r.deps, o)
	require.Equal(t, failure.Conflict, failure.KindOf(err))
	require.NotContains(t, err.Error(), "held by")
	_, err = runlock.Acquire(t.Context(), r.store, o.Cluster, runlock.Owner{Run: "first", Host: "h", PID: 7, Command: "backup"}, time.Minute)
	require.NoError(t, err)
	_, err = backup.Plan(t.Context(), r.deps, o)
	require.Equal(t, failure.Conflict, failure.KindOf(err))
	require.ErrorContains(t, err, "a backup of this name exists")
	require.Regexp(t, `held by run first \(backup, pid 7 on host h\) since \d{4}-.+Z, renewed last at \d{4}-.+Z`, err.Error())
}
