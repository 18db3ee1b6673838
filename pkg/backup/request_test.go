package backup_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/journal/journaltest"
	"github.com/tisnap/tisnap/pkg/manifest/manifesttest"
)

func TestRequest_EveryOption_IsComparedOrNeedNotBe(t *testing.T) {
	t.Parallel()
	const (
		itself   = "the run's journal is found by it, or compared with it"
		patience = "it is how long something is waited for: another process may have another patience"
		attempts = "it bounds a hold, of which each process takes its own; what an earlier one cut was proven under its own"
	)
	require.Empty(t, journaltest.CheckRequest((*backup.Options).Request, map[string]string{
		"Cluster": itself, "Backup": itself, "Run": itself,
		"Owner":    "it is the process",
		"Tool":     "a newer version may end what an older one began",
		"LockWait": patience, "MaxLag": patience, "SteadyTimeout": patience, "ConsistentTimeout": patience, "ImportTimeout": patience,
		"PendingTimeout": patience, "MarksTimeout": patience, "Stuck": patience, "Timeout": patience, "Visibility": patience,
		"MaxHold": attempts, "Lease": attempts, "HoldAttempts": attempts, "Steady": attempts,
		"OtherHolds":   "it is how br is started, and each of its processes proves the other's hold itself",
		"PendingQuota": "it is a fact of the account, as the user knows it",
		"OnImport":     "imports are looked for before each hold, and the answer is about those that run then",
		"Marks":        "marks only make a restore faster, and those of a cut that was proven are in its manifest",
	}, map[string]any{
		"SignKey": manifesttest.SigningKey(t), "ClusterMeta": json.RawMessage("{}"),
	}))
}
