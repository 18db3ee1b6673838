package cli

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/lockset"
)

// What cannot be undone is done by the backup's name alone, typed on a terminal or given by a flag.
func TestConfirmFinal_OnlyByTheBackupsName(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		given, typed string
		terminal, ok bool
		text         string
	}{
		"the flag":            {"nightly-1", "", false, true, ""},
		"another flag":        {"nightly", "", false, false, `"nightly" is not its name`},
		"neither":             {"", "", false, false, "these locks cannot be removed"},
		"typed":               {"", "nightly-1\n", true, true, ""},
		"yes":                 {"", "yes\n", true, false, `"yes" is not its name`},
		"nothing":             {"", "\n", true, false, `"" is not its name`},
		"the flag is not yes": {"yes", "nightly-1\n", true, false, `"yes" is not its name`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, answer, err := os.Pipe()
			require.NoError(t, err)
			defer func() { _, _ = in.Close(), answer.Close() }()
			_, err = answer.WriteString(row.typed)
			require.NoError(t, err)
			var stderr bytes.Buffer
			a := &app{streams: Streams{In: in, Out: &bytes.Buffer{}, Err: &stderr, asTerminal: row.terminal}}
			plan := &lockset.Report{Items: []lockset.Item{{Snapshot: "snap-1", Action: lockset.ActionLock}}, Final: true}
			err = a.confirmFinal(t.Context(), row.given, lockset.Options{Backup: "nightly-1", Until: time.Now()}, plan)
			if row.ok {
				require.NoError(t, err)
				return
			}
			require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, row.text)
			if row.terminal && row.given == "" {
				require.Contains(t, stderr.String(), "snap-1")
				require.Contains(t, stderr.String(), "even by AWS. Type the backup's name: ")
			}
		})
	}
}

// A set is as weak as its weakest lock, in whatever order EC2 lists them.
func TestDescribe_LocksThatDiffer_ShowTheWeakest(t *testing.T) {
	t.Parallel()
	day := func(n int) time.Time { return time.Date(2026, 12, n, 0, 0, 0, 0, time.UTC) }
	text := func(n int) string { return view{}.text(day(n)) }
	final := lockset.Item{Mode: ebs.LockCompliance, ExpiresAt: day(20)}
	cooling := lockset.Item{Mode: ebs.LockCoolingOff, ExpiresAt: day(21), CooledOffAt: day(3)}
	later := lockset.Item{Mode: ebs.LockCoolingOff, ExpiresAt: day(21), CooledOffAt: day(4)}
	weak := lockset.Item{Mode: ebs.LockGovernance, ExpiresAt: day(22)}
	for want, locks := range map[string][]lockset.Item{
		"1 of 1 snapshots, compliance until " + text(20):                       {final},
		"2 of 2 snapshots, compliance after " + text(3) + " until " + text(20): {final, cooling},
		"3 of 3 snapshots, compliance after " + text(4) + " until " + text(20): {cooling, later, final},
		"3 of 3 snapshots, governance until " + text(20):                       {weak, final, cooling},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			for range locks {
				require.Equal(t, want, (&ec2Facts{Locks: locks}).locked(view{}, len(locks)))
				locks = append(locks[1:len(locks):len(locks)], locks[0])
			}
		})
	}
}
