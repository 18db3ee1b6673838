package backup

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/wait"
)

// MarksPolicy decides whether a backup reads marks of the regions' raft logs before the hold.
type MarksPolicy string

// The policies. With AutoMarks a backup is made without marks if there can be none.
const (
	AutoMarks MarksPolicy = "auto"
	NoMarks   MarksPolicy = "off"
)

// wanted reports whether to read marks. They must be read before the hold, which is impossible if another process holds
// the cluster.
func (m *marker) wanted() bool { return m.opts.Marks != NoMarks && !m.opts.OtherHolds }

// MarksPolicies lists the policies, the default first.
func MarksPolicies() []string { return []string{string(AutoMarks), string(NoMarks)} }

// ParseMarksPolicy returns a Usage error for an unknown policy.
func ParseMarksPolicy(s string) (MarksPolicy, error) {
	switch p := MarksPolicy(s); p {
	case AutoMarks, NoMarks:
		return p, nil
	}
	return "", failure.New(failure.Usage, "check options", "", "--marks %q: want auto or off", s)
}

const (
	// marksLimit bounds the reading of all marks: 50,000 regions per store take 5 s.
	marksLimit = 2 * time.Minute
	// marksInterval is how often the resolved ts, which must pass the marks, is read: TiKV advances it every 20 s by
	// default, or every second.
	marksInterval = 200 * time.Millisecond
)

// marksShown is the number of regions between two updates of the progress.
const marksShown = 1024

// marker reads marks of the regions' raft logs before the hold, and stores them after the cut.
type marker struct {
	pd      pd.Members
	tikv    tikv.Marker
	catalog catalog.Catalog
	opts    Options
	markReading
}

// markReading is what was read before the hold, and the marks made from it after the cut.
type markReading struct {
	reading *marks.Reading // nil without marks
	ts      cluster.TS     // taken after the last
	started map[cluster.StoreID]time.Time
	set     *marks.Set // made from the reading after the cut
	regions int        // in the cluster then
	stored  *manifest.Marks
}

// read reads where the regions' logs end, waits until the resolved ts has passed the marks, and returns it; 0 without
// marks. It changes nothing. Marks are optional, so only the end of ctx is an error.
func (m *marker) read(ctx context.Context, s *phase.Scope, of *cluster.Topology) (passed cluster.TS, err error) {
	m.markReading = markReading{}
	got, err := m.try(ctx, s, of)
	switch {
	case ctx.Err() != nil:
		return 0, failure.Annotate(context.Cause(ctx), "read marks", m.opts.Cluster.String())
	case err != nil:
		s.Warn("the backup has no marks, so a restore flashes back every region: %v", err)
		return 0, nil
	case got.reading == nil:
		return 0, nil
	}
	m.markReading = got
	return marks.After(got.ts), nil
}

// try reads the marks and waits for the resolved ts. For an unsupported TiKV it returns none and no error.
func (m *marker) try(ctx context.Context, s *phase.Scope, of *cluster.Topology) (markReading, error) {
	limited, cancel := context.WithTimeout(ctx, marksLimit)
	defer cancel()
	version, err := m.unknownVersion(limited, of.Version)
	if err != nil {
		return markReading{}, err
	}
	if version != "" {
		s.Note("no marks: TiKV %s is not supported for marks, so a restore flashes back every region", version)
		return markReading{}, nil
	}
	got, err := m.collect(limited, s, of.Stores)
	if err != nil {
		return markReading{}, err
	}
	return got, m.pass(ctx, s, got.ts)
}

// unknownVersion returns the TiKV version that is not supported for marks: the cluster's, v, or a store's; "" if all
// are supported. During an upgrade the cluster's version is that of its oldest store.
func (m *marker) unknownVersion(ctx context.Context, v string) (string, error) {
	if !marks.Supported(v) {
		return v, nil
	}
	stores, err := m.liveTiKV(ctx)
	for _, st := range stores {
		if !marks.Supported(st.Version) {
			return cmp.Or(st.Version, "of no version"), nil
		}
	}
	return "", err
}

// collect reads the marks, then takes a timestamp.
func (m *marker) collect(ctx context.Context, s *phase.Scope, of []cluster.Store) (markReading, error) {
	name := m.opts.Cluster.String()
	started, err := m.startTimes(ctx)
	if err != nil {
		return markReading{}, err
	}
	regions, err := m.pd.Regions(ctx, cluster.KeyRange{})
	if err != nil {
		return markReading{}, failure.Annotate(err, "list regions", name)
	}
	var stores []marks.Source
	for _, st := range of {
		stores = append(stores, marks.Source{Store: st.ID, Address: st.Address})
	}
	s.Expect(int64(len(regions)), "regions")
	var done atomic.Int64
	reading, err := marks.Read(ctx, m.tikv, stores, regions, func() {
		if n := done.Add(1); n%marksShown == 0 {
			s.Reached(n)
		}
	})
	if err != nil {
		return markReading{}, err
	}
	if len(reading.Missing) > 0 {
		s.Note("stores %v do not show their raft logs: a restore flashes back all regions that they lead",
			reading.Missing)
	}
	if n := reading.Unsettled + reading.Failed; n > 0 {
		s.Note("%d of %d regions have no mark: %d were being written or changed, %d stores' answers are missing",
			n, len(regions), reading.Unsettled, reading.Failed)
	}
	now, err := m.pd.Now(ctx)
	if err != nil {
		return markReading{}, failure.Annotate(err, "take timestamp", name)
	}
	return markReading{reading: reading, ts: now, started: started, regions: len(regions)}, nil
}

// pass waits until the resolved ts exceeds the marks by their margin.
func (m *marker) pass(ctx context.Context, s *phase.Scope, ts cluster.TS) error {
	defer s.Part("await resolved ts")()
	waiting, cancel := context.WithTimeout(ctx, m.opts.MarksTimeout)
	defer cancel()
	err := wait.Until(waiting, wait.Every(marksInterval), func() (bool, error) {
		got, err := m.pd.ResolvedTS(waiting)
		return err == nil && got.TS >= marks.After(ts), err
	})
	if err == nil {
		return nil
	}
	if last := wait.EndOf(err).Last; last != nil && !errors.Is(last, context.DeadlineExceeded) {
		return failure.Annotate(last, "read resolved ts", m.opts.Cluster.String())
	}
	return failure.New(failure.Limited, "wait for resolved ts", m.opts.Cluster.String(),
		"within %s it did not pass the marks of %s",
		m.opts.MarksTimeout, ts.Time().Format(time.RFC3339Nano))
}

// store stores the marks and returns the manifest's description of them; nil without marks. It may be repeated.
func (m *marker) store(ctx context.Context, s *phase.Scope) (*manifest.Marks, error) {
	if m.stored != nil || m.reading == nil {
		return m.stored, nil
	}
	if m.set == nil {
		restarted, err := m.restartedSince(ctx, m.started)
		if err != nil {
			return nil, err
		}
		if len(restarted) > 0 {
			s.Note("stores %v have restarted since their marks were read: a restore flashes back all regions that "+
				"they led", restarted)
		}
		m.set = m.reading.Set(restarted...)
		s.Note("marks of %d regions, read before %s", m.set.Len(), m.ts)
	}
	stored, err := m.catalog.PutMarks(ctx, m.opts.Backup, m.set, m.ts)
	if err == nil {
		stored.Of = m.regions
		m.stored = stored
	}
	return stored, err
}

// kept returns the cut's marks and the number of regions; nil and 0 if this process has none.
func (m *marker) kept() (*marks.Set, int) {
	if m.set == nil {
		return nil, 0
	}
	return m.set, m.regions
}

// restartedSince lists the stores whose process was restarted or is gone: what the earlier one reported may not have
// reached its volumes.
func (m *marker) restartedSince(ctx context.Context, started map[cluster.StoreID]time.Time) ([]cluster.StoreID, error) {
	now, err := m.startTimes(ctx)
	if err != nil {
		return nil, err
	}
	var restarted []cluster.StoreID
	for id, at := range started {
		if at.IsZero() || !now[id].Equal(at) {
			restarted = append(restarted, id)
		}
	}
	slices.Sort(restarted)
	return restarted, nil
}

// startTimes returns when each TiKV store's process started, as PD reports it.
func (m *marker) startTimes(ctx context.Context) (map[cluster.StoreID]time.Time, error) {
	stores, err := m.liveTiKV(ctx)
	started := make(map[cluster.StoreID]time.Time, len(stores))
	for _, st := range stores {
		started[st.ID] = st.StartedAt
	}
	return started, err
}

// liveTiKV lists the TiKV stores that are not tombstones.
func (m *marker) liveTiKV(ctx context.Context) ([]pd.Store, error) {
	all, err := m.pd.Stores(ctx)
	return slices.DeleteFunc(all, func(st pd.Store) bool { return !live(st) }),
		failure.Annotate(err, "list stores", m.opts.Cluster.String())
}

func live(st pd.Store) bool { return st.IsTiKV() && st.State != pd.StoreTombstone }
