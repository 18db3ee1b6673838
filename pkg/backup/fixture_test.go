package backup_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// scale is how many times as fast EC2 is: the 15 s between two snapshots of a volume pass in 0.75 s.
const scale = 20

var prod = cluster.Name{Namespace: "tidb", Name: "prod"}

func TestMain(m *testing.M) {
	awsenv.MustIsolate()
	backup.UndoEarlyWithin(10 * time.Second)
	goleak.VerifyTestMain(m)
}

// rig is a cluster in a testbed and what a backup of it needs.
type rig struct {
	bed    *testbed.Testbed
	c      *testbed.Cluster
	faults *fault.Plan
	deps   backup.Deps
	ebs    *spyEBS
	store  *spyStore
	tikv   *tikv.Client
	events *sink
	runs   int
}

func newRig(t *testing.T, change ...func(*ebstest.Rules)) *rig {
	t.Helper()
	r := &rig{faults: &fault.Plan{}, events: &sink{}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rules := ebstest.QuickRules()
	for _, f := range change {
		f(rules)
	}
	var err error
	r.bed, err = testbed.Start(context.WithoutCancel(ctx), testbed.Config{
		Dir: t.TempDir(), Nodes: 3, Scale: scale, Faults: r.faults, Rules: rules,
	})
	require.NoError(t, err)
	t.Cleanup(r.bed.Close)
	r.c, err = r.bed.CreateCluster(ctx, prod, 3)
	require.NoError(t, err)
	k, err := kube.Open(kube.Config{Kubeconfig: r.bed.Kubeconfig()})
	require.NoError(t, err)
	p, err := pd.Open(ctx, pd.Config{Addresses: r.c.PD.URLs()})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	e, err := ebs.Open(ctx, ebs.Config{Region: testbed.Region, Endpoint: r.bed.AWS()})
	require.NoError(t, err)
	t.Cleanup(e.Close)
	r.tikv = tikv.Open(tikv.Config{})
	t.Cleanup(r.tikv.Close)
	r.ebs, r.store = &spyEBS{EBS: e}, &spyStore{Store: objstoretest.NewMemory(nil)}
	r.deps = backup.Deps{Kube: k, PD: p, TiKV: r.tikv, EBS: r.ebs, Store: r.store, Sink: r.events}
	return r
}

// options are those of the next run.
func (r *rig) options() backup.Options {
	r.runs++
	run := cluster.RunID(fmt.Sprintf("run-%d", r.runs))
	return backup.Options{
		Cluster: prod, Backup: cluster.BackupID(fmt.Sprintf("b-%d", r.runs)), Run: run, Tool: "test",
		Owner:   runlock.Owner{Run: run, Host: "here", PID: 1, Command: "backup"},
		Marks:   backup.NoMarks, // its own tests have them: each costs a second and more
		MaxHold: 30 * time.Second, Lease: 25 * time.Second, Timeout: time.Minute,
		HoldAttempts: 1, Steady: time.Second, SteadyTimeout: 40 * time.Second, // 15 s are 0.75 s
		Visibility: 5 * time.Second, // the stand-in hides ids for up to 2 s, and a cancelled call may be carried out late
	}
}

func (r *rig) run(ctx context.Context, t *testing.T, o backup.Options) (*backup.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	return backup.Run(ctx, r.deps, o)
}

// held lists what is still paused.
func (r *rig) held(ctx context.Context) []string {
	var out []string
	for _, s := range r.c.PD.Schedulers() {
		if !s.ResumeAt.IsZero() {
			out = append(out, "scheduler "+s.Name)
		}
	}
	for item := range r.c.PD.TTLConfigs() {
		out = append(out, "limit "+item)
	}
	for service := range r.c.PD.ServiceSafePoints() {
		if service != "gc_worker" {
			out = append(out, "safe point "+service)
		}
	}
	for _, s := range r.c.Stores() {
		if denied, err := r.tikv.ResumeImport(ctx, s.Addr(), "test"); err != nil || denied {
			out = append(out, fmt.Sprintf("imports of store %d (%v)", s.ID(), err))
		}
		l, err := r.tikv.OpenLease(ctx, s.Addr())
		if err != nil {
			out = append(out, fmt.Sprintf("store %d: %v", s.ID(), err))
			continue
		}
		if valid, err := l.Finish(ctx); err != nil || valid {
			out = append(out, fmt.Sprintf("lease of store %d (%v)", s.ID(), err))
		}
	}
	return out
}

// requireUndone checks that nothing of a failed run is left: no hold, no lock, no snapshot, no manifest; and
// that the journal records it.
func (r *rig) requireUndone(t *testing.T, o backup.Options) {
	t.Helper()
	require.Empty(t, r.held(t.Context()))
	require.Empty(t, r.bed.EC2.Snapshots())
	for _, key := range []string{manifest.ManifestKey(o.Backup), manifest.SealKey(o.Backup), manifest.BackupMetaKey(o.Backup)} {
		body, _, err := r.store.Get(t.Context(), key)
		require.True(t, failure.Is(err, failure.NotFound) || manifest.DecodeTombstone(body) != nil, key)
	}
	r.requireUnlocked(t)
	if records := r.journal(t, o); len(records) > 0 {
		last := records[len(records)-1]
		require.Equal(t, phase.RecordEnd, last.Type)
		require.NotEmpty(t, last.Error)
	}
}

func (r *rig) requireUnlocked(t *testing.T) {
	t.Helper()
	lock, _, err := runlock.Read(t.Context(), r.store, prod)
	require.True(t, failure.Is(err, failure.NotFound) || err == nil && !lock.Held(time.Now()), "lock %+v: %v", lock, err)
}

func (r *rig) requireSealed(t *testing.T, o backup.Options) {
	t.Helper()
	_, _, err := r.store.Get(t.Context(), manifest.SealKey(o.Backup))
	require.NoError(t, err)
	require.Len(t, r.bed.EC2.Snapshots(), 6, "exactly one of each volume")
	require.Empty(t, r.held(t.Context()))
	r.requireUnlocked(t)
}

func (r *rig) journal(t *testing.T, o backup.Options) []phase.Record {
	t.Helper()
	records, err := journal.NewStoreJournal(r.store, manifest.JournalPrefix(o.Run)).Records(t.Context())
	require.NoError(t, err)
	return records
}

func (r *rig) fault(t *testing.T, rule fault.Rule) {
	t.Helper()
	require.NoError(t, r.faults.Add(rule))
}

// spyEBS is the real adapter; a test may watch its calls.
type spyEBS struct {
	backup.EBS
	describe, attachments func()
	cut                   func(req ebs.CutRequest, call func() ([]ebs.Snapshot, error)) ([]ebs.Snapshot, error)
	hide                  func(ebs.Snapshot) bool // EC2 does not show it yet
	tags                  ebs.Tags                // that all snapshots found carry, too
	shown                 func([]ebs.Snapshot) []ebs.Snapshot
	beforeDelete          func() // one call at a time
	deleting              sync.Mutex
}

func (s *spyEBS) DeleteSnapshot(ctx context.Context, id cluster.SnapshotID) error {
	if s.beforeDelete != nil {
		func() {
			s.deleting.Lock()
			defer s.deleting.Unlock()
			s.beforeDelete()
		}()
	}
	return s.EBS.DeleteSnapshot(ctx, id)
}

func (s *spyEBS) Cut(ctx context.Context, req ebs.CutRequest) ([]ebs.Snapshot, error) {
	call := func() ([]ebs.Snapshot, error) { return s.EBS.Cut(ctx, req) }
	if s.cut != nil {
		return s.cut(req, call)
	}
	return call()
}

func (s *spyEBS) FindSnapshots(ctx context.Context, tags ebs.Tags) ([]ebs.Snapshot, error) {
	found, err := s.EBS.FindSnapshots(ctx, tags)
	if s.hide != nil {
		found = slices.DeleteFunc(found, s.hide)
	}
	for i := range found {
		maps.Copy(found[i].Tags, s.tags)
	}
	return found, err
}

func (s *spyEBS) Attachments(ctx context.Context, ids []cluster.InstanceID) (ebs.Attachments, error) {
	if s.attachments != nil {
		s.attachments()
	}
	return s.EBS.Attachments(ctx, ids)
}

func (s *spyEBS) DescribeSnapshots(ctx context.Context, ids []cluster.SnapshotID) ([]ebs.Snapshot, error) {
	if s.describe != nil {
		s.describe()
	}
	found, err := s.EBS.DescribeSnapshots(ctx, ids)
	if s.shown != nil {
		found = s.shown(found)
	}
	return found, err
}

var errNoAnswer = errors.New("no answer")

// spyStore is a store in memory whose writes of one file can be refused, lose their answer or arrive late. A
// tombstone is never refused.
type spyStore struct {
	objstore.Store
	refuse, lose string // file names
	lostKind     failure.Kind
	unread       string // a file that cannot be read the first time that it is there
	late         func() // carries the refused write out
	away         func(key string) bool
}

func (s *spyStore) Get(ctx context.Context, key string) ([]byte, objstore.Version, error) {
	body, version, err := s.Store.Get(ctx, key)
	if s.unread != "" && strings.HasSuffix(key, s.unread) && err == nil {
		s.unread = ""
		return nil, "", failure.New(failure.Denied, "get object", key, "no permission")
	}
	return body, version, err
}

func (s *spyStore) Create(ctx context.Context, key string, body []byte) (objstore.Version, error) {
	if s.away != nil && s.away(key) {
		return "", failure.New(failure.Limited, "put object", key, "503")
	}
	if s.refuse != "" && strings.HasSuffix(key, s.refuse) && manifest.DecodeTombstone(body) == nil {
		s.late = func() { _, _ = s.Store.Create(context.WithoutCancel(ctx), key, body) }
		return "", failure.New(failure.Denied, "put object", key, "no permission")
	}
	v, err := s.Store.Create(ctx, key, body)
	if err == nil && s.lose != "" && strings.HasSuffix(key, s.lose) {
		return "", failure.Wrap(errNoAnswer, s.lostKind, "put object", key)
	}
	return v, err
}

// sink calls a function at the start of a step.
type sink struct {
	mu       sync.Mutex
	step     string
	do       func()
	messages []string
}

// texts are the notes and warnings so far.
func (s *sink) texts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.messages)
}

func (s *sink) at(step string, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step, s.do = step, do
}

func (s *sink) Emit(e phase.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Message != "" {
		s.messages = append(s.messages, e.Message)
	}
	if e.Type == phase.StepStarted && e.Step == s.step && s.do != nil {
		s.do()
	}
}
