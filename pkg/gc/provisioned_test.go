package gc

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
)

// made is what the CSI driver writes on the volume of a claim, where it knows the name of its cluster.
func made(namespace, claim, pv string) ebs.Tags {
	return ebs.Tags{
		"ebs.csi.aws.com/cluster": "true", "CSIVolumeName": pv, "KubernetesCluster": "eks-1", "kubernetes.io/cluster/eks-1": "owned",
		"kubernetes.io/created-for/pvc/namespace": namespace, "kubernetes.io/created-for/pvc/name": claim, "kubernetes.io/created-for/pv/name": pv,
	}
}

// provisioned gives the place an EC2 that is served, with one volume of these tags, after restore "v" was killed and all that
// carried its run was removed.
func (p *place) provisioned(t *testing.T, tags ebs.Tags) (*kubernetes, *ebstest.Server, cluster.VolumeID) {
	t.Helper()
	k := p.killed(t)
	delete(k.left, "v")
	k.absent = true
	server := ebstest.New(ebstest.Config{Region: region})
	require.NoError(t, server.Start())
	t.Cleanup(server.Close)
	client, err := ebs.Open(t.Context(), ebs.Config{Region: region, Endpoint: server.URL()})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	p.deps.EBS = client
	id, err := server.CreateVolumeDirect(region+"a", cluster.VolumeSpec{Type: "gp3", SizeGiB: 20}, tags)
	require.NoError(t, err)
	return k, server, id
}

// A claim was deleted while its StatefulSet lived, and made again with a new volume; then the claim and its persistent volume went,
// and the volume was retained. Only the tags of the driver name it, and they do not prove whose it is.
// Catalogue: E17.
func TestVolumeThatNothingInKubernetesHas_IsNamedAndKept(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, server, id := p.provisioned(t, made("tidb", "pd-copy-pd-0", "pvc-9"))
	report, err := Collect(t.Context(), p.deps, Options{Rate: fast, Clusters: true, Kept: true})
	require.NoError(t, err)
	require.Equal(t, map[string]Action{string(id): ActionKeep}, of(report, "v"))
	require.Equal(t, int64(20), report.Items[0].SizeGiB)
	for _, part := range []string{
		"for claim tidb/pd-copy-pd-0", "(https://k)", "name Kubernetes cluster eks-1;",
		"aws ec2 delete-volume --region us-west-2 --volume-id " + string(id),
	} {
		require.Contains(t, reasons(report), part)
	}
	_, there := server.Volume(id)
	require.True(t, there)

	report, err = Abort(t.Context(), p.deps, AbortOptions{Run: "v", Rate: fast})
	require.NoError(t, err, "an abort is done without what may be someone else's")
	require.Equal(t, map[string]Action{string(id): ActionKeep}, of(report, "v"))
}

// Each of two restores into the same target was killed: the volume is named once, by the one that it was made during.
func TestCollect_OrphanOfOneOfTwoRestores_IsNamedByTheLastThatHadBegun(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, _, id := p.provisioned(t, made("tidb", "tikv-copy-tikv-2", "pvc-9"))
	p.began(t, "a-later", copied, -time.Minute, region)
	p.began(t, "w-last", copied, time.Hour, region)
	report, err := Collect(t.Context(), p.deps, Options{Rate: fast})
	require.NoError(t, err)
	require.Equal(t, map[string]Action{string(id): ActionKeep}, of(report, "a-later"))
	require.Empty(t, of(report, "v"))
	require.Empty(t, of(report, "w-last"))
}

// began writes the journal of a restore that began at that distance from now, and died.
func (p *place) began(t *testing.T, run cluster.RunID, target cluster.Name, ago time.Duration, in string) {
	t.Helper()
	data, err := json.Marshal(journal.About{
		Operation: journal.Restore, Cluster: target, Backup: "b", Region: in, Kubernetes: "https://k", KubernetesUID: "uid-k",
	})
	require.NoError(t, err)
	require.NoError(t, journal.NewStoreJournal(p.deps.Store, manifest.JournalPrefix(run)).Append(t.Context(),
		phase.Record{Seq: 1, Run: run, Time: time.Now().Add(ago), Type: phase.RecordRun, Data: data}))
}

func TestCollect_VolumeThatIsNoOrphan_IsNotNamed(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		tags   ebs.Tags
		change func(*testing.T, *place, *kubernetes, *ebstest.Server, cluster.VolumeID)
	}{
		"of another namespace": {tags: made("other", "pd-copy-pd-0", "pvc-9")},
		"of another cluster":   {tags: made("tidb", "pd-prod-pd-0", "pvc-9")},
		"attached": {change: func(t *testing.T, _ *place, _ *kubernetes, s *ebstest.Server, id cluster.VolumeID) {
			require.NoError(t, s.Attach(id, s.AddInstance(region+"a")))
		}},
		"a PV names it": {change: func(_ *testing.T, _ *place, k *kubernetes, _ *ebstest.Server, id cluster.VolumeID) {
			k.left["another"] = kube.RestoreLeftover{Volumes: []string{"renamed"}, Handles: []cluster.VolumeID{id}}
		}},
		"its PV is there": {change: func(_ *testing.T, _ *place, k *kubernetes, _ *ebstest.Server, _ cluster.VolumeID) {
			k.left["another"] = kube.RestoreLeftover{Volumes: []string{"pvc-9"}, Handles: []cluster.VolumeID{"vol-other"}}
		}},
		"a claim waits for it": {change: func(_ *testing.T, _ *place, k *kubernetes, _ *ebstest.Server, _ cluster.VolumeID) {
			k.claims = map[string]string{"pd-copy-pd-0": ""}
		}},
		"a claim is bound to its PV": {change: func(_ *testing.T, _ *place, k *kubernetes, _ *ebstest.Server, _ cluster.VolumeID) {
			k.claims = map[string]string{"pd-copy-pd-0": "pvc-9"}
		}},
		"its run served": {change: func(t *testing.T, p *place, _ *kubernetes, _ *ebstest.Server, _ cluster.VolumeID) {
			p.record(t, "v", 3, phase.Record{Type: phase.RecordDone, Step: journal.StepAwaitLeaders})
		}},
		"Kubernetes cannot be asked": {change: func(_ *testing.T, p *place, _ *kubernetes, _ *ebstest.Server, _ cluster.VolumeID) {
			p.deps.Kube = nil
		}},
		"in another Kubernetes cluster": {change: func(_ *testing.T, _ *place, k *kubernetes, _ *ebstest.Server, _ cluster.VolumeID) {
			k.uid = "uid-2"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			tags := row.tags
			if tags == nil {
				tags = made("tidb", "pd-copy-pd-0", "pvc-9")
			}
			k, server, id := p.provisioned(t, tags)
			if row.change != nil {
				row.change(t, p, k, server, id)
			}
			report, err := Collect(t.Context(), p.deps, Options{Rate: fast})
			require.NoError(t, err)
			require.NotContains(t, actions(report), string(id), reasons(report))
		})
	}
}

// What was made before the run began, or in a region that the run did not use, is none of its.
func TestCollect_VolumeThatNoRestoreCanHaveLeft_IsNotNamed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	other := cluster.Name{Namespace: "tidb", Name: "second"}
	_, server, older := p.provisioned(t, made("tidb", "pd-second-pd-0", "pvc-9"))
	elsewhere, err := server.CreateVolumeDirect(region+"a", cluster.VolumeSpec{Type: "gp3", SizeGiB: 20}, made("tidb", "pd-third-pd-0", "pvc-8"))
	require.NoError(t, err)
	p.began(t, "s", other, time.Hour, region)
	p.began(t, "e", cluster.Name{Namespace: "tidb", Name: "third"}, -time.Hour, "eu-central-1")
	report, err := Collect(t.Context(), p.deps, Options{Rate: fast})
	require.NoError(t, err)
	require.NotContains(t, actions(report), string(older))
	require.NotContains(t, actions(report), string(elsewhere))
}

// The claim was made again since and has another volume: what it had before is an orphan all the same.
func TestCollect_ClaimHasAnotherVolumeByNow_TheFirstIsNamed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	tags := made("tidb", "pd-copy-pd-0", "pvc-9")
	delete(tags, "KubernetesCluster")
	delete(tags, "kubernetes.io/cluster/eks-1")
	k, _, id := p.provisioned(t, tags)
	k.claims = map[string]string{"pd-copy-pd-0": "pvc-10"}
	report, err := Collect(t.Context(), p.deps, Options{Rate: fast})
	require.NoError(t, err)
	require.Equal(t, map[string]Action{string(id): ActionKeep}, of(report, "v"))
	require.Contains(t, reasons(report), "its tags do not name its Kubernetes cluster")
}

// While the run may be alive no deletion of what may be its own is advised.
func TestCollect_OrphanOfARunThatMayBeAlive_IsLeftToIt(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, _, id := p.provisioned(t, made("tidb", "pd-copy-pd-0", "pvc-9"))
	report, err := Collect(t.Context(), p.deps, Options{Rate: fast, OlderThan: 2 * time.Hour})
	require.NoError(t, err)
	require.Equal(t, map[string]Action{string(id): ActionKeep}, of(report, "v"))
	require.NotContains(t, reasons(report), "delete-volume")
	p.lockOf(t, copied, "v")
	report, err = Collect(t.Context(), p.deps, Options{Rate: fast})
	require.NoError(t, err)
	require.Equal(t, map[string]Action{string(id): ActionInUse}, of(report, "v"))
}

// A volume that carries a run is decided about as that run's, once.
func TestCollect_RestoredVolumeWithTheDriversTags_IsItsRunsAlone(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	tags := made("tidb", "tikv-copy-tikv-0", "pv-1")
	maps.Copy(tags, ebs.Tags{ebs.TagRun: "v", ebs.TagCluster: copied.String()})
	_, _, id := p.provisioned(t, tags)
	report, err := Collect(t.Context(), p.deps, Options{Rate: fast, DryRun: true})
	require.NoError(t, err)
	require.Equal(t, map[string]Action{string(id): ActionDelete}, of(report, "v"))
}
