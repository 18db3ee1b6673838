package tests

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// whole is a storage with one sealed backup, "first", of prod.
const whole = "s3://" + testbed.Bucket + "/whole"

// firstBackup is its id.
const firstBackup = cluster.BackupID("first")

// How long the testbed may take, and how often it is looked at.
const (
	patience = 20 * time.Second
	blink    = 20 * time.Millisecond
)

// badInput is a command that has to be refused before it changes anything.
type badInput struct {
	name string
	args []string
	code cli.ExitCode
	// message and hint are parts of the two lines that a user sees.
	message []string
	hint    []string
}

func (b badInput) check(t *testing.T, p *place) {
	t.Helper()
	e := p.refused(t, b.args...)
	t.Logf("tisnap %v\nerror: %s\nhint: %s", b.args, e.line("error: "), e.line("hint: "))
	assert.Equal(t, b.code, e.code, e.stderr)
	for _, part := range b.message {
		assert.Contains(t, e.line("error: "), part)
	}
	for _, part := range b.hint {
		assert.Contains(t, e.line("hint: "), part)
	}
	assert.NotEmpty(t, e.line("hint: "), "it has to name a remedy")
	assert.Empty(t, e.stdout, "no table of phases that never ran")
}

// TestBadInput shows that what cannot work is refused with a reason and a way out, and that nothing is
// changed by it. The parts share one testbed and follow each other, as each looks for changes.
func TestBadInput(t *testing.T) { //nolint:tparallel // the parts follow each other
	t.Parallel()
	faults := &fault.Plan{}
	p := newPlace(t, testbed.Config{Nodes: 9, Faults: faults})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	require.Equal(t, cli.ExitDone, p.run(t, "backup", prod.String(), "--name", string(firstBackup), "--storage", whole).code)

	t.Run("command line", func(t *testing.T) { badCommandLine(t, p) })
	t.Run("volumes", func(t *testing.T) { badVolumes(t, p) })
	t.Run("storage", func(t *testing.T) { badStorage(t, p) })
	t.Run("backup", func(t *testing.T) { badBackup(t, p) })
	t.Run("target", func(t *testing.T) { badTarget(t, p) })
	t.Run("source", func(t *testing.T) { badSource(t, p, faults) })
	t.Run("snapshots", func(t *testing.T) { badSnapshots(t, p) })
}

func checkAll(t *testing.T, p *place, cases []badInput) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.check(t, p) })
	}
}

func backupArgs(more ...string) []string {
	return append([]string{"backup", prod.String(), "--storage", whole}, more...)
}

func drillArgs(more ...string) []string {
	return append([]string{"drill", string(firstBackup), "--storage", whole}, more...)
}

func restoreArgs(more ...string) []string {
	return append([]string{"restore", string(firstBackup), "--storage", whole}, more...)
}

func badCommandLine(t *testing.T, p *place) {
	checkAll(t, p, []badInput{
		{"unknown command", []string{"bakup", prod.String()}, 2, []string{`unknown command "bakup"`}, []string{"backup"}},
		{"unknown flag", backupArgs("--max-hodl", "1m"), 2, []string{"unknown flag: --max-hodl"}, []string{"--max-hold"}},
		{"unknown flag without a near one", backupArgs("--xyzzy"), 2, []string{"--xyzzy"}, []string{"tisnap backup --help"}},
		{"no cluster", []string{"backup", "--storage", whole}, 2, []string{"CLUSTER is missing"}, []string{"tisnap backup --help"}},
		{"two clusters", backupArgs("other"), 2, []string{`unexpected argument "other"`}, []string{"tisnap backup --help"}},
		{"no storage", []string{"backup", prod.String()}, 2, []string{"--storage is missing"}, []string{"s3://"}},
		{"drill of nothing", []string{"drill", "--storage", whole}, 2, []string{"give BACKUP, or --cluster"}, []string{"tisnap drill --help"}},
		{"drill of a backup and of a cluster", drillArgs("--cluster", prod.String()), 2, []string{"give BACKUP, or --cluster"}, []string{"--help"}},
		{"drill without checks", drillArgs("--tables", "0"), 2, []string{"no check was asked for"}, []string{"--tables, --canary or --sql"}},
		{"drill of few tables", drillArgs("--tables", "few"), 2, []string{`--tables "few": want a number, or all`}, []string{"--help"}},
		{"drill without time", drillArgs("--budget", "0s"), 2, []string{"want positive durations"}, []string{"--help"}},
		{"drill that outlives its cage", drillArgs("--lifetime", "2h"), 2, []string{"its cage would expire after 2h0m0s"}, []string{"--lifetime"}},
		{"drill that is proven by the Operator's pods", drillArgs("--outside-namespace", "tidb-admin"), 2, []string{"--outside-namespace is that of TiDB Operator"}, []string{"--help"}},
		{"drill by no Operator", drillArgs("--operator", "3"), 2, []string{`"3"`}, []string{"use 1 or 2"}},
		{"clean up without consent", []string{"drill", "clean", "--storage", whole}, 2, []string{"pass --yes"}, []string{"--help"}},
		{"no target", restoreArgs(), 2, []string{"--to CLUSTER is missing"}, []string{"tisnap restore --help"}},
		{"negative hold", backupArgs("--max-hold", "-1m"), 2, []string{"--max-hold -1m0s", "at least 1s"}, []string{"--help"}},
		{"negative lease", backupArgs("--lease=-5s"), 2, []string{"--lease -5s"}, []string{"--help"}},
		{"lease of the whole hold", backupArgs("--lease=1m", "--max-hold=1m"), 2, []string{"--lease 1m0s has to be less than --max-hold 1m0s"}, []string{"--help"}},
		{"no attempt", backupArgs("--hold-attempts=0"), 2, []string{"--hold-attempts 0", "at least 1"}, []string{"--help"}},
		{"negative lock wait", backupArgs("--lock-wait=-1s"), 2, []string{"--lock-wait -1s"}, []string{"--help"}},
		{"unknown import policy", backupArgs("--on-import=ignore"), 2, []string{"--on-import", "refuse, wait, pause"}, []string{"--help"}},
		{"steady for longer than it may take", backupArgs("--steady=10m"), 2, []string{"--steady-timeout 5m0s is less than --steady 10m0s"}, []string{"--help"}},
		{"no duration", backupArgs("--max-lag", "soon"), 2, []string{"--max-lag", "soon"}, []string{"--help"}},
		{"negative timeout", restoreArgs("--to", "tidb/copy", "--timeout", "-1h"), 2, []string{"--timeout -1h0m0s"}, []string{"--help"}},
		{"negative iops", restoreArgs("--to", "tidb/copy", "--volume-iops", "-1"), 2, []string{"must not be negative"}, []string{"--help"}},
		{"unknown output", backupArgs("-o", "xml"), 2, []string{`--output "xml"`, "json"}, []string{"--help"}},
		{"template that is none", backupArgs("-o", "jsonpath={.a"), 2, []string{"jsonpath={.a"}, []string{"--help"}},
		{"names of what has none", []string{"estimate", "restore", string(firstBackup), "--storage", whole, "-o", "name"}, 2, []string{`--output "name"`, "json"}, []string{"--help"}},
		{"backup name that cannot be one", backupArgs("--name", "a/b"), 2, []string{`"a/b"`}, []string{"--name"}},
		{"cluster name that cannot be one", []string{"backup", "a/b/c", "--storage", whole}, 2, []string{"a/b/c"}, []string{"NAMESPACE/NAME"}},
		{"no image", []string{"generate", "cronjob", prod.String(), "--storage", whole, "--region", "us-west-2"}, 2, []string{"--image is missing"}, []string{"REGISTRY/tisnap"}},
		{"no namespace", []string{"generate", "rbac"}, 2, []string{"NAMESPACE is missing"}, []string{"--help"}},
		{"a role of no account", []string{"generate", "iam", "--trust=irsa", "-n", "tidb"}, 2, []string{"--account", "12 digits"}, []string{"--help"}},
		{"a folder as bucket", []string{"generate", "bucket", "--storage", "file:///backups"}, 2, []string{"--storage", "s3://bucket"}, []string{"--help"}},
		{"target name that cannot be one", restoreArgs("--to", "tidb/Copy!"), 2, []string{"Copy!"}, []string{"NAMESPACE/NAME"}},
	})
}

func badVolumes(t *testing.T, p *place) {
	type spec = []string
	on := func(more ...string) spec { return restoreArgs(append(spec{"--to", "tidb/copy"}, more...)...) }
	checkAll(t, p, []badInput{
		{"gp3 with too few iops", on("--volume-type", "gp3", "--volume-iops", "2000"), 2, spec{"2000 iops", "gp3"}, spec{"3000 to 80000"}},
		{"gp3 with too many iops", on("--volume-type", "gp3", "--volume-iops", "90000"), 2, spec{"90000 iops"}, spec{"3000 to 80000"}},
		{"gp3 with too many iops for its size", on("--volume-type", "gp3", "--volume-iops", "60000"), 2, spec{"60000 iops", "500 per GiB"}, spec{"at most 50000"}},
		{"io2 with too many iops for its size", on("--volume-type", "io2", "--volume-iops", "100001"), 2, spec{"100001 iops", "1000 per GiB"}, spec{"at most 100000"}},
		{"io2 without iops", on("--volume-type", "io2"), 2, spec{"io2 has no default iops"}, spec{"from 100 to 256000"}},
		{"io2 with throughput", on("--volume-type", "io2", "--volume-iops", "7000", "--volume-throughput", "400"), 2, spec{"throughput cannot be set for io2"}, spec{"leave throughput out"}},
		{"throughput too high for the iops", on("--volume-type", "gp3", "--volume-iops", "3000", "--volume-throughput", "1000"), 2, spec{"1000 MiB/s is too high for 3000 iops"}, spec{"at most 750 MiB/s", "at least 4000"}},
		{"unknown type", on("--volume-type", "gp9"), 2, spec{`"gp9"`, "gp3, io1, io2"}, spec{"--help"}},
		{"a type that cannot carry TiKV", on("--volume-type", "st1"), 2, spec{`"st1"`, "gp3, io1, io2"}, spec{"--help"}},
		{"an old type", on("--volume-type", "gp2"), 2, spec{`"gp2"`, "gp3, io1, io2"}, spec{"--help"}},
		{"too small", on("--volume-size", "10"), 2, spec{"10 GiB", "100 GiB"}, spec{"at least 100 GiB"}},
		{"unknown Operator", on("--operator", "3"), 2, spec{`"3"`}, spec{"use 1 or 2"}},
		{"unknown zone", on("--target-az", "us-west-2z"), 2, spec{"us-west-2z", "us-west-2a"}, spec{"--target-az"}},
	})
}

func badStorage(t *testing.T, p *place) {
	at := func(url string) []string { return []string{"backup", prod.String(), "--storage", url} }
	checkAll(t, p, []badInput{
		{"unknown scheme", at("ftp://backups/prod"), 2, []string{`"ftp"`}, []string{"s3://BUCKET"}},
		{"no scheme", at("backups/prod"), 2, []string{"scheme is missing"}, []string{"s3://BUCKET"}},
		{"credentials", at("s3://key:secret@backups/prod"), 2, []string{"credentials"}, []string{"AWS_PROFILE"}},
		{"unknown bucket", at("s3://no-such-bucket/prod"), 4, []string{"no-such-bucket"}, []string{"bucket"}},
	})
	used := func(marker string) string {
		at := "s3://" + testbed.Bucket + "/used-by-" + marker
		put(t, p.storage(t, at), marker, []byte("{}"))
		return at
	}
	for _, marker := range manifest.BRMarkers() {
		badInput{"br", at(used(marker)), 6, []string{marker, "br"}, []string{"--storage"}}.check(t, p)
	}
	badInput{"name", backupArgs("--name", string(firstBackup)), 6, []string{"first", "exists"}, []string{"--name"}}.check(t, p)
}

// badBackup restores backups that are not whole.
func badBackup(t *testing.T, p *place) {
	source := p.storage(t, whole)
	broken := func(name string, damage func(objstore.Store)) []string {
		at := "s3://" + testbed.Bucket + "/" + name
		store := p.storage(t, at)
		copyAll(t, source, store)
		damage(store)
		return []string{"restore", string(firstBackup), "--to", "tidb/copy", "--storage", at}
	}
	edit := func(key string, change func([]byte) []byte) func(objstore.Store) {
		return func(s objstore.Store) { put(t, s, key, change(get(t, s, key))) }
	}
	document, seal := manifest.ManifestKey(firstBackup), manifest.SealKey(firstBackup)
	remove := func(key string) func(objstore.Store) {
		return func(s objstore.Store) { require.NoError(t, s.Delete(t.Context(), key)) }
	}
	checkAll(t, p, []badInput{
		{"unknown", []string{"restore", "frist", "--to", "tidb/copy", "--storage", whole}, 4, []string{"no such backup"}, []string{"did you mean first?", "tisnap list"}},
		{"unknown, to delete", []string{"delete", "frist", "--yes", "--storage", whole}, 4, []string{"frist", "nothing of it was found"}, []string{"did you mean first?"}},
		{"unknown in an empty storage", []string{"restore", "first", "--to", "tidb/copy", "--storage", "s3://" + testbed.Bucket + "/empty"}, 4, []string{"no such backup"}, []string{"tisnap list"}},
		{"not sealed", broken("unsealed", remove(seal)), 5, []string{"not sealed"}, []string{"tisnap list"}},
		{"without manifest", broken("lost", remove(document)), 10, []string{"manifest"}, []string{"another backup"}},
		{"truncated", broken("truncated", edit(document, func(b []byte) []byte { return b[:len(b)/2] })), 10, []string{"bytes, sealed were"}, []string{"another backup"}},
		{"altered", broken("altered", edit(document, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })), 10, []string{"SHA-256"}, []string{"another backup"}},
		{"seal without digest", broken("half-sealed", edit(seal, func([]byte) []byte {
			return []byte(`{"apiVersion":"` + manifest.APIVersion + `","kind":"Seal","id":"first"}`)
		})), 10, []string{"digest"}, []string{"another backup"}},
		{"seal without backup ts", broken("no-ts", edit(seal, func(b []byte) []byte {
			return regexp.MustCompile(`"backupTS": "\d+",`).ReplaceAll(b, nil)
		})), 10, []string{"seal is of backup first at 0"}, []string{"another backup"}},
		{"seal that is no JSON", broken("torn", edit(seal, func(b []byte) []byte { return b[:20] })), 10, []string{"seal"}, []string{"another backup"}},
		{"newer schema", broken("newer", edit(seal, func([]byte) []byte {
			return []byte(`{"apiVersion":"tisnap.io/v99","kind":"Seal"}`)
		})), 2, []string{"newer tisnap"}, []string{"version"}},
	})
	moved := broken("moved", func(s objstore.Store) {
		put(t, s, manifest.ManifestKey("renamed"), get(t, s, document))
		put(t, s, manifest.SealKey("renamed"), get(t, s, seal))
	})
	moved[1] = "renamed"
	badInput{"of another id", moved, 10, []string{"first"}, []string{"another backup"}}.check(t, p)
}

// badTarget restores over what exists.
func badTarget(t *testing.T, p *place) {
	small := kubetest.NewTidbCluster(kubetest.ClusterOptions{
		Name: cluster.Name{Namespace: "tidb", Name: "small"}, TiKV: 2, RecoveryMode: true, RaftLogVolume: true,
	})
	require.NoError(t, p.bed.Kube.Put(small))
	checkAll(t, p, []badInput{
		{"runs", restoreArgs("--to", prod.String()), 6, []string{"exists"}, []string{"--to"}},
		{"of another shape", restoreArgs("--to", "tidb/small"), 5, []string{"2 TiKV replicas", "3 stores"}, []string{"spec.tikv.replicas to 3"}},
		{"in recovery mode as a source", []string{"backup", "tidb/small", "--storage", whole}, 5, []string{"recovery mode"}, []string{"wait until the restore has ended"}},
	})
	assert.NotContains(t, p.refused(t, restoreArgs("--to", prod.String())...).line("hint: "), "delete", "it runs")
}

// badSource backs up clusters that cannot be.
func badSource(t *testing.T, p *place, faults *fault.Plan) {
	badInput{"unknown", []string{"backup", "tidb/prodd", "--storage", whole}, 4, []string{"tidb/prodd", "does not exist"}, []string{"prod"}}.check(t, p)

	empty := p.create(t, "empty", 0)
	require.Eventually(t, func() bool {
		tc := p.bed.Kube.Get("tidbclusters", empty.Namespace, empty.Name)
		members, _, _ := unstructured.NestedMap(tc.Object, "status", "pd", "members")
		return len(members) > 0
	}, patience, blink)
	badInput{"without stores", []string{"backup", empty.String(), "--storage", whole}, 5, []string{"tidb/empty", "not bootstrapped"}, []string{"TiKV"}}.check(t, p)

	pd := p.bed.Nodes.Cluster(prod).PD
	store := p.bed.Nodes.Cluster(prod).Stores()[1].ID()
	pd.SetStoreState(store, metapb.StoreState_Offline)
	badInput{"store that leaves", backupArgs(), 5, []string{"is Offline"}, []string{"Tombstone"}}.check(t, p)
	pd.SetStoreState(store, metapb.StoreState_Up)

	config := pd.URLs()[0] + "/pd/api/v1/config"
	p.post(t, config, "application/json", `{"schedule.max-store-down-time":"0s"}`) // no silence is too short
	badInput{"store that is down", backupArgs(), 5, []string{"is Down"}, []string{"Up"}}.check(t, p)
	p.post(t, config, "application/json", `{"schedule.max-store-down-time":"30m"}`)

	require.NoError(t, faults.Add(fault.Rule{Point: "tikv.*.ResolvedTS", Position: fault.Before, Times: -1}))
	mute := p.create(t, "mute", 3)
	args := []string{"backup", mute.String(), "--storage", whole}
	require.Eventually(t, func() bool {
		return p.bed.Nodes.TiDBReady(mute) > 0 && !strings.Contains(p.run(t, append(args, "--dry-run")...).stderr, "is Down")
	}, patience, blink, "the stores have to be heard of")
	badInput{"resolved ts 0", args, 5, []string{"resolved ts", "is 0"}, []string{"resolved-ts.enable"}}.check(t, p)

	for _, s := range p.bed.Nodes.Cluster(mute).Stores() {
		p.bed.Nodes.Cluster(mute).PD.SetStoreState(s.ID(), metapb.StoreState_Tombstone)
	}
	badInput{"only tombstones", args, 5, []string{"no TiKV store"}, []string{"start the cluster's TiKV stores"}}.check(t, p)
	faults.Clear()
}

// create makes a TidbCluster and does not wait for it.
func (p *place) create(t *testing.T, name string, stores int64) cluster.Name {
	t.Helper()
	of := cluster.Name{Namespace: prod.Namespace, Name: name}
	tc := kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: of, RaftLogVolume: true})
	require.NoError(t, unstructured.SetNestedField(tc.Object, stores, "spec", "tikv", "replicas"))
	require.NoError(t, p.bed.Kube.Put(tc))
	return of
}

// badSnapshots restores a backup whose snapshots were deleted by hand. It comes last.
func badSnapshots(t *testing.T, p *place) {
	m, err := manifest.Decode(get(t, p.storage(t, whole), manifest.ManifestKey(firstBackup)))
	require.NoError(t, err)
	gone := m.Snapshots[2].ID
	p.deleteSnapshot(t, gone)
	badInput{"gone", restoreArgs("--to", "tidb/copy"), 10, []string{string(gone) + " is gone"}, []string{"another backup"}}.check(t, p)
	for _, s := range m.Snapshots {
		if s.ID != gone {
			p.deleteSnapshot(t, s.ID)
		}
	}
	badInput{"all gone", restoreArgs("--to", "tidb/copy"), 10, []string{string(gone) + " is gone"}, []string{"another backup"}}.check(t, p)
}
