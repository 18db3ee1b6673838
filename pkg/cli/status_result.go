package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fleet"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/runs"
)

// clustersDoc is the output of `tisnap status` without a run.
type clustersDoc struct {
	header
	Items []clusterItem `json:"items"`
	// Unreadable are the objects of the storage that cannot be decoded, so that a cluster may look better than it is.
	Unreadable []string `json:"unreadable"`

	chosen *clusterChoice
	absent []string // named clusters that are not in the storage
	now    time.Time
}

// clusterItem is how one cluster stands.
type clusterItem struct {
	Cluster cluster.Name `json:"cluster"`
	// Backup is the newest sealed backup, and RecoveryPoint the time that a restore of it returns to.
	Backup        cluster.BackupID `json:"backup,omitempty"`
	RecoveryPoint time.Time        `json:"recoveryPoint,omitzero"`
	TooOld        bool             `json:"tooOld,omitempty"` // or absent, by --max-age
	Expected      time.Time        `json:"expected,omitzero"`
	Overdue       bool             `json:"overdue,omitempty"`
	Run           *lockedBy        `json:"run,omitempty"`
	// Beside are the drills, archives and copies without an end: they have locks of their own.
	Beside []lockedBy `json:"beside,omitempty"`
	Held   bool       `json:"held"`
	// Failed counts the failed runs since the last good one.
	Failed       int       `json:"failed"`
	LastFailure  *endedRun `json:"lastFailure,omitempty"`
	LastRestored *endedRun `json:"lastRestored,omitempty"`
	// LastDrilled is the last drill that was not interrupted: without a kind it passed.
	LastDrilled  *endedRun `json:"lastDrilled,omitempty"`
	LastArchived *endedRun `json:"lastArchived,omitempty"`
	LastCopied   *endedRun `json:"lastCopied,omitempty"` // into this storage
	*todo
}

// lockedBy is the run that has a cluster's lock.
type lockedBy struct {
	ID        cluster.RunID    `json:"id"`
	Operation report.Operation `json:"operation"`
	Backup    cluster.BackupID `json:"backup,omitempty"`
	State     runs.State       `json:"state"`
	Silent    bool             `json:"silent,omitempty"` // as of a Run
	Started   time.Time        `json:"started"`
}

// endedRun is a run with a report.
type endedRun struct {
	ID       cluster.RunID `json:"id"`
	Cluster  cluster.Name  `json:"cluster"`
	Kind     string        `json:"kind,omitempty"` // of its error
	Finished time.Time     `json:"finished"`
}

// clusterChoice is what is asked about which clusters.
type clusterChoice struct {
	storage string
	names   []cluster.Name // none: all
	match   func(cluster.Name) bool
	maxAge  time.Duration // 0: any
}

func newClustersDoc(s *fleet.State, chosen *clusterChoice) *clustersDoc {
	d := &clustersDoc{
		header: newHeader("ClusterList"), Items: []clusterItem{}, Unreadable: append([]string{}, s.Unreadable...),
		chosen: chosen, now: s.Read,
	}
	for i := range s.Backups {
		e := &s.Backups[i]
		if e.State == catalog.StateDamaged && (e.Cluster == cluster.Name{} || chosen.match(e.Cluster)) {
			d.Unreadable = append(d.Unreadable, manifest.BackupsPrefix+string(e.ID))
		}
	}
	for name, c := range s.Clusters {
		if name != (cluster.Name{}) && chosen.match(name) { // a damaged backup may be of none
			d.Items = append(d.Items, newClusterItem(c, s.Read, chosen))
		}
	}
	for _, name := range chosen.names {
		if s.Clusters[name] == nil {
			d.absent = append(d.absent, name.String())
			d.Items = append(d.Items, newClusterItem(&fleet.Cluster{Name: name}, s.Read, chosen))
		}
	}
	slices.SortFunc(d.Items, func(a, b clusterItem) int {
		return strings.Compare(a.Cluster.String(), b.Cluster.String())
	})
	slices.Sort(d.Unreadable)
	return d
}

func newClusterItem(c *fleet.Cluster, now time.Time, chosen *clusterChoice) clusterItem {
	i := clusterItem{
		Cluster: c.Name, RecoveryPoint: c.RecoveryPoint().UTC(), Expected: c.Expected().UTC(), Overdue: c.Overdue(now),
		Held: c.Held(now),
	}
	if c.Sealed != nil {
		i.Backup = c.Sealed.ID
	}
	counts := !c.RestoredOnly() || slices.Contains(chosen.names, c.Name)
	i.TooOld = chosen.maxAge > 0 && counts && (c.Sealed == nil || now.Sub(i.RecoveryPoint) > chosen.maxAge)
	for _, lock := range c.Open() {
		run := newLockedBy(lock, now)
		if lock == c.Lock {
			i.Run = run
			continue
		}
		i.Beside = append(i.Beside, *run)
	}
	if failed := c.Failures(); len(failed) > 0 {
		last := failed[len(failed)-1]
		i.Failed = len(failed)
		i.LastFailure = newEndedRun(last)
	}
	i.LastRestored, i.LastDrilled = newEndedRun(c.Restored), newEndedRun(c.Ended(report.Drill))
	i.LastArchived, i.LastCopied = newEndedRun(c.Good(report.Archive)), newEndedRun(c.Good(report.Copy))
	i.todo = i.whatToDo(c, now, chosen)
	return i
}

func newEndedRun(r *history.Run) *endedRun {
	if r == nil {
		return nil
	}
	return &endedRun{ID: r.Run, Cluster: r.Cluster, Kind: r.ErrorKind, Finished: r.Finished}
}

func newLockedBy(lock *fleet.Lock, now time.Time) *lockedBy {
	owner := lock.Record
	by := &lockedBy{
		ID: owner.Owner.Run, Operation: lock.Operation(), Backup: lock.About.Backup, State: runs.Running,
		Silent: owner.Silent(now), Started: owner.AcquiredAt,
	}
	if !lock.Alive {
		by.State, by.Silent = runs.Unfinished, false
	}
	return by
}

// text is what it does, and for how long or that it died.
func (l *lockedBy) text(now time.Time) string {
	if l.Silent || l.State == runs.Unfinished {
		return fmt.Sprintf("%s %s", l.Operation, shown(&runs.Run{State: l.State, Silent: l.Silent}))
	}
	return fmt.Sprintf("%s %s", l.Operation, short(now.Sub(l.Started)))
}

// problem is why the command fails although it prints its result: too old a backup first, as that was asked.
func (d *clustersDoc) problem() error {
	var old []string
	for _, i := range d.Items {
		if i.TooOld {
			old = append(old, fmt.Sprintf("%s (%s)", oneLine(i.Cluster), i.age(d.now)))
		}
	}
	storage, wanted := d.chosen.storage, d.chosen.maxAge
	switch {
	case wanted > 0 && len(d.Items) == 0:
		return failure.New(failure.Stale, "check backups", storage, "it has no such cluster, so none is backed up").
			WithHint("see: tisnap list --storage %s", storage)
	case len(old) > 0:
		return failure.New(failure.Stale, "check backups", storage,
			"%d of %d clusters have no good backup of the last %s: %s", len(old), len(d.Items), short(wanted),
			failure.List(old)).WithHint("run `tisnap status`, which shows what to do")
	case len(d.absent) > 0:
		return failure.New(failure.NotFound, "read status", storage, "it has no backup or run of %s",
			failure.List(d.absent)).WithHint("see: tisnap status --storage %s", storage)
	case len(d.Unreadable) > 0:
		return failure.New(failure.Partial, "read status", storage,
			"%d of its objects cannot be decoded, so a cluster may look better than it is: %s", len(d.Unreadable),
			failure.List(d.Unreadable)).WithHint("`tisnap list` and `tisnap runs list` show why")
	}
	return nil
}

func (d *clustersDoc) table(w io.Writer, v view) error {
	if len(d.Items) == 0 {
		_, err := fmt.Fprintln(w, "no clusters")
		return err
	}
	t := newTable("CLUSTER", "RECOVERY POINT", "NEXT", "RUNNING", "HELD", "FAILED", "RESTORED", "DRILLED", "ARCHIVED",
		"COPIED", "BACKUP", "RUN", v.heading("NEXT"))
	t.more = []string{"BACKUP", "RUN", v.heading("NEXT")}
	for column, empty := range d.never() {
		if empty {
			t.more = append(t.more, column)
		}
	}
	t.drop = []string{"COPIED", "ARCHIVED", "RESTORED", "DRILLED", "NEXT", "FAILED", "RUNNING"}
	for _, i := range d.Items {
		t.row(i.cells(d.now, v)...)
	}
	if err := t.write(w, v); err != nil {
		return err
	}
	for _, i := range d.Items {
		if i.todo == nil {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n%s: %s\n  %s\n", oneLine(i.Cluster), oneLine(i.Problem),
			oneLine(i.Command)); err != nil {
			return err
		}
	}
	return nil
}

// never are the columns of what was never done here: a table that is not wide has none of those that are empty.
func (d *clustersDoc) never() map[string]bool {
	empty := map[string]bool{"DRILLED": true, "ARCHIVED": true, "COPIED": true}
	for i := range d.Items {
		c := &d.Items[i]
		for column, run := range map[string]*endedRun{
			"DRILLED": c.LastDrilled, "ARCHIVED": c.LastArchived, "COPIED": c.LastCopied,
		} {
			empty[column] = empty[column] && run == nil
		}
	}
	return empty
}

func (i *clusterItem) cells(now time.Time, v view) []any {
	next, run, held, failed := "", cluster.RunID(""), "", ""
	switch {
	case i.Overdue:
		next = "overdue"
	case i.Expected.Before(now) && !i.Expected.IsZero():
		next = "due"
	case !i.Expected.IsZero():
		next = "in " + short(i.Expected.Sub(now))
	}
	var running []string
	if i.Run != nil {
		run, running = i.Run.ID, append(running, i.Run.text(now))
	}
	for j := range i.Beside {
		running = append(running, i.Beside[j].text(now))
	}
	if i.Held {
		held = "yes"
	}
	if i.LastFailure != nil {
		failed = fmt.Sprintf("%d %s", i.Failed, i.LastFailure.Kind)
	}
	return []any{
		i.Cluster, i.age(now), next, strings.Join(running, ", "), held, failed, i.LastRestored.ago(now),
		i.LastDrilled.ago(now), i.LastArchived.ago(now), i.LastCopied.ago(now), i.Backup, run, v.cell(i.Expected),
	}
}

// ago is how long ago the run ended, and what went wrong; "" for none.
func (r *endedRun) ago(now time.Time) string {
	if r == nil {
		return ""
	}
	return strings.TrimSpace(short(now.Sub(r.Finished)) + " ago " + r.Kind)
}

// age is that of the recovery point.
func (i *clusterItem) age(now time.Time) string {
	if i.RecoveryPoint.IsZero() {
		return "none"
	}
	return short(now.Sub(i.RecoveryPoint)) + " ago"
}

// short is a duration in at most two units.
func short(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}
