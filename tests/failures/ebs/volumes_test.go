package ebs_test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// restoreInto are the arguments of a restore of the backup b.
func restoreInto(args ...string) []string {
	return append([]string{"restore", "b", "--to", wholeTarget.String(), "--timeout", "90s"}, args...)
}

// backedUp is a testbed whose cluster was backed up as b and destroyed.
func backedUp(t *testing.T, stores int, change ...func(*testbed.Config)) *whole {
	t.Helper()
	w := newWhole(t, stores, change...)
	w.backup(t, "b")
	w.destroy(t)
	return w
}

// nothingLeft requires that a restore that failed left no volume, no cluster and no claim.
func (w *whole) nothingLeft(t *testing.T) {
	t.Helper()
	w.balanced(t)
	require.Empty(t, w.restored())
	require.Nil(t, w.Kube.Get("tidbclusters", "tidb", wholeTarget.Name))
	require.Empty(t, w.Kube.List("persistentvolumeclaims", "tidb"))
}

// CreateVolume returns while the volume is still being made: none is used before it is available, and one in
// error is named, replaced and deleted.
// https://github.com/pingcap/tidb/issues/39974
// Catalogue: E1.
func TestVolumesCreatingForMinutes_AreWaitedForAndErrorsNamed(t *testing.T) {
	t.Parallel()
	w := backedUp(t, 3, func(c *testbed.Config) { c.Rules.Creating = ebstest.Span{Least: time.Second, Most: 2 * time.Minute} })
	failed := cluster.VolumeID("")
	w.fault(t, fault.Rule{Point: "ec2.DescribeVolumes", Position: fault.Slow, Times: -1, Do: func() {
		for _, v := range w.restored() {
			if failed == "" && w.EC2.FailVolume(v.ID) == nil {
				failed = v.ID
			}
		}
	}})
	e := w.ok(t, restoreInto()...)
	require.NotEmpty(t, failed)
	require.Contains(t, e.stderr, string(failed)+" is in state error")
	require.Contains(t, e.stderr, "takes its place")
	w.balanced(t)
}

// A volume may vanish while it is made, its token burned for 12 hours: it is asked for again with the next one.
// https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/pkg/cloud/cloud.go
// Catalogue: E1.
func TestVolumesVanish_AreAskedForWithTheNextToken(t *testing.T) {
	t.Parallel()
	w := backedUp(t, 3)
	w.EC2.VanishNext(2)
	e := w.ok(t, "restore", "b", "--to", wholeTarget.String(), "--timeout", "3m")
	require.Contains(t, e.stderr, "takes its place")
	require.Len(t, w.restored(), 6)
	w.balanced(t)
}

// A restore that fails half-way through its volumes deletes those that it made.
// https://github.com/pingcap/tidb-operator/issues/5638
// Catalogue: E2.
func TestFailsInTheMiddleOfItsVolumes_LeavesNone(t *testing.T) {
	t.Parallel()
	for _, nth := range []int{3, 7, 10} {
		t.Run(strconv.Itoa(nth), func(t *testing.T) {
			t.Parallel()
			w := backedUp(t, 5)
			w.fault(t, fault.Rule{Point: "ec2.CreateVolume", Nth: nth, Code: "UnauthorizedOperation", Times: -1})
			e := w.run(t, restoreInto()...)
			require.EqualValues(t, 7, e.code, e.stderr)
			require.Empty(t, w.faults.Unreached())
			w.faults.Clear()
			w.nothingLeft(t)
		})
	}
}

// A target that does not fit is refused before anything is made.
// https://github.com/pingcap/tidb-operator/issues/5287 https://github.com/pingcap/tidb-operator/issues/4992
// Catalogue: E5.
func TestTargetOrVolumesDoNotFit_NoCallChangesAnything(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	w := backedUp(t, 3)
	target := func(change func(*kubetest.ClusterOptions)) {
		o := kubetest.ClusterOptions{Name: cluster.Name{Namespace: "tidb", Name: "made"}, PD: 1, TiKV: 3, TiDB: 1, Version: "v8.5.0", SizeGiB: 100, RaftLogVolume: true, RecoveryMode: true}
		change(&o)
		require.NoError(t, w.Kube.Put(kubetest.NewTidbCluster(o)))
	}
	for name, row := range map[string]struct {
		code cli.ExitCode
		args []string
	}{
		"smaller":             {2, []string{"--volume-size", "50"}},
		"too large":           {2, []string{"--volume-size", "70000"}},
		"iops":                {2, []string{"--volume-iops", "90000"}},
		"iops of the size":    {2, []string{"--volume-type", "io1", "--volume-iops", "6000"}},
		"throughput":          {2, []string{"--volume-throughput", "1000"}},
		"io2 has no default":  {2, []string{"--volume-type", "io2"}},
		"afterwards":          {2, []string{"--after-restore-iops", "100"}},
		"rate":                {2, []string{"--initialization-rate", "50"}},
		"rate and fsr":        {2, []string{"--initialization-rate", "100", "--fsr"}},
		"zone":                {2, []string{"--target-az", "us-west-2z"}},
		"map from nowhere":    {2, []string{"--az-map", "2z=2a"}},
		"map to nowhere":      {2, []string{"--az-map", "2a=2z"}},
		"key of elsewhere":    {2, []string{"--kms-key", "arn:aws:kms:eu-west-1:123456789012:key/1"}},
		"io2 over its quota":  {8, []string{"--volume-type", "io2", "--volume-iops", "50000"}},
		"account":             {2, []string{"--account", "999999999999"}},
		"account not digits":  {2, []string{"--account", "prod"}},
		"after type":          {2, []string{"--after-restore-type", "st1"}},
		"fsr over the quota":  {8, []string{"--fsr"}},
		"negative throughput": {2, []string{"--volume-throughput", "-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := w.refused(t, row.code, restoreInto(row.args...)...)
			require.NotEmpty(t, e.stderr, name)
			require.Contains(t, e.stderr, "hint: ", name)
		})
	}
	for name, row := range map[string]struct {
		code   cli.ExitCode
		change func(*kubetest.ClusterOptions)
	}{
		"replicas":      {5, func(o *kubetest.ClusterOptions) { o.TiKV = 4 }},
		"recovery mode": {6, func(o *kubetest.ClusterOptions) { o.RecoveryMode = false }},
		"volumes":       {5, func(o *kubetest.ClusterOptions) { o.RaftLogVolume = false }},
		"version":       {5, func(o *kubetest.ClusterOptions) { o.Version = "v7.5.1" }},
	} {
		t.Run(name, func(t *testing.T) {
			target(row.change)
			calls := w.EC2.MutatingCalls()
			e := w.run(t, "restore", "b", "--to", "tidb/made", "--dry-run")
			require.Equal(t, row.code, e.code, "%s: %s", name, e.stderr)
			require.Equal(t, calls, w.EC2.MutatingCalls())
			require.NoError(t, w.Kube.Remove(w.Kube.Get("tidbclusters", "tidb", "made")))
			require.Eventually(t, func() bool { return w.Nodes.Cluster(cluster.Name{Namespace: "tidb", Name: "made"}) == nil }, 30*time.Second, 20*time.Millisecond)
			for _, pvc := range w.Kube.List("persistentvolumeclaims", "tidb") {
				require.NoError(t, w.Kube.Remove(pvc))
			}
		})
	}
}

// Volumes go where the map sends them, and their persistent volumes with them, under both keys of the zone.
// https://github.com/pingcap/tidb/issues/43963
// Catalogue: E6.
func TestThreeZonesIntoTwo_VolumesAndAffinityFollowTheMap(t *testing.T) {
	t.Parallel()
	w := backedUp(t, 3, func(c *testbed.Config) { c.Nodes = 6 })
	w.ok(t, restoreInto("--az-map", "us-west-2c=usw2-az1")...)
	zones := map[cluster.Zone]int{}
	for _, v := range w.restored() {
		zones[v.Zone]++
	}
	require.Equal(t, map[cluster.Zone]int{"us-west-2a": 4, "us-west-2b": 2}, zones)
	seen := 0
	for _, pv := range w.Kube.List("persistentvolumes", "") {
		handle, _, _ := unstructured.NestedString(pv.Object, "spec", "csi", "volumeHandle")
		v, ok := w.EC2.Volume(cluster.VolumeID(handle))
		if !ok || v.Tags[ebs.TagRun] == "" {
			continue
		}
		seen++
		affinity, err := json.Marshal(pv.Object["spec"].(map[string]any)["nodeAffinity"])
		require.NoError(t, err)
		for _, key := range []string{"topology.kubernetes.io/zone", "topology.ebs.csi.aws.com/zone"} {
			require.Contains(t, string(affinity), key)
		}
		require.Contains(t, string(affinity), string(v.Zone))
		require.NotContains(t, string(affinity), "us-west-2c")
		// What the driver and the Operator look a volume up by.
		require.Equal(t, pv.GetName(), v.Tags["CSIVolumeName"])
		require.Equal(t, pv.GetName(), v.Tags["kubernetes.io/created-for/pv/name"])
		claim, _, _ := unstructured.NestedString(pv.Object, "spec", "claimRef", "name")
		require.Equal(t, claim, v.Tags["kubernetes.io/created-for/pvc/name"])
		require.Equal(t, "tidb", v.Tags["kubernetes.io/created-for/pvc/namespace"])
	}
	require.Equal(t, 6, seen)
	w.balanced(t)
}

// A region that is configured nowhere is an error of the command line that names what to set.
// https://github.com/pingcap/tidb-operator/issues/5185
// Catalogue: E7.
func TestRegionNotConfigured_HintNamesWhatToSet(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		t.Setenv(name, "") // is undone after the test, and so is what follows
		require.NoError(t, os.Unsetenv(name))
	}
	w := newWhole(t, 3, noData)
	for _, args := range [][]string{{"gc", "--dry-run"}, restoreInto("--dry-run")} {
		before := w.MutatingCalls()
		var out, errs strings.Builder
		code := cli.Run(t.Context(), append(args, "--storage", "file://"+t.TempDir(), "--endpoint-url", w.AWS(), "--kubeconfig", w.Kubeconfig(), "--progress", "none"),
			cli.Streams{Out: &out, Err: &errs}, cli.Version{Version: "test"})
		require.EqualValues(t, 2, code, errs.String())
		require.Contains(t, errs.String(), "hint: set --region or AWS_REGION")
		require.Equal(t, before, w.MutatingCalls())
	}
}

// A key is kept, or changed on request, and one that cannot be used ends the restore with its name.
// https://github.com/pingcap/tidb/issues/48899
// Catalogue: E8.
func TestKMSKeys_AreKeptChangedOrNamed(t *testing.T) {
	t.Parallel()
	const own = "arn:aws:kms:us-west-2:123456789012:key/own"
	const other = "arn:aws:kms:us-west-2:123456789012:key/other"
	w := newWhole(t, 3)
	for _, v := range w.Volumes(liveName) {
		require.NoError(t, w.EC2.Encrypt(v, own))
	}
	w.backup(t, "b")
	w.destroy(t)
	w.fault(t, fault.Rule{Point: "ec2.DescribeVolumes", Position: fault.Slow, Times: -1, Do: func() {
		for _, v := range w.restored() {
			_ = w.EC2.FailVolume(v.ID) // what EC2 does to a volume whose key is disabled
		}
	}})
	e := w.run(t, restoreInto()...)
	require.EqualValues(t, 7, e.code, e.stderr)
	require.Contains(t, e.stderr, "create volumes of "+own+": all 6 volumes that EC2 was to encrypt with it failed or vanished")
	require.Contains(t, e.stderr, "its state is Enabled, so this role may not use it")
	require.Contains(t, e.stderr, "hint: see that its policy and this role allow kms:CreateGrant")
	w.faults.Clear()
	w.nothingLeft(t)

	w.ok(t, restoreInto()...)
	for _, v := range w.restored() {
		require.True(t, v.Encrypted)
		require.Equal(t, own, v.KMSKey)
	}
	w.ok(t, "restore", "b", "--to", "tidb/again", "--timeout", "90s", "--kms-key", other)
	changed := 0
	for _, v := range w.restored() {
		if v.Tags[ebs.TagCluster] == "tidb/again" {
			require.Equal(t, other, v.KMSKey)
			changed++
		}
	}
	require.Equal(t, 6, changed)
	w.balanced(t)
}

// EC2 looks at the quota before the token: a volume that was made by a call whose answer was lost is found by
// its tags.
// https://github.com/kubernetes-sigs/aws-ebs-csi-driver/issues/2512
// Catalogue: E10.
func TestLastAllowedVolumesAnswerLost_IsFoundAndNotLeaked(t *testing.T) {
	t.Parallel()
	w := backedUp(t, 3, func(c *testbed.Config) {
		// The restored volumes fit exactly: the cluster of the backup is gone by then.
		c.Rules.StorageGiB = map[string]int64{"gp3": 600 + 3*20}
	})
	w.fault(t, fault.Rule{Point: "ec2.CreateVolume", Position: fault.After, Nth: 7})
	w.ok(t, restoreInto()...)
	require.Empty(t, w.faults.Unreached())
	require.Len(t, w.restored(), 6)
	w.balanced(t)
	e := w.refused(t, 8, "restore", "b", "--to", "tidb/more")
	require.Contains(t, e.stderr, "GiB of storage")
}

// The restore is in the account that it is meant for, or makes nothing.
// https://github.com/velero-io/velero/issues/6876
// Catalogue: E14.
func TestWrongAccount_ChangesNothing(t *testing.T) {
	t.Parallel()
	w := backedUp(t, 3, noData)
	e := w.refused(t, 2, restoreInto("--account", "210987654321")...)
	require.Contains(t, e.stderr, "123456789012")
	plan := w.refused(t, 0, restoreInto("--account", "123456789012", "--dry-run", "-o", "json")...)
	require.Contains(t, plan.stdout, `"account": "123456789012"`)
}
