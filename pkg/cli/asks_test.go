package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/exporter/exportertest"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
)

// All commands that delete ask alike: on a terminal they show what would go and ask, elsewhere they need --yes.
func TestCommandsThatDelete_AskAlike(t *testing.T) {
	ec2 := ebstest.New(ebstest.Config{})
	require.NoError(t, ec2.Start())
	t.Cleanup(ec2.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": ec2.URL(), "AWS_REGION": "us-west-2", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s",
	} {
		t.Setenv(name, value)
	}
	url := filledIn(t, func(s *exportertest.Storage, store objstore.Store) {
		prod := cluster.Name{Namespace: "tidb", Name: "prod"}
		s.Sealed("nightly-1", prod, "r1", time.Now().Add(-time.Hour))
		s.Sealed("nightly-2", prod, "r2", time.Now())
		appendRecord(t, store, phase.Record{Seq: 1, Type: phase.RecordRun, Data: []byte(
			`{"operation":"restore","cluster":{"namespace":"tidb","name":"copy"},"backup":"b","tool":"v"}`)})
		// an abort was killed between the end of its run and the end of its name
		j := journal.NewStoreJournal(store, manifest.JournalPrefix("aborted"))
		for i, r := range []phase.Record{{Type: phase.RecordRun, Data: []byte(
			`{"operation":"backup","cluster":{"namespace":"tidb","name":"prod"},"backup":"named","tool":"v"}`)}, {Type: phase.RecordEnd}} {
			r.Seq, r.Run, r.Time = i+1, "aborted", time.Now()
			require.NoError(t, j.Append(t.Context(), r))
		}
		require.NoError(t, catalog.Catalog{Store: store}.Claim(t.Context(),
			catalog.Claim{ID: "named", Run: "aborted", Cluster: prod, ClaimedAt: time.Now()}))
		pin, err := manifest.PinRecord{Backup: "nightly-2", Run: "r2", Pin: manifest.Pin{Reason: "audit"}}.Encode()
		require.NoError(t, err)
		_, err = store.Create(t.Context(), manifest.PinKey("nightly-2"), pin)
		require.NoError(t, err)
	})
	for name, row := range map[string]struct {
		args        []string
		shown, asks string
	}{
		"delete":           {[]string{"delete", "nightly-1", "--last"}, "would be deleted", "delete backup nightly-1?"},
		"prune":            {[]string{"prune", "--keep-last", "1"}, "nightly-1", "delete these backups?"},
		"gc":               {[]string{"gc"}, "would be deleted", "delete what runs left?"},
		"unpin":            {[]string{"unpin", "nightly-2"}, "would be unpinned", "unpin backup nightly-2?"},
		"restore abort":    {[]string{"restore", "abort", "r"}, "would be deleted", "abort restore r?"},
		"runs abort":       {[]string{"runs", "abort", "r"}, "would be deleted", "abort restore r?"},
		"name of an abort": {[]string{"runs", "abort", "aborted"}, "named", "free the name named, which aborted run aborted had?"},
	} {
		t.Run(name, func(t *testing.T) {
			in, answer, err := os.Pipe()
			require.NoError(t, err)
			defer func() { _, _ = in.Close(), answer.Close() }()
			_, err = answer.WriteString("n\n")
			require.NoError(t, err)
			for _, terminal := range []bool{false, true} {
				var out, stderr bytes.Buffer
				code := Run(t.Context(), append(row.args, "--storage", url),
					Streams{In: in, Out: &out, Err: &stderr, asTerminal: terminal}, Version{})
				require.Equal(t, ExitCode(2), code, stderr.String())
				require.Empty(t, out.String(), "nothing is done")
				if !terminal {
					require.Contains(t, stderr.String(), "pass --yes")
					require.NotContains(t, stderr.String(), "[y/N]")
					continue
				}
				require.Contains(t, stderr.String(), row.shown)
				require.Equal(t, 1, strings.Count(stderr.String(), row.asks+" [y/N] "), stderr.String())
				require.Contains(t, stderr.String(), "nothing was changed")
			}
		})
	}
}
