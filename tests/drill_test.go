package tests

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/drill"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/leak"
)

// drilled is what a drill printed.
type drilled struct {
	Run    string
	Passed bool
	Report report.Report
}

// drillOf drills a backup of the books.
func (b *books) drillOf(t *testing.T, args ...string) (ending, drilled) {
	t.Helper()
	checks := filepath.Join(t.TempDir(), "checks.yaml")
	require.NoError(t, os.WriteFile(checks, []byte(`
checks:
- {name: balance, sql: SELECT SUM(balance) FROM bank.ledger, expect: "3980"}
- {name: marker, sql: SELECT COUNT(*) FROM bank.ledger WHERE owner = 'second-0', expect: "1"}
`+b.sums), 0o600))
	defer b.deletesItsOwn(t)()
	e := b.run(t, append([]string{
		"drill", "--storage", b.storageURL, "--sql", checks, "--canary", "SELECT MAX(at) FROM ops.heartbeat",
		"--tables", "all", "--timeout", "1m", "--output", "json",
	}, args...)...)
	var out drilled
	if e.stdout != "" {
		require.NoError(t, json.Unmarshal([]byte(e.stdout), &out), e.stdout)
	}
	return e, out
}

// deletesItsOwn returns what requires that all that was deleted since is named by its identity, and was not there before:
// look-alikes are there, of another drill.
func (b *books) deletesItsOwn(t *testing.T) func() {
	t.Helper()
	b.lookAlikes(t)
	others, all := b.bed.Objects.UIDs(), leak.Everything(b.bed)
	volumes := map[string]bool{}
	for _, v := range b.bed.EC2.Volumes() {
		volumes[string(v.ID)] = true
	}
	deleted, called, stored := len(b.bed.Kube.Deletions()), len(b.bed.EC2.MutatingCalls()), b.storedKeys(t)
	return func() {
		for _, d := range b.bed.Kube.Deletions()[deleted:] {
			require.NotNil(t, d.Only, "%s %s is deleted by its name", d.Resource, d.Target)
			require.NotNil(t, d.Only.UID, "%s %s is deleted by its name", d.Resource, d.Target)
			require.NotContains(t, others, *d.Only.UID, "%s %s", d.Resource, d.Target)
		}
		for _, call := range b.bed.EC2.MutatingCalls()[called:] {
			action, target, _ := strings.Cut(call, " ")
			require.NotEqual(t, "DeleteSnapshot", action, "a drill makes no snapshot")
			require.False(t, strings.HasPrefix(action, "Delete") && volumes[target], call)
		}
		now, left := b.storedKeys(t), leak.Everything(b.bed)
		for _, key := range stored {
			require.Contains(t, now, key)
		}
		for what := range all {
			require.Contains(t, left, what)
		}
	}
}

// lookAlikes makes what a drill makes, as another drill of the same storage would, whose process lives.
func (b *books) lookAlikes(t *testing.T) {
	t.Helper()
	if b.before["namespaces /"+otherDrill] {
		return
	}
	labels, run := map[string]string{cage.Label: "true"}, map[string]string{runmark.Key: "other"}
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	ns.SetName(otherDrill)
	ns.SetLabels(labels)
	ns.SetAnnotations(run)
	pv := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "PersistentVolume", "spec": map[string]any{
		"accessModes": []any{"ReadWriteOnce"}, "capacity": map[string]any{"storage": "1Gi"},
		"csi": map[string]any{"driver": "ebs.csi.aws.com", "volumeHandle": "vol-other"},
	}}}
	pv.SetName("tisnap-other-1-data")
	pv.SetLabels(map[string]string{"app.kubernetes.io/namespace": otherDrill})
	pv.SetAnnotations(run)
	for _, o := range []*unstructured.Unstructured{ns, pv} {
		require.NoError(t, b.bed.Objects.Put(o))
	}
	tags := maps.Clone(b.bed.EC2.Snapshots()[0].Tags)
	tags[ebs.TagRun] = "other"
	zone := b.bed.EC2.Volumes()[0].Zone // a node's
	_, err := b.bed.EC2.CreateVolumeDirect(zone, cluster.VolumeSpec{Type: "gp3", SizeGiB: 1}, tags)
	require.NoError(t, err)
	b.before = leak.Everything(b.bed)
}

// otherDrill is a cage of another drill.
const otherDrill = "tisnap-drill-other"

// storedKeys are those of the objects that no run may delete but its own: a drill deletes its locks.
func (b *books) storedKeys(t *testing.T) (keys []string) {
	t.Helper()
	for _, key := range objectKeys(t, b.storage(t, b.storageURL), "") {
		if !strings.HasPrefix(key, "locks/") {
			keys = append(keys, key)
		}
	}
	return keys
}

// nothingOfDrills requires that no drill has left anything, be it in the cage, outside of it, or in EC2.
func (b *books) nothingOfDrills(t *testing.T) {
	t.Helper()
	require.NoError(t, leak.AwaitNoMore(t.Context(), b.bed, b.before, 10*time.Second))
}

// holdsGC returns what requires that PD of the drill's cluster held GC at the backup's timestamp during a check, and that
// this PD is gone.
func (b *books) holdsGC(t *testing.T, backup cluster.BackupID, run cluster.RunID) func() {
	t.Helper()
	m, err := manifest.Decode(get(t, b.storage(t, b.storageURL), manifest.ManifestKey(backup)))
	require.NoError(t, err)
	copied, seen := cluster.Name{Namespace: cage.Name(run), Name: prod.Name}, make(chan map[string]pdtest.SafePoint, 1)
	require.NoError(t, b.faults.Add(fault.Rule{Point: "tidb.AdminCheckTable", Position: fault.Slow, Do: func() {
		if c := b.bed.Nodes.Cluster(copied); c != nil {
			seen <- c.PD.ServiceSafePoints()
		}
	}}))
	return func() {
		require.Len(t, seen, 1, "no table was checked in the cage")
		held := map[uint64]bool{}
		for service, point := range <-seen {
			if strings.HasPrefix(service, "tisnap-drill-") {
				held[point.TS] = !point.ExpiredAt.IsZero()
			}
		}
		require.Equal(t, map[uint64]bool{uint64(m.BackupTS): true}, held)
		require.Nil(t, b.bed.Nodes.Cluster(copied))
	}
}

// A drill of a good backup passes and leaves nothing; one of a torn backup fails at its checks, and leaves nothing either.
func TestDrill(t *testing.T) { //nolint:tparallel // the parts drill one backup, one after another
	t.Parallel()
	b, stores, older, newer := twice(t, 1, 1)
	t.Run("dry run", func(t *testing.T) {
		for _, backup := range [][]string{{"newer"}, {"latest", "--of", prod.String()}, {"--cluster", prod.String(), "--pick", "latest"}} {
			e := b.refused(t, append([]string{"drill", "--storage", b.storageURL, "--dry-run"}, backup...)...)
			require.Equal(t, cli.ExitDone, e.code, e.stderr)
			require.Contains(t, e.stdout, "would restore backup newer of "+prod.String()+" into namespace tisnap-drill-")
			if len(backup) > 1 {
				require.Contains(t, e.stderr, "latest is backup newer of "+prod.String())
			}
		}
		e := b.refused(t, "drill", "--cluster", prod.String(), "--of", prod.String(), "--storage", b.storageURL)
		require.Equal(t, cli.ExitCode(2), e.code, e.stderr)
	})
	t.Run("good", func(t *testing.T) {
		held := b.holdsGC(t, "newer", "drill-good")
		e, out := b.drillOf(t, "newer", "--run-id", "drill-good")
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		held()
		require.True(t, out.Passed)
		d := out.Report.Drilled
		require.Equal(t, []drill.State{drill.Passed, drill.Passed, drill.Gone}, []drill.State{d.Restore, d.Checks, d.TearDown})
		require.Len(t, d.Found.Checks, 5)
		b.nothingOfDrills(t)
		shown := b.run(t, "drill", "report", out.Run, "--storage", b.storageURL)
		require.Equal(t, cli.ExitDone, shown.code, shown.stderr)
		require.Contains(t, shown.stdout, "5 of 5 checks passed")
	})
	t.Run("picked", func(t *testing.T) {
		e, out := b.drillOf(t, "--cluster", prod.String(), "--pick", "oldest-undrilled")
		require.Equal(t, cli.ExitCode(12), e.code, "the older one has no marker: %s", e.stderr)
		require.Equal(t, "older", string(out.Report.Backup))
		b.nothingOfDrills(t)
	})
	t.Run("torn", func(t *testing.T) {
		b.tear(t, "newer", stores[1], older)
		e, out := b.drillOf(t, "newer")
		b.tear(t, "newer", stores[1], newer)
		require.Equal(t, cli.ExitCode(12), e.code, e.stderr)
		d := out.Report.Drilled
		require.Equal(t, []drill.State{drill.Passed, drill.Failed, drill.Gone}, []drill.State{d.Restore, d.Checks, d.TearDown})
		require.Contains(t, e.stderr, "data inconsistency in table: ledger, index: owner")
		b.nothingOfDrills(t)
	})
	t.Run("network without policies", func(t *testing.T) {
		b.bed.IgnorePolicies.Store(true)
		defer b.bed.IgnorePolicies.Store(false)
		e, out := b.drillOf(t, "newer")
		require.Equal(t, cli.ExitCode(5), e.code, e.stderr)
		require.Equal(t, drill.NotRun, out.Report.Drilled.Restore)
		b.nothingOfDrills(t)
	})
	t.Run("list", func(t *testing.T) {
		e := b.run(t, "drill", "list", "--storage", b.storageURL)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		require.Equal(t, 5, strings.Count(e.stdout, "\n"), e.stdout)
		require.NotContains(t, e.stdout, "maybe")
		e = b.run(t, "drill", "clean", "--storage", b.storageURL, "--yes")
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		require.Contains(t, e.stdout, "no drill left anything")
		e = b.run(t, "status", "--storage", b.storageURL)
		require.NotContains(t, e.stdout, "tisnap-drill-", "a cage is no cluster of anyone")
	})
	t.Run("expired cage", b.expiredCage)
}

// A backup is drilled by the Operator that made its cluster, or by the other one if that is chosen or alone; a torn one fails
// at its checks by either.
func TestDrill_OfOperator2(t *testing.T) { //nolint:tparallel // the parts drill one backup, one after another
	t.Parallel()
	b, stores, older, newer := twice(t, 1, 2)
	made := b.clustersMade()
	t.Run("good", func(t *testing.T) {
		e, out := b.drillOf(t, "newer")
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		require.True(t, out.Passed)
		require.Empty(t, out.Report.Warnings)
		b.nothingOfDrills(t)
		require.Equal(t, []string{"clusters"}, made())
	})
	t.Run("torn", func(t *testing.T) {
		b.tear(t, "newer", stores[1], older)
		e, out := b.drillOf(t, "newer")
		b.tear(t, "newer", stores[1], newer)
		require.Equal(t, cli.ExitCode(12), e.code, e.stderr)
		d := out.Report.Drilled
		require.Equal(t, []drill.State{drill.Passed, drill.Failed, drill.Gone}, []drill.State{d.Restore, d.Checks, d.TearDown})
		require.Contains(t, e.stderr, "data inconsistency in table: ledger, index: owner")
		b.nothingOfDrills(t)
		require.Equal(t, []string{"clusters"}, made())
	})
	t.Run("the other one is chosen", func(t *testing.T) {
		e, out := b.drillOf(t, "newer", "--operator", "1")
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		require.True(t, out.Passed)
		b.nothingOfDrills(t)
		require.Equal(t, []string{"tidbclusters"}, made())
	})
	t.Run("the other one is alone", func(t *testing.T) {
		b.bed.Kube.ForgetGroup("core.pingcap.com")
		e, out := b.drillOf(t, "newer")
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		require.True(t, out.Passed)
		require.Contains(t, strings.Join(out.Report.Warnings, "\n"), "is restored into 1.x: only that Operator is installed here")
		require.Equal(t, []string{"tidbclusters"}, made())
	})
}

// clustersMade returns the resources of which clusters were made since it was asked last, if any drill made one.
func (b *books) clustersMade() func() []string {
	seen := len(b.bed.Kube.MutatingCalls())
	return func() (made []string) {
		calls := b.bed.Kube.MutatingCalls()
		for _, call := range calls[seen:] {
			if of := strings.Fields(call); of[0] == "create" && (of[1] == "clusters" || of[1] == "tidbclusters") {
				made = append(made, of[1])
			}
		}
		seen = len(calls)
		return made
	}
}

// expiredCage has no journal: the commands that clean up name it, and leave it.
func (b *books) expiredCage(t *testing.T) {
	const lost = "tisnap-drill-lost"
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	ns.SetName(lost)
	ns.SetLabels(map[string]string{cage.Label: "true"})
	ns.SetAnnotations(map[string]string{
		runmark.Key: "lost", "tisnap.io/storage": b.bed.EC2.Snapshots()[0].Tags[ebs.TagStorage],
		"tisnap.io/drill-expires": "2026-01-01T00:00:00Z",
	})
	require.NoError(t, b.bed.Objects.Put(ns))
	for _, args := range [][]string{{"drill", "clean", "--yes"}, {"gc", "--cluster", "--yes", "-o", "wide"}} {
		t.Run(args[0], func(t *testing.T) {
			e := b.run(t, append(args, "--storage", b.storageURL)...)
			require.Equal(t, cli.ExitDone, e.code, e.stderr)
			require.Contains(t, e.stdout, "kubectl delete namespace "+lost)
			require.NotNil(t, b.bed.Objects.Get("namespaces", "", lost))
		})
	}
}
