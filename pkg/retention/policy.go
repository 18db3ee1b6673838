package retention

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// All is in place of a number, and keeps a backup for every hour, day, … that has one.
const All = -1

// Policy is what to keep. A backup is kept if any rule keeps it; zero rules keep nothing.
type Policy struct {
	Last, Hourly, Daily, Weekly, Monthly, Yearly int
	// Within keeps the backups made within this time before the newest one, so that backups do not age out if they
	// stop.
	Within Span
	// Tags keeps the backups with any of these tags.
	Tags []string
}

// Validate refuses a policy without rules, which would keep nothing, and numbers below All.
func (p *Policy) Validate() error {
	for _, r := range p.rules() {
		if r.count < All {
			return fmt.Errorf("--keep-%s %d: want a number, or %d for all", r.name, r.count, All)
		}
	}
	if slices.Contains(p.Tags, "") {
		return errors.New("--keep-tag: a tag cannot be empty")
	}
	if p.Within == (Span{}) && len(p.Tags) == 0 &&
		!slices.ContainsFunc(p.rules(), func(r rule) bool { return r.count != 0 }) {
		return errors.New("no rule chooses what to keep: set one, such as --keep-daily 7")
	}
	return nil
}

// rule keeps the newest backup of each of count periods that have one.
type rule struct {
	name   string
	count  int
	period func(t time.Time, index int) string
}

func (p *Policy) rules() []rule {
	layout := func(layout string) func(time.Time, int) string {
		return func(t time.Time, _ int) string { return t.Format(layout) }
	}
	week := func(t time.Time, _ int) string {
		year, week := t.ISOWeek()
		return fmt.Sprintf("%d-%d", year, week)
	}
	each := func(_ time.Time, index int) string { return fmt.Sprint(index) }
	return []rule{
		{"last", p.Last, each},
		{"hourly", p.Hourly, layout("2006010215")},
		{"daily", p.Daily, layout("20060102")},
		{"weekly", p.Weekly, week},
		{"monthly", p.Monthly, layout("200601")},
		{"yearly", p.Yearly, layout("2006")},
	}
}

// Backup is the input of a decision.
type Backup struct {
	ID      cluster.BackupID
	Created time.Time
	Tags    []string
}

// Decision is a backup's fate. It is kept if there is a reason.
type Decision struct {
	ID      cluster.BackupID
	Reasons []string
}

// Apply decides about one cluster's backups, all restorable, in any order; the decisions are sorted newest first.
// Periods are in UTC. The newest backup is always kept.
func (p *Policy) Apply(backups []Backup) []Decision {
	sorted := slices.Clone(backups)
	slices.SortFunc(sorted, func(a, b Backup) int {
		if newer := b.Created.Compare(a.Created); newer != 0 {
			return newer
		}
		if a.ID > b.ID {
			return -1
		}
		return 1
	})
	rules := p.rules()
	seen := make([]string, len(rules))
	out := make([]Decision, 0, len(sorted))
	for i, b := range sorted {
		d := Decision{ID: b.ID}
		for r := range rules {
			if reason := rules[r].keeps(b.Created.UTC(), i, i == len(sorted)-1, &seen[r]); reason != "" {
				d.Reasons = append(d.Reasons, reason)
			}
		}
		if p.Within != (Span{}) && b.Created.After(p.Within.Before(sorted[0].Created)) {
			d.Reasons = append(d.Reasons, "within "+p.Within.String())
		}
		for _, tag := range p.Tags {
			if slices.Contains(b.Tags, tag) {
				d.Reasons = append(d.Reasons, "tag "+tag)
			}
		}
		if i == 0 && len(d.Reasons) == 0 {
			d.Reasons = append(d.Reasons, "the last good backup")
		}
		out = append(out, d)
	}
	return out
}

// keeps uses one of the rule's periods. While there are any left the oldest backup is kept, so that the history grows
// to its full length.
func (r *rule) keeps(created time.Time, index int, oldest bool, seen *string) string {
	if r.count == 0 {
		return ""
	}
	period := r.period(created, index)
	fresh := period != *seen
	if !fresh && !oldest {
		return ""
	}
	*seen = period
	if r.count > 0 {
		r.count--
	}
	if !fresh {
		return "oldest " + r.name
	}
	return r.name
}
