package tests

import (
	"encoding/json"
	"net"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// estimated is the part of an estimate's JSON that is compared.
type estimated struct {
	Estimates []*estimate.Estimate
	Choices   []estimate.Choice
}

// The time that a run announces at its start follows from its own volumes and flags, is journalled, and is what its report
// compares with; `estimate` and a dry run give the same before. The restore is one trace, down to the calls.
func TestExpected_IsAnnouncedJournalledAndReported(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{Nodes: 6, Scale: 20})
	c := newTraces(t, p)
	p.env = append(p.env, "XDG_CACHE_HOME="+t.TempDir())
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)

	e, first := p.reported(t, "backup", prod.String(), "--name", "first", "--storage", whole, "-o", "json")
	require.Nil(t, first.Expected, "the amount of data is unknown")
	require.NotContains(t, e.stderr, "expected duration: ")
	source := first.VolumeSettings
	require.NotNil(t, source)
	require.NotZero(t, source.SizeGiB)

	e, second := p.reported(t, "backup", prod.String(), "--name", "second", "--storage", whole, "-o", "json")
	require.Contains(t, e.stderr, "expected duration: ")
	p.sameAsJournalled(t, second)

	var doc estimated
	e = p.run(t, "estimate", "restore", "second", "--storage", whole, "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &doc), e.stderr)
	in := doc.Estimates[0].Input
	require.Equal(t, cluster.VolumeSpec{Type: source.Type, SizeGiB: source.SizeGiB, IOPS: source.IOPS, ThroughputMiB: source.ThroughputMiB}, in.Spec, "as the backup's volumes were")
	require.Equal(t, second.DataBytes, in.DataBytes)
	require.Equal(t, second.Volumes, in.Volumes)
	require.Positive(t, in.MarkedShare, "the backup has marks")

	flags := []string{"second", "--to", "tidb/copy", "--storage", whole, "--volume-type", "gp3", "--volume-iops", "7000", "--volume-throughput", "400"}
	e = p.refused(t, append([]string{"restore", "--dry-run"}, flags...)...)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Regexp(t, `would restore backup second to tidb/copy(.|\n)*\nrestore of 3 stores, (.|\n)*\nvolumes: gp3 [0-9]+ GiB, 7000 iops, 400 MiB/s; times from the published tables\n`+
		`\n *PHASE(.|\n)*start TiKV(.|\n)* of the regions have marks: resolve data takes (.|\n)*BILLED-BY-AWS(.|\n)*the same restore on other volumes:\n(.|\n)*gp3 7000/400, FSR[^\n]*\n[^\n]*300 MiB/s[^\n]*\n$`, e.stdout)
	var plan struct{ Estimate estimated }
	e = p.refused(t, append([]string{"restore", "--dry-run", "-o", "json"}, flags...)...)
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &plan), e.stderr)
	require.Len(t, plan.Estimate.Estimates, 1)
	require.InDelta(t, in.MarkedShare, plan.Estimate.Estimates[0].Input.MarkedShare, 1e-9)

	c.forget()
	e, restored := p.reported(t, append([]string{"restore", "-o", "json", "--notify", "http://" + closed(t) + "/secret-token", "--flashback", "all"}, flags...)...)
	require.Contains(t, e.stderr, "send notification of receiver 127.0.0.1:")
	require.NotContains(t, e.stderr, "secret-token")
	require.Contains(t, e.stderr, "expected duration: ")
	p.sameAsJournalled(t, restored)
	assert.InDelta(t, plan.Estimate.Estimates[0].Total.Seconds, restored.Expected.Seconds, 1e-6, "as the dry run did")
	assert.EqualValues(t, 7000, restored.VolumeSettings.IOPS)
	storesHave(t, restored, "volume", "pod", "TiKV", "collect", "recover")
	require.True(t, slices.ContainsFunc(restored.Stores, func(s phase.StoreParts) bool {
		return slices.ContainsFunc(s.Parts, func(part phase.Part) bool { return part.Name == "flashback" })
	}), "no store that leads a region has a time of its flashback")
	c.requireCalls(t, "tisnap restore", []string{
		`create cluster > load$`, `create cluster > preflight > ec2:DescribeSnapshots`, `create cluster > await-pd > pdpb\.PD/GetMembers`, `create cluster > mark-recovering > PD POST`,
		`restore volumes > create-volumes > ec2:CreateVolume`, `start TiKV > await-stores > PD GET`, `resolve data > collect > recover_data\.RecoverData/ReadRegionMeta`,
		`resolve data > recover > recover_data\.RecoverData/RecoverRegion`, `resolve data > flashback > tikvpb\.Tikv/KvFlashbackToVersion`, `start TiDB > leave-recovery > PD DELETE`,
	})
}

// reported runs a command that is done, and reads its report.
func (p *place) reported(t *testing.T, args ...string) (ending, *report.Report) {
	t.Helper()
	e := p.run(t, args...)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	var doc struct{ Report *report.Report }
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &doc))
	return e, doc.Report
}

// sameAsJournalled requires that the report compares with what was announced, by the journal.
func (p *place) sameAsJournalled(t *testing.T, r *report.Report) {
	t.Helper()
	require.NotNil(t, r.Expected)
	h, err := phase.ReadHistory(t.Context(), journal.NewStoreJournal(p.storage(t, whole), manifest.JournalPrefix(r.Run)))
	require.NoError(t, err)
	reported, err := json.Marshal(r.Expected)
	require.NoError(t, err)
	require.JSONEq(t, string(reported), string(journal.ReadFacts(h.Records).Expected))
}

// storesHave requires that the report has a row for each store, with these parts.
func storesHave(t *testing.T, r *report.Report, parts ...string) {
	t.Helper()
	require.Len(t, r.Stores, r.TiKVs)
	for _, s := range r.Stores {
		var names []string
		for _, part := range s.Parts {
			names = append(names, part.Name)
			assert.GreaterOrEqual(t, part.Seconds, 0.0)
		}
		assert.Subset(t, names, parts, "store %d", s.Store)
	}
}

// closed is an address without a listener.
func closed(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}
