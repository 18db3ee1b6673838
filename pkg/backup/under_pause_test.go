package backup_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

const readingKey = "/tisnap/early-apply-reading"

// pausing is a pause and what happens beside it. It is the other process: what it knows, the backup has to find in PD.
type pausing struct {
	policy    backup.EarlyApplyPolicy
	early     tikv.EarlyApplier         // how the pause reaches the stores; nil is as the backup does
	published func()                    // is called when the replicas were read and published, and nothing is held yet
	stores    func(list []pd.Store)     // changes what PD lists to the pause
	held      func(ctx context.Context) // is called while all is held; its end ends the pause
}

type pausedPD struct {
	backup.PD
	p pausing
}

func (p pausedPD) Stores(ctx context.Context) ([]pd.Store, error) {
	list, err := p.PD.Stores(ctx)
	if p.p.stores != nil {
		p.p.stores(list)
	}
	return list, err
}

func (p pausedPD) PutNote(ctx context.Context, name string, body []byte, revision int64) error {
	err := p.PD.PutNote(ctx, name, body, revision)
	if "/tisnap/"+name == readingKey && body != nil && p.p.published != nil {
		p.p.published()
	}
	return err
}

func (p pausing) run(t *testing.T, r *rig, run cluster.RunID) error {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), 2*time.Minute)
	defer end()
	if p.early == nil {
		p.early = r.deps.EarlyApply
	}
	deps := backup.PauseDeps{PD: pausedPD{r.deps.PD, p}, TiKV: r.deps.TiKV, EarlyApply: p.early, Log: zap.NewNop()}
	return backup.Pause(ctx, deps, backup.PauseOptions{
		Cluster: prod, Run: run, Lease: 30 * time.Second, MaxHold: time.Minute, EarlyApply: p.policy,
		Ready: func() {
			p.held(ctx)
			end()
		},
	})
}

// readings are the documents in PD of what replicas reported.
func (r *rig) readings() map[string]string {
	found := map[string]string{}
	for _, key := range []string{readingKey, readingKey + "-0", readingKey + "-1"} {
		if text, there := r.c.PD.Etcd(key); there {
			found[key] = text
		}
	}
	return found
}

// underPause takes a backup under a pause, which puts all back and leaves nothing in PD.
func (r *rig) underPause(t *testing.T, p pausing, o backup.Options) (*backup.Result, error) {
	t.Helper()
	o.OtherHolds = true
	var result *backup.Result
	var err error
	during := p.held
	p.held = func(ctx context.Context) {
		if during != nil {
			during(ctx)
		}
		result, err = r.run(ctx, t, o)
	}
	before := r.limits(t)
	require.NoError(t, p.run(t, r, "pause"))
	require.Equal(t, before, r.limits(t))
	return result, err
}

func (r *rig) requireWarned(t *testing.T, text string) {
	t.Helper()
	messages := r.events.texts()
	require.True(t, slices.ContainsFunc(messages, func(s string) bool { return strings.Contains(s, text) }), "%q in %q", text, messages)
}

// transfer moves the leadership of a region, as an election does, and gives the region. PD may move it back at once: what
// counts is that it was led in another term.
func (r *rig) transfer(t *testing.T) cluster.RegionID {
	t.Helper()
	stores := r.c.Stores()
	was := tikvtest.PeerState{}
	for _, s := range stores {
		for _, p := range s.Peers() {
			if p.Serving {
				was = p
			}
		}
	}
	require.NotNil(t, was.Region, "no store leads a region")
	require.Eventually(t, func() bool {
		for i, s := range stores {
			for _, p := range s.Peers() {
				if p.Region.Id != was.Region.Id || !p.Serving {
					continue
				}
				if p.Term > was.Term {
					return true
				}
				_ = s.TransferLeader(p.Region.Id, stores[(i+1)%len(stores)].ID()) // it may be dropped
			}
		}
		return false
	}, 20*time.Second, 20*time.Millisecond)
	return cluster.RegionID(was.Region.Id)
}

func TestBackup_UnderAPause_IsProven(t *testing.T) {
	t.Parallel()
	for _, policy := range []backup.EarlyApplyPolicy{backup.PreventEarlyApply, backup.RequireNoEarlyApply} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			r := newEarlyRig(t)
			o := r.options()
			o.EarlyApply = policy
			var during map[string]string
			result, err := r.underPause(t, pausing{held: func(context.Context) { during = r.readings() }}, o)
			require.NoError(t, err)
			require.Equal(t, &manifest.EarlyApply{State: manifest.EarlyApplyExcluded}, result.Manifest.EarlyApply)
			r.requireSealed(t, o)
			require.Len(t, during, 2)
			require.Empty(t, r.readings(), "the pause removes it at its end")
			r.requireNoRecord(t)
		})
	}
}

func TestBackup_UnderAPause_LeaderChangesAfterTheReading_IsUnproven(t *testing.T) {
	t.Parallel()
	r := newEarlyRig(t)
	require.NoError(t, r.c.SplitAt(t.Context(), []byte("m")))
	var moved cluster.RegionID
	result, err := r.underPause(t, pausing{published: func() { moved = r.transfer(t) }}, r.options())
	require.NoError(t, err)
	want := &manifest.EarlyApply{State: manifest.EarlyApplyUnproven, Regions: []cluster.RegionID{moved}}
	require.Equal(t, want, result.Manifest.EarlyApply)
}

func TestBackup_UnderAPause_StoreRestartsAfterTheReading_IsUnproven(t *testing.T) {
	t.Parallel()
	r := newEarlyRig(t)
	restarted := cluster.StoreID(r.c.Stores()[1].ID())
	result, err := r.underPause(t, pausing{stores: func(list []pd.Store) {
		for i := range list {
			if list[i].ID == restarted {
				list[i].StartedAt = list[i].StartedAt.Add(-time.Hour) // the process that was there before
			}
		}
	}}, r.options())
	require.NoError(t, err)
	want := &manifest.EarlyApply{State: manifest.EarlyApplyUnproven, Stores: []cluster.StoreID{restarted}}
	require.Equal(t, want, result.Manifest.EarlyApply)
}

// Someone turns early apply on again under the pause: what was read before the hold proves nothing then.
func TestBackup_UnderAPause_LimitIsOnAgain_IsUnproven(t *testing.T) {
	t.Parallel()
	r := newEarlyRig(t)
	on := r.c.Stores()[2]
	result, err := r.underPause(t, pausing{held: func(ctx context.Context) {
		require.NoError(t, r.tikv.SetEarlyApply(ctx, on.StatusAddr(), 1024))
	}}, r.options())
	require.NoError(t, err)
	require.Equal(t, manifest.EarlyApplyUnproven, result.Manifest.EarlyApply.State)
	require.Equal(t, []cluster.StoreID{cluster.StoreID(on.ID())}, result.Manifest.EarlyApply.Stores)
}

// halfSeen cannot read one store, and counts how often leaders were asked whether they apply early.
type halfSeen struct {
	tikv.EarlyApplier
	hidden string
	asked  atomic.Int64
}

func (h *halfSeen) EarlyApply(ctx context.Context, address string) (tikv.EarlyApply, error) {
	if address == h.hidden {
		return tikv.EarlyApply{}, failure.New(failure.Denied, "read early apply", address, "no")
	}
	return h.EarlyApplier.EarlyApply(ctx, address)
}

func (h *halfSeen) EarlyAppliers(ctx context.Context, address string) (int, error) {
	h.asked.Add(1)
	return h.EarlyApplier.EarlyAppliers(ctx, address)
}

// The store reports to the backup that its limit is 0; whether it was so before the cut is unknown.
func TestBackup_UnderAPause_StoreThatThePauseCouldNotRead_IsUnproven(t *testing.T) {
	t.Parallel()
	r := newEarlyRig(t)
	hidden := r.c.Stores()[1]
	require.NoError(t, r.tikv.SetEarlyApply(t.Context(), hidden.StatusAddr(), 0))
	result, err := r.underPause(t, pausing{early: &halfSeen{EarlyApplier: r.tikv, hidden: hidden.StatusAddr()}}, r.options())
	require.NoError(t, err)
	require.Equal(t, manifest.EarlyApplyUnproven, result.Manifest.EarlyApply.State)
	require.Equal(t, []cluster.StoreID{cluster.StoreID(hidden.ID())}, result.Manifest.EarlyApply.Stores)
}

// Limits that a dead run left off, a moment ago, do not show those of the leaders: they go by the old one until they tick.
func TestPause_LimitsAreOffAlready_LeadersAreAsked(t *testing.T) {
	t.Parallel()
	r := newEarlyRig(t)
	for _, s := range r.c.Stores() {
		require.NoError(t, r.tikv.SetEarlyApply(t.Context(), s.StatusAddr(), 0))
	}
	seen, before := &halfSeen{EarlyApplier: r.tikv}, int64(0)
	p := pausing{early: seen, published: func() { before = seen.asked.Load() }, held: func(context.Context) {}}
	require.NoError(t, p.run(t, r, "pause"))
	require.GreaterOrEqual(t, before, int64(3))
}

// killedReading is what a pause leaves in PD of its reading that is killed.
func killedReading(t *testing.T, r *rig) {
	t.Helper()
	var left map[string]string
	p := pausing{held: func(context.Context) { left = r.readings() }}
	require.NoError(t, p.run(t, r, "killed"))
	require.Len(t, left, 2)
	require.Empty(t, r.readings())
	for key, text := range left {
		r.c.PD.SetEtcd(key, text)
	}
}

func TestBackup_UnderAPauseThatReadNothing_IsUnproven(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		left    func(*testing.T, *rig)
		message string
	}{
		{"nothing was ever left", func(*testing.T, *rig) {}, "published none"},
		{"a pause that died has left its reading", killedReading, "run killed has left them, and run pause holds the cluster"},
		{"a pause that died has left a part of it", func(t *testing.T, r *rig) {
			killedReading(t, r)
			r.c.PD.SetEtcd(readingKey+"-0", "torn")
		}, "not whole"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newEarlyRig(t)
			tc.left(t, r)
			refused := r.options()
			refused.EarlyApply = backup.RequireNoEarlyApply
			result, err := r.underPause(t, pausing{policy: backup.IgnoreEarlyApply}, refused)
			require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, tc.message)
			require.False(t, result.Sealed)
			require.Empty(t, r.bed.EC2.Snapshots(), "it fails before its cut")

			o := r.options()
			result, err = r.underPause(t, pausing{policy: backup.IgnoreEarlyApply}, o)
			require.NoError(t, err)
			require.Equal(t, &manifest.EarlyApply{State: manifest.EarlyApplyUnproven}, result.Manifest.EarlyApply)
			r.requireWarned(t, tc.message)
			r.requireSealed(t, o)
		})
	}
}

// The proof fails after the cut: with require nothing is sealed, and the snapshots are deleted.
func TestBackup_UnderAPause_RequiredAndUnproven_IsUndone(t *testing.T) {
	t.Parallel()
	r := newEarlyRig(t)
	o := r.options()
	o.EarlyApply = backup.RequireNoEarlyApply
	_, err := r.underPause(t, pausing{published: func() { r.transfer(t) }}, o)
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "--early-apply=require")
	r.requireUndone(t, o)
}

func TestBackup_UnderAPause_Ignored_IsUnprovenWithoutAWarning(t *testing.T) {
	t.Parallel()
	r := newEarlyRig(t)
	o := r.options()
	o.EarlyApply = backup.IgnoreEarlyApply
	result, err := r.underPause(t, pausing{}, o)
	require.NoError(t, err)
	require.Equal(t, &manifest.EarlyApply{State: manifest.EarlyApplyUnproven}, result.Manifest.EarlyApply)
	for _, message := range r.events.texts() {
		require.NotContains(t, message, "raft logs")
	}
}

// memberKube is the cluster as one of several Kubernetes clusters sees it, with the first store alone.
type memberKube struct{ kube.Clusters }

func (m memberKube) Cluster(ctx context.Context, name cluster.Name) (kube.TidbCluster, error) {
	tc, err := m.Clusters.Cluster(ctx, name)
	tc.Elsewhere = map[cluster.StoreID]bool{}
	for id, pod := range tc.Stores {
		if !strings.HasSuffix(pod, "-0") {
			tc.Elsewhere[id] = true
		}
	}
	tc.TiKVReplicas = 1
	return tc, err
}

func (m memberKube) TiKVPods(ctx context.Context, name cluster.Name) ([]kube.Pod, error) {
	pods, err := m.Clusters.TiKVPods(ctx, name)
	return slices.DeleteFunc(pods, func(p kube.Pod) bool { return p.Ordinal != 0 }), err
}

// A restore of a VolumeBackup over several Kubernetes clusters goes by one part's manifest: that must not rule out what
// another process cuts, at another time.
func TestBackup_UnderAPause_OfAPart_ProvesNothingOfTheOtherStores(t *testing.T) {
	t.Parallel()
	r := newEarlyRig(t)
	r.deps.Kube = memberKube{r.deps.Kube}
	required := r.options()
	required.EarlyApply = backup.RequireNoEarlyApply
	_, err := r.underPause(t, pausing{}, required)
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "in other Kubernetes clusters")
	require.Empty(t, r.bed.EC2.Snapshots())

	result, err := r.underPause(t, pausing{}, r.options())
	require.NoError(t, err)
	require.Len(t, result.Manifest.Source.Stores, 1)
	require.Equal(t, manifest.EarlyApplyUnproven, result.Manifest.EarlyApply.State)
	require.Len(t, result.Manifest.EarlyApply.Stores, 2)
	require.NotContains(t, result.Manifest.EarlyApply.Stores, result.Manifest.Source.Stores[0].ID)
	require.Empty(t, result.Manifest.EarlyApply.Regions)
}

// withoutSetting are stores of a version before early apply.
type withoutSetting struct{ tikv.EarlyApplier }

func (withoutSetting) EarlyApply(context.Context, string) (tikv.EarlyApply, error) {
	return tikv.EarlyApply{}, nil
}

func TestBackup_UnderAPause_NoStoreHasTheSetting_IsNotApplicable(t *testing.T) {
	t.Parallel()
	r := newEarlyRig(t)
	r.deps.EarlyApply = withoutSetting{r.tikv}
	o := r.options()
	o.EarlyApply = backup.RequireNoEarlyApply
	result, err := r.underPause(t, pausing{policy: backup.IgnoreEarlyApply}, o)
	require.NoError(t, err)
	require.Equal(t, &manifest.EarlyApply{State: manifest.EarlyApplyNotApplicable}, result.Manifest.EarlyApply)
}

// What a pause that was killed has read is of no use to anyone, and takes room in PD.
func TestPause_KilledReading_IsRemovedByTheNext(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(*testing.T, *rig){
		"pause": func(t *testing.T, r *rig) {
			require.NoError(t, pausing{held: func(context.Context) {}}.run(t, r, "next"))
		},
		"backup": func(t *testing.T, r *rig) {
			_, err := r.run(t.Context(), t, r.options())
			require.NoError(t, err)
		},
		"release": func(t *testing.T, r *rig) {
			o := backup.ReleaseOptions{Cluster: prod, EarlyApply: r.tikv}
			_, err := backup.Release(t.Context(), objstoretest.NewMemory(nil), r.deps.PD, r.tikv, o)
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newEarlyRig(t)
			killedReading(t, r)
			next(t, r)
			require.Empty(t, r.readings())
		})
	}
}

// A PD that takes no documents, or a store that cannot be read, ends no pause.
func TestPause_ReadingCannotBePublished_HoldsAllTheSame(t *testing.T) {
	t.Parallel()
	r := newEarlyRig(t)
	r.fault(t, fault.Rule{Point: "pd.EtcdTxn", Code: "400", Times: -1})
	result, err := r.underPause(t, pausing{}, r.options())
	require.NoError(t, err)
	require.Equal(t, manifest.EarlyApplyUnproven, result.Manifest.EarlyApply.State)
	require.Empty(t, r.readings())
}
