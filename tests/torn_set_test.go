package tests

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/drill/checks"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/leak"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
	"github.com/tisnap/tisnap/pkg/tidb"
	"github.com/tisnap/tisnap/pkg/tidb/tidbtest"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

var (
	ledger = &tidbtest.Table{ID: 201, Schema: "bank", Name: "ledger", Key: "id", Columns: []string{"owner", "balance"}, Index: "owner"}
	beats  = &tidbtest.Table{ID: 202, Schema: "ops", Name: "heartbeat", Key: "id", Columns: []string{"at"}}
)

// entries are the rows of the ledger.
const entries = 40

// books is a cluster with a ledger and a heartbeat.
type books struct {
	*place
	storageURL string
	faults     *fault.Plan
	keys       *workload.Cluster
	sums       string          // of tables, for a drill's file
	stderr     string          // by the last restore, on stderr
	before     map[string]bool // leak.Everything once the source is gone
}

// newBooks makes it, with so many replicas of each region, by a generation of TiDB Operator. The ledger's rows, its index and
// the heartbeat are in regions of their own, which begin on different stores.
func newBooks(t *testing.T, replicas, operator int) *books {
	t.Helper()
	faults := &fault.Plan{}
	b := &books{storageURL: tornStorage, faults: faults, place: newPlace(t, testbed.Config{
		Nodes: 6, Scale: 50, Operator: operator, Faults: faults,
		Boot: tikvtest.Placement{Replicas: replicas, Keys: [][]byte{ledger.IndexPrefix(), ledger.RowPrefix()}},
	})}
	c, err := b.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	b.keys, err = workload.Connect(t.Context(), c.PD.URLs())
	require.NoError(t, err)
	for _, table := range []*tidbtest.Table{ledger, beats} {
		made, err := table.Create()
		b.write(t, made, err)
	}
	b.fill(t, nil, version("first"))
	return b
}

// version is what a row of the ledger holds.
func version(of string) func(id int64) map[string]string {
	return func(id int64) map[string]string {
		return map[string]string{"owner": fmt.Sprintf("%s-%d", of, id), "balance": strconv.FormatInt(100+id-entries/2, 10)}
	}
}

// fill writes the ledger and a heartbeat.
func (b *books) fill(t *testing.T, old, now func(int64) map[string]string) {
	t.Helper()
	for id := range int64(entries) {
		var before map[string]string
		if old != nil {
			before = old(id)
		}
		put, err := ledger.Put(id, before, now(id))
		b.write(t, put, err)
	}
	ts, err := b.keys.Now(t.Context())
	require.NoError(t, err)
	put, err := beats.Put(ts.Time().UnixNano(), nil, map[string]string{"at": strconv.FormatInt(ts.Time().Unix(), 10)})
	b.write(t, put, err)
}

func (b *books) write(t *testing.T, change tidbtest.Change, err error) {
	t.Helper()
	require.NoError(t, err)
	require.NoError(t, b.keys.Write(t.Context(), change))
}

// backUp backs up and returns what each volume's snapshot holds.
func (b *books) backUp(t *testing.T, name string) map[cluster.VolumeID]*disk.Image {
	t.Helper()
	e := b.run(t, "backup", prod.String(), "--name", name, "--storage", b.storageURL)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	out := map[cluster.VolumeID]*disk.Image{}
	for _, s := range b.bed.EC2.Snapshots() {
		if s.Tags[ebs.TagBackup] == name {
			image, err := b.bed.EC2.Image(s.ID)
			require.NoError(t, err)
			out[s.Volume] = image
		}
	}
	require.Len(t, out, 6)
	return out
}

const tornStorage = "s3://" + testbed.Bucket + "/torn"

// tear puts into a backup's snapshots of one store what those of another backup hold.
func (b *books) tear(t *testing.T, name, store string, other map[cluster.VolumeID]*disk.Image) {
	t.Helper()
	replaced := 0
	for _, s := range b.bed.EC2.Snapshots() {
		if s.Tags[ebs.TagBackup] == name && s.Tags[ebs.TagStore] == store {
			require.NoError(t, b.bed.EC2.SetImage(s.ID, other[s.Volume]))
			replaced++
		}
	}
	require.Equal(t, 2, replaced)
}

// check restores the backup into another cluster, makes the checks of a drill, and removes the cluster.
func (b *books) check(t *testing.T, name string) *checks.Result {
	t.Helper()
	target := cluster.Name{Namespace: "tidb", Name: "copy"}
	e := b.run(t, "restore", name, "--to", target.String(), "--storage", b.storageURL, "--timeout", "1m")
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	b.stderr = e.stderr
	defer func() {
		_, err := b.bed.DestroyCluster(t.Context(), target)
		require.NoError(t, err)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	db, err := tidb.Open(ctx, tidb.Config{Address: b.bed.Nodes.Cluster(target).SQL()})
	require.NoError(t, err)
	defer db.Close()
	asked, err := checks.ReadFile([]byte(`
checks:
- {name: heartbeat, sql: SELECT MAX(at) FROM ops.heartbeat, within: 5m}
- {name: balance, sql: SELECT SUM(balance) FROM bank.ledger, expect: "3980"}
- {name: marker, sql: SELECT COUNT(*) FROM bank.ledger WHERE owner = 'second-0', expect: "1"}
`), "checks.yaml")
	require.NoError(t, err)
	m, err := manifest.Decode(get(t, b.storage(t, b.storageURL), manifest.ManifestKey(cluster.BackupID(name))))
	require.NoError(t, err)
	result, err := checks.Run(ctx, db, checks.Options{
		Statements: asked.Statements, AllTables: true, BackupTS: m.BackupTS, Budget: time.Minute, Each: 30 * time.Second,
	})
	require.NoError(t, err)
	return result
}

// stores are the ids of the source's, in the order in which the regions were placed: the first region begins on the first.
func (b *books) stores() (out []string) {
	for _, s := range b.bed.Nodes.Cluster(prod).Stores() {
		out = append(out, strconv.FormatUint(s.ID(), 10))
	}
	slices.Sort(out)
	return out
}

// twice is a cluster that is gone, of which there are two backups: the older one, and the newer one that is restored.
func twice(t *testing.T, replicas, operator int) (b *books, stores []string, older, newer map[cluster.VolumeID]*disk.Image) {
	t.Helper()
	b = newBooks(t, replicas, operator)
	older = b.backUp(t, "older")
	b.fill(t, version("first"), version("second"))
	newer = b.backUp(t, "newer")
	require.NoError(t, b.keys.Close())
	stores = b.stores()
	_, err := b.bed.DestroyCluster(t.Context(), prod)
	require.NoError(t, err)
	b.before = leak.Everything(b.bed)
	return b, stores, older, newer
}

// outcomes are those of the checks, by name.
func outcomes(r *checks.Result) map[string]checks.Outcome {
	out := map[string]checks.Outcome{}
	for _, c := range r.Checks {
		out[c.Name] = c.Outcome
	}
	return out
}

// A set in which one store's snapshots were exchanged for those of an earlier backup: the manifest and EC2 show what they
// did, the restore ends well, and rows and index are of two moments. This is what a drill is for.
func TestTornSet_ChecksOfADrill_SeeIt(t *testing.T) { //nolint:tparallel // the parts restore one backup, one after another
	t.Parallel()
	b, stores, older, newer := twice(t, 1, 1)
	t.Run("whole", func(t *testing.T) {
		result := b.check(t, "newer")
		require.Equal(t, checks.Passed, result.Outcome, "%+v", result)
		require.Equal(t, 2, result.Count(checks.OfTable, checks.Passed))
	})
	for name, store := range map[string]string{"the index is older": stores[1], "the rows are older": stores[2]} {
		t.Run(name, func(t *testing.T) {
			b.tear(t, "newer", store, older)
			result := b.check(t, "newer")
			b.tear(t, "newer", store, newer)
			require.Equal(t, checks.Failed, result.Outcome, "%+v", result)
			require.Equal(t, checks.Failed, outcomes(result)["bank.ledger"])
			require.Contains(t, fmt.Sprint(result.Checks), "data inconsistency in table: ledger, index: owner")
		})
	}
}

// With three replicas one older store does no harm: the logs of the other two have what it lacks, and bring it. If all stores
// are older, tables are consistent, and only what is known to be newer shows it: a drill needs a statement of the user's, too.
func TestTornSet_ThreeReplicas_OneOlderStoreIsBroughtUpToDate(t *testing.T) { //nolint:tparallel // as above
	t.Parallel()
	b, stores, older, _ := twice(t, 3, 1)
	t.Run("one store", func(t *testing.T) {
		b.tear(t, "newer", stores[0], older)
		result := b.check(t, "newer")
		require.Equal(t, checks.Passed, result.Outcome, "%+v", result)
	})
	t.Run("all stores", func(t *testing.T) {
		for _, store := range stores {
			b.tear(t, "newer", store, older)
		}
		result := b.check(t, "newer")
		require.Equal(t, checks.Failed, result.Outcome, "%+v", result)
		require.Equal(t, map[string]checks.Outcome{
			"heartbeat": checks.Passed, "balance": checks.Passed, "marker": checks.Failed,
			"bank.ledger": checks.Passed, "ops.heartbeat": checks.Passed,
		}, outcomes(result))
	})
}

// Of regions that were split since, the older store has the ranges of before. The others outvote it, and the restore warns.
func TestTornSet_OlderStoreHasTheRangesOfBeforeASplit_RestoreWarns(t *testing.T) {
	t.Parallel()
	b := newBooks(t, 3, 1)
	older := b.backUp(t, "older")
	var keys [][]byte
	for id := range byte(4) {
		keys = append(keys, slices.Concat(ledger.RowPrefix(), []byte{0x80, 0, 0, 0, 0, 0, 0, 8 * (id + 1)}))
	}
	require.NoError(t, b.bed.Nodes.Cluster(prod).SplitAt(t.Context(), keys...))
	b.fill(t, version("first"), version("second"))
	b.backUp(t, "newer")
	require.NoError(t, b.keys.Close())
	store := b.stores()[0]
	_, err := b.bed.DestroyCluster(t.Context(), prod)
	require.NoError(t, err)
	b.tear(t, "newer", store, older)
	result := b.check(t, "newer")
	require.Equal(t, checks.Passed, result.Outcome, "%+v", result)
	require.Contains(t, b.stderr, "disagree about the version: a split or merge fell into the cut")
}
