package drill_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/drill"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/storage"
)

// deletions are what a drill asked to delete, as it was when that was asked for the last time.
type deletions struct {
	*lab
	own string // id of the storage

	mu      sync.Mutex
	rng     *rand.Rand
	faults  bool
	cancel  func() // of the drill, at the call numbered
	at      int
	objects map[string]*unstructured.Unstructured // by call
	volumes map[cluster.VolumeID]ebs.Volume
}

// watch keeps what there is right before a deletion, and answers some calls wrongly.
func (d *deletions) watch(point string) *fault.Rule {
	d.mu.Lock()
	defer d.mu.Unlock()
	if kind, is := strings.CutPrefix(point, "kube.delete."); is {
		for _, o := range d.server.List(kind, "") {
			d.objects[strings.TrimPrefix(strings.Join([]string{"delete " + kind + " " + o.GetNamespace(), o.GetName()}, "/"), "/")] = o
		}
	}
	if point == "ec2.DeleteVolume" {
		for _, v := range d.lab.volumes() {
			d.volumes[v.ID] = v
		}
	}
	if !d.faults {
		return nil
	}
	if d.at--; d.at == 0 {
		d.cancel()
	}
	if d.rng.IntN(25) > 0 {
		return nil
	}
	if point == "kube.delete.pods" {
		return &fault.Rule{Position: fault.Before, Code: "Conflict"} // that one is gone is believed
	}
	codes := map[string][]string{
		"kub": {"InternalError", "TooManyRequests", "Conflict", "Forbidden", "NotFound"},
		"ec2": {"InternalError", "RequestLimitExceeded", "UnauthorizedOperation"},
	}[point[:3]]
	if len(codes) == 0 || d.rng.IntN(3) == 0 {
		return &fault.Rule{Position: fault.After}
	}
	return &fault.Rule{Position: fault.Before, Code: codes[d.rng.IntN(len(codes))]}
}

// others puts beside the drill what is like its own and is not: a restore, a cage, a probe, and volumes with all tags of the
// drill's but one.
func (d *deletions) others(t *testing.T) {
	t.Helper()
	own, err := storage.Open(within(t), d.store, "v0")
	require.NoError(t, err)
	d.own = own.ID
	d.otherTarget(t)
	require.NoError(t, d.probe(outside, "other"))
	_, err = d.kube.Cages().Make(within(t), cage.Spec{
		Run: "0-another", Storage: own.ID, Expires: time.Now(), Pods: 1, Claims: 1, StorageGiB: 1,
	})
	require.NoError(t, err)
	d.during = func(to drill.Target) error {
		for _, changed := range []string{ebs.TagRun, ebs.TagDrill, ebs.TagStorage} {
			tags := ebs.Tags{ebs.TagRun: string(to.Run), ebs.TagDrill: string(runID), ebs.TagStorage: own.ID}
			tags[changed] = "other"
			if _, err := d.ec2.CreateVolumeDirect(zone, cluster.VolumeSpec{Type: "gp3", SizeGiB: 1}, tags); err != nil {
				return err
			}
		}
		return nil
	}
}

// foreign returns why the drill may not delete what a call names; "" if it may.
func (d *deletions) foreign(call string, uids map[string]bool) string {
	space := cage.Name(runID)
	if id, is := strings.CutPrefix(call, "DeleteVolume "); is {
		v, seen := d.volumes[cluster.VolumeID(id)]
		if !seen || v.Tags[ebs.TagDrill] != string(runID) || v.Tags[ebs.TagStorage] != d.own || v.Tags[ebs.TagRun] == "other" {
			return fmt.Sprintf("the tags are %v", v.Tags)
		}
		return ""
	}
	o := d.objects[strings.Replace(call, "persistentvolumes ", "persistentvolumes /", 1)]
	if o == nil {
		o = d.objects[call]
	}
	switch {
	case strings.HasPrefix(call, "delete namespaces "):
		if call != "delete namespaces "+space || o != nil && !uids[string(o.GetUID())] {
			return "it is not the cage that the run made"
		}
	case strings.HasPrefix(call, "delete persistentvolumes "):
		if o == nil || o.GetAnnotations()[runmark.Key] == "other" || o.GetAnnotations()[runmark.Key] == "" {
			return "no restore of the drill made it"
		}
	case strings.HasPrefix(call, "delete pods "+outside+"/"):
		if o == nil || !runmark.MadeBy(o, runID) {
			return "it is no probe of the drill"
		}
	case !strings.Contains(call, " "+space+"/"):
		return "it is outside of the cage"
	}
	return ""
}

// A drill, and what cleans up after it, ask for no deletion of anything that does not carry the run's id or is not in the
// namespace whose UID the run recorded: whatever EC2 and Kubernetes answer, wherever it is cancelled, and whichever TiDB Operator
// runs its cluster.
func TestRun_EveryDeleteNamesItsOwn(t *testing.T) {
	t.Parallel()
	for operator, seeds := range map[int]uint64{1: 12, 2: 8} {
		for seed := range seeds {
			t.Run(fmt.Sprint("Operator ", operator, ".x, seed ", seed), func(t *testing.T) {
				t.Parallel()
				d := &deletions{
					lab: newLabOf(t, operator), rng: rand.New(rand.NewPCG(seed, 7)),
					objects: map[string]*unstructured.Unstructured{}, volumes: map[cluster.VolumeID]ebs.Volume{},
				}
				d.drillAndClean(t)
			})
		}
	}
}

func (d *deletions) drillAndClean(t *testing.T) {
	t.Helper()
	d.others(t)
	calls, before := len(d.server.MutatingCalls()), d.server.Everything()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	d.cancel, d.at, d.faults = cancel, 10+d.rng.IntN(150), true
	d.lab.faults.Watch(d.watch)
	d.ec2Err.Watch(d.watch)
	o := options()
	o.TearDownWithin = time.Second
	r, _ := drill.Run(ctx, d.deps(), o) // whatever becomes of it
	d.mu.Lock()
	d.faults = false
	d.mu.Unlock()
	if r.TearDown != drill.Gone {
		if _, err := drill.Clean(within(t), d.deps(), options()); !failure.Is(err, failure.NotFound) {
			require.NoError(t, err)
		}
	}
	d.lab.faults.Watch(nil)
	d.ec2Err.Watch(nil)
	d.requireOwn(t, calls)
	now := d.server.Everything()
	require.Subset(t, now, before)
	for _, o := range now {
		require.NotContains(t, o, cage.Name(runID))
	}
	for _, o := range d.server.List("persistentvolumes", "") {
		of, _, _ := unstructured.NestedString(o.Object, "spec", "claimRef", "namespace")
		require.Equal(t, "tidb", of, o.GetName())
	}
}

// requireOwn requires that the drill has deleted what was its own, and nothing else.
func (d *deletions) requireOwn(t *testing.T, before int) {
	t.Helper()
	uids := map[string]bool{}
	for _, record := range d.records(t) {
		if at := strings.Index(string(record.Data), `"uid":"`); at >= 0 {
			uid, _, _ := strings.Cut(string(record.Data)[at+len(`"uid":"`):], `"`)
			uids[uid] = true
		}
	}
	for _, call := range append(d.server.MutatingCalls()[before:], d.ec2.MutatingCalls()...) {
		if strings.HasPrefix(strings.ToLower(call), "delete") {
			require.Empty(t, d.foreign(call, uids), call)
		}
	}
	for _, v := range d.lab.volumes() {
		require.Contains(t, []string{v.Tags[ebs.TagRun], v.Tags[ebs.TagDrill], v.Tags[ebs.TagStorage]}, "other")
	}
}
