package restore_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/journal/journaltest"
	"github.com/tisnap/tisnap/pkg/restore"
)

// free are the options that a restore and a resolve may be resumed with another value of.
func free() map[string]string {
	const (
		itself   = "the run's journal is found by it, or compared with it"
		patience = "it is how long something is waited for: another process may have another patience"
		same     = "the data are the same either way"
	)
	return map[string]string{
		"Backup": itself, "Target": itself, "Run": itself, "Kubernetes": itself,
		"Manifest":  "it is the backup, read by the caller",
		"VerifyKey": "each process verifies the backup by its own key before it changes anything",
		"Owner":     "it is the process",
		"Tool":      "a newer version may end what an older one began",
		"Scope":     "only Prepare has it, which no resume compares",
		"Account":   "each process checks it against its credentials before it changes anything",
		"Timeout":   patience, "Visibility": patience, "LockWait": patience, "AliveWait": patience,
		"Now":            "it is a clock",
		"Chosen":         "the backup that it has led to is compared",
		"KeepOnFailure":  "it is in the journal beside the request: once given, it holds for all processes of the run",
		"Tags":           "only a drill has them, which starts from scratch with another run",
		"Serial":         same,
		"WaitApply":      same,
		"Flashback":      same,
		"CheckUnchanged": "it only checks",
		"TiFlash":        "TiFlash stores are refused before anything is changed, and else reported",
		"OnTasks":        "tasks are looked for by each process, and the answer is about those that run then",
		"BreakLock":      "it is about the lock, which each process takes itself",
	}
}

func TestRequest_EveryOption_IsComparedOrNeedNotBe(t *testing.T) {
	t.Parallel()
	require.Empty(t, journaltest.CheckRequest((*restore.Options).Request, free(), map[string]any{
		"FromArchive": map[string]string{"from-archive": "b-1"},
	}))
}

func TestResolveRequest_EveryOption_IsComparedOrNeedNotBe(t *testing.T) {
	t.Parallel()
	const volumes = "a resolve makes no volumes and no cluster"
	listed := free()
	maps.Copy(listed, map[string]string{
		"Volume": volumes, "Zone": volumes, "Zones": volumes, "KMSKey": volumes, "Encrypt": volumes, "KeepTags": volumes, "InitializationMiB": volumes,
		"FastRestore": volumes, "After": volumes, "KeepServiceSettings": volumes, "Changes": volumes, "Operator": volumes,
		"FromArchive": "the caller reads the manifest, whose id is compared",
	})
	require.Empty(t, journaltest.CheckRequest((*restore.Options).ResolveRequest, listed, nil))
}
