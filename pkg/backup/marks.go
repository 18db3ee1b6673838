package backup

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// MarksPolicy is whether a backup reads marks of the regions' raft logs before it holds the cluster.
type MarksPolicy string

// The policies. With AutoMarks a backup that cannot have marks is made without.
const (
	AutoMarks MarksPolicy = "auto"
	NoMarks   MarksPolicy = "off"
)

// marking reports whether marks are read. They come before the hold, and there is no time before one that another process
// has begun.
func (r *run) marking() bool { return r.opts.Marks != NoMarks && !r.opts.OtherHolds }

// MarksPolicies lists them, the default first.
func MarksPolicies() []string { return []string{string(AutoMarks), string(NoMarks)} }

// ParseMarksPolicy is Usage for what is none of them.
func ParseMarksPolicy(s string) (MarksPolicy, error) {
	switch p := MarksPolicy(s); p {
	case AutoMarks, NoMarks:
		return p, nil
	}
	return "", failure.New(failure.Usage, "check options", "", "--marks %q: want auto or off", s)
}

const (
	// marksLimit bounds the reading of all marks: 50,000 regions of a store take 5 s.
	marksLimit = 2 * time.Minute
	// marksInterval is how often the resolved ts is read that has to pass the marks: TiKV advances it every 20 s by
	// default, or once a second.
	marksInterval = 200 * time.Millisecond
)

// marksShown is every how many regions the progress is shown.
const marksShown = 1024

// markReading is what the step "marks" leaves for those after the cut.
type markReading struct {
	reading *marks.Reading // nil without marks
	ts      cluster.TS     // taken after the last
	started map[cluster.StoreID]time.Time
	set     *marks.Set // made of the reading after the cut
	regions int        // of the cluster then
	stored  *manifest.Marks
}

// readMarks notes where the regions' logs end, and waits until the resolved ts has passed the marks: only then does the
// hold begin. It is no part of the hold, and changes nothing. A backup that gets no marks is as good without them.
func (r *run) readMarks(ctx context.Context, s *phase.Scope) error {
	r.marks = markReading{}
	got, err := r.tryMarks(ctx, s)
	switch {
	case ctx.Err() != nil:
		return failure.Annotate(context.Cause(ctx), "read marks", r.opts.Cluster.String())
	case err != nil:
		s.Warn("the backup has no marks, so a restore takes back every region: %v", err)
		return nil
	case got.reading == nil:
		return nil
	}
	r.marks = got
	// From here on a resolved ts below this is one that went back.
	r.highestTS = max(r.highestTS, marks.After(got.ts))
	return nil
}

// tryMarks reads the marks and waits for the resolved ts. It returns none, and no error, of a TiKV that is not known.
func (r *run) tryMarks(ctx context.Context, s *phase.Scope) (markReading, error) {
	limited, cancel := context.WithTimeout(ctx, marksLimit)
	defer cancel()
	version, err := r.unknownVersion(limited)
	if err != nil {
		return markReading{}, err
	}
	if version != "" {
		s.Note("no marks: what TiKV %s reports of its logs is not known, so a restore takes back every region", version)
		return markReading{}, nil
	}
	got, err := r.collectMarks(limited, s)
	if err != nil {
		return markReading{}, err
	}
	return got, r.passMarks(ctx, s, got.ts)
}

// unknownVersion is the TiKV version, of the cluster or of a store, whose reports are not known; "" if all are known. In the
// middle of an upgrade the cluster's version is that of its oldest store.
func (r *run) unknownVersion(ctx context.Context) (string, error) {
	if v := r.source.Topology.Version; !marks.Supported(v) {
		return v, nil
	}
	stores, err := r.liveTiKV(ctx)
	for _, st := range stores {
		if !marks.Supported(st.Version) {
			return cmp.Or(st.Version, "of no version"), nil
		}
	}
	return "", err
}

// collectMarks reads the marks, and takes a timestamp after the last of them.
func (r *run) collectMarks(ctx context.Context, s *phase.Scope) (markReading, error) {
	name := r.opts.Cluster.String()
	started, err := r.startTimes(ctx)
	if err != nil {
		return markReading{}, err
	}
	regions, err := r.PD.Regions(ctx, cluster.KeyRange{})
	if err != nil {
		return markReading{}, failure.Annotate(err, "list regions", name)
	}
	var stores []marks.Source
	for _, st := range r.source.Topology.Stores {
		stores = append(stores, marks.Source{Store: st.ID, Address: st.Address})
	}
	s.Expect(int64(len(regions)), "regions")
	var done atomic.Int64
	reading, err := marks.Read(ctx, r.TiKV, stores, regions, func() {
		if n := done.Add(1); n%marksShown == 0 {
			s.Reached(n)
		}
	})
	if err != nil {
		return markReading{}, err
	}
	if len(reading.Missing) > 0 {
		s.Note("stores %v do not show their raft logs: a restore takes back all regions that they lead", reading.Missing)
	}
	if n := reading.Unsettled + reading.Failed; n > 0 {
		s.Note("%d of %d regions have no mark: %d were being written or changed, %d stores' answers are missing", n, len(regions), reading.Unsettled, reading.Failed)
	}
	now, err := r.PD.Now(ctx)
	if err != nil {
		return markReading{}, failure.Annotate(err, "take timestamp", name)
	}
	return markReading{reading: reading, ts: now, started: started, regions: len(regions)}, nil
}

// passMarks waits until the resolved ts is above the marks by their margin.
func (r *run) passMarks(ctx context.Context, s *phase.Scope, ts cluster.TS) error {
	defer s.Part("await resolved ts")()
	waiting, cancel := context.WithTimeout(ctx, r.opts.MarksTimeout)
	defer cancel()
	err := wait.Until(waiting, wait.Every(marksInterval), func() (bool, error) {
		got, err := r.PD.ResolvedTS(waiting)
		return err == nil && got.TS >= marks.After(ts), err
	})
	if err == nil {
		return nil
	}
	if last := wait.EndOf(err).Last; last != nil && !errors.Is(last, context.DeadlineExceeded) {
		return failure.Annotate(last, "read resolved ts", r.opts.Cluster.String())
	}
	return failure.New(failure.Limited, "wait for resolved ts", r.opts.Cluster.String(), "within %s it did not pass the marks of %s",
		r.opts.MarksTimeout, ts.Time().Format(time.RFC3339Nano))
}

// storeMarks stores the marks and returns what the manifest says of them; nil without marks. It may be called again.
func (r *run) storeMarks(ctx context.Context, s *phase.Scope) (*manifest.Marks, error) {
	if r.marks.stored != nil || r.marks.reading == nil {
		return r.marks.stored, nil
	}
	if r.marks.set == nil {
		restarted, err := r.restartedSince(ctx, r.marks.started)
		if err != nil {
			return nil, err
		}
		if len(restarted) > 0 {
			s.Note("stores %v have restarted since their marks were read: a restore takes back all regions that they led", restarted)
		}
		r.marks.set = r.marks.reading.Set(restarted...)
		s.Note("marks of %d regions, read before %s", r.marks.set.Len(), r.marks.ts)
		r.result.Marks, r.result.Regions = r.marks.set, r.marks.regions
	}
	if err := r.fence.Check(ctx); err != nil {
		return nil, err
	}
	stored, err := r.catalog.PutMarks(ctx, r.opts.Backup, r.marks.set, r.marks.ts)
	if err == nil {
		stored.Of = r.marks.regions
		r.marks.stored = stored
	}
	return stored, err
}

// restartedSince lists the stores whose process is another one by now, or gone: what the one before had shown was perhaps
// not on its volumes yet.
func (r *run) restartedSince(ctx context.Context, started map[cluster.StoreID]time.Time) ([]cluster.StoreID, error) {
	now, err := r.startTimes(ctx)
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

// startTimes is when each TiKV store's process was started, as PD reports it.
func (r *run) startTimes(ctx context.Context) (map[cluster.StoreID]time.Time, error) {
	stores, err := r.liveTiKV(ctx)
	started := make(map[cluster.StoreID]time.Time, len(stores))
	for _, st := range stores {
		started[st.ID] = st.StartedAt
	}
	return started, err
}

// liveTiKV lists the TiKV stores that are not tombstones.
func (r *run) liveTiKV(ctx context.Context) ([]pd.Store, error) {
	all, err := r.PD.Stores(ctx)
	return slices.DeleteFunc(all, func(st pd.Store) bool { return !live(st) }),
		failure.Annotate(err, "list stores", r.opts.Cluster.String())
}

func live(st pd.Store) bool { return st.IsTiKV() && st.State != pd.StoreTombstone }
