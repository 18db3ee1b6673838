package hold

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
)

// brPrefix is the prefix of br's safe points.
const brPrefix = "br-"

// Own is what a run recognizes in PD as its own from an earlier attempt, and what it tolerates.
type Own struct {
	Run        cluster.RunID
	Schedulers []string
	Limits     []string
	// AnyPause tolerates schedulers and overrides paused by others, for a user who chose to cut during an import.
	AnyPause bool
}

// CheckForeign returns a Conflict if another tool holds the cluster: paused schedulers, overridden config items, or
// safe points of another run or of br, other than that of a log backup's start. Opening a stream to a store silently
// ends another tool's stream there, and with it its hold, so this comes before Connect. Nothing is changed.
func CheckForeign(ctx context.Context, name cluster.Name, p PD, own Own) error {
	status, err := Describe(ctx, p)
	if err != nil {
		return failure.Annotate(err, "check for other holds", name.String())
	}
	services, _, err := p.SafePoints(ctx)
	if err != nil {
		return failure.Annotate(err, "list safe points", name.String())
	}
	now, err := p.Now(ctx)
	if err != nil {
		return failure.Annotate(err, "take timestamp", name.String())
	}
	found := holdsOfRuns(services, own.Run, now)
	for _, s := range status.Schedulers {
		if !own.AnyPause && !slices.Contains(own.Schedulers, s.Name) {
			found = append(found, "scheduler "+s.Name+" is paused"+until(s.Until))
		}
	}
	for _, l := range status.Limits {
		if !own.AnyPause && !slices.Contains(own.Limits, l.Item) {
			found = append(found, fmt.Sprintf("%s is overridden to %s%s", l.Item, l.Value, until(l.Until)))
		}
	}
	backups, err := backupsOfBR(ctx, p, services, now)
	if err != nil {
		return failure.Annotate(err, "list log backups", name.String())
	}
	for _, s := range backups {
		found = append(found, "service "+s.Service+" holds GC"+until(s.ExpiredAt))
	}
	if len(found) == 0 {
		return nil
	}
	return failure.New(failure.Conflict, "check for other holds", name.String(), "another tool holds the cluster: %s",
		strings.Join(found, "; ")).
		WithHint("wait until the other backup, restore or import has ended; leftovers in PD expire on their own, or "+
			"end them with: tisnap release %s --all, or pd-ctl", name)
}

// backupsOfBR returns br's safe points in force, without those that `br log start` leaves for 30 minutes: br sets a
// safe point right below the ts of its backup, or of the start of its log, and a log backup disturbs no hold.
func backupsOfBR(ctx context.Context, p PD, services []pd.SafePoint, now cluster.TS) ([]pd.SafePoint, error) {
	found := slices.DeleteFunc(slices.Clone(services), func(s pd.SafePoint) bool {
		return !strings.HasPrefix(s.Service, brPrefix) || !now.Time().Before(s.ExpiredAt)
	})
	if len(found) == 0 {
		return nil, nil
	}
	tasks, err := p.Tasks(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(s pd.SafePoint) bool {
		return slices.ContainsFunc(tasks, func(t pd.Task) bool {
			return t.Kind == pd.TaskLogBackup && t.StartTS != 0 && s.TS == t.StartTS-1
		})
	}), nil
}

// holdsOfRuns names the other tisnap runs that hold GC, by PD's clock, which expires their safe points.
func holdsOfRuns(services []pd.SafePoint, own cluster.RunID, now cluster.TS) []string {
	var found []string
	for _, s := range services {
		run, ours := strings.CutPrefix(s.Service, servicePrefix)
		if ours && run != string(own) && now.Time().Before(s.ExpiredAt) {
			found = append(found,
				"run "+describeRun(cluster.RunID(run))+" of tisnap holds GC by service "+s.Service+until(s.ExpiredAt))
		}
	}
	return found
}

// describeRun returns the run, with its holder if its id names one.
func describeRun(signed cluster.RunID) string {
	run, holder, ok := SplitHolder(signed)
	if !ok {
		return string(signed)
	}
	return fmt.Sprintf("%s (%s)", run, holder)
}

func until(t time.Time) string {
	if t.IsZero() || t.Year() > 3000 {
		return ""
	}
	return " until " + t.UTC().Format(time.RFC3339)
}
