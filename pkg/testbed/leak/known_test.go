package leak

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// What a run made is known by its journal alone as long as nothing is sealed: a volume of a run without one has been leaked.
func TestKnown_VolumeOfARunWithoutAJournal_IsNamed(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		tags  ebs.Tags
		wrong string
	}{
		"of a run with a journal": {tags: ebs.Tags{ebs.TagRun: "r-1"}},
		"of a run without one":    {tags: ebs.Tags{ebs.TagRun: "r-2"}, wrong: `of run "r-2", which has no journal`},
		"of no run":               {tags: ebs.Tags{"Name": "boot"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ec2 := ebstest.New(ebstest.Config{Clock: timescale.New(1), Rules: ebstest.QuickRules(), Seed: 1})
			t.Cleanup(ec2.Close)
			store := objstoretest.NewMemory(nil)
			about, err := json.Marshal(journal.About{Operation: journal.Restore, Cluster: cluster.Name{Namespace: "tidb", Name: "copy"}, Backup: "b", Tool: "test"})
			require.NoError(t, err)
			first := phase.Record{Seq: 1, Run: "r-1", Time: time.Now(), Type: phase.RecordRun, Data: about}
			require.NoError(t, journal.NewStoreJournal(store, manifest.JournalPrefix("r-1")).Append(t.Context(), first))
			id, err := ec2.CreateVolumeDirect(testbed.Region+"a", cluster.VolumeSpec{Type: "gp3", SizeGiB: 1}, row.tags)
			require.NoError(t, err)
			err = Known(t.Context(), ec2, store)
			if row.wrong == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "volume "+string(id)+" is "+row.wrong)
		})
	}
}
