package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// Trend is how the runs of a storage went over time.
type Trend struct {
	Since  time.Time `json:"since"`
	Series []Series  `json:"series"`
	// Unreadable are the keys of reports that cannot be read.
	Unreadable []string `json:"unreadable,omitempty"`
}

// Series is the runs of one operation on one cluster, the oldest first.
type Series struct {
	Operation report.Operation `json:"operation"`
	Cluster   cluster.Name     `json:"cluster"`
	Points    []Point          `json:"points"`
	Done      int              `json:"done"`
	// Failed counts the failed runs by the kind of their error.
	Failed map[string]int `json:"failed,omitempty"`
	// Seconds and HoldSeconds are those of the runs that were done.
	Seconds     Spread  `json:"seconds"`
	HoldSeconds *Spread `json:"holdSeconds,omitempty"`
	// Slower are the phases in which the last run took longer than the median.
	Slower []Slower `json:"slower,omitempty"`
}

// Point is one run.
type Point struct {
	Run         cluster.RunID    `json:"run"`
	Backup      cluster.BackupID `json:"backup"`
	Started     time.Time        `json:"started"`
	Outcome     phase.Outcome    `json:"outcome"`
	Seconds     float64          `json:"seconds"`
	HoldSeconds float64          `json:"holdSeconds,omitempty"`
	DataBytes   int64            `json:"dataBytes,omitempty"`
	// GrownBytes is how much more data there was than at the previous run; negative for less.
	GrownBytes int64 `json:"grownBytes,omitempty"`
	// Changed is how much was written to since the previous backup; nil if unknown.
	Changed *report.Changed `json:"changed,omitempty"`
}

// Grown is the change in the amount of data, as "+20 GiB" or "-3 GiB"; "" if none.
func Grown(bytes int64) string {
	switch {
	case bytes > 0:
		return "+" + report.Bytes(bytes)
	case bytes < 0:
		return "-" + report.Bytes(-bytes)
	}
	return ""
}

// Spread is the median, the largest and the last of a series of figures.
type Spread struct {
	Median float64 `json:"median"`
	Most   float64 `json:"most"`
	Last   float64 `json:"last"`
}

// Slower is a phase that took longer than the median of the earlier runs.
type Slower struct {
	Phase   string  `json:"phase"`
	Seconds float64 `json:"seconds"`
	Median  float64 `json:"median"`
}

// What counts as slower: a quarter and a second more than the median of at least five earlier runs.
const (
	slowerRatio   = 1.25
	slowerSeconds = 1
	minBefore     = 5
)

// NewTrend groups runs, the oldest first, into series.
func NewTrend(runs []Run, since time.Time) *Trend {
	t := &Trend{Since: since, Series: []Series{}}
	type of struct {
		operation report.Operation
		cluster   cluster.Name
	}
	byKey := map[of][]Run{}
	for _, r := range runs {
		if r.Problem != "" {
			t.Unreadable = append(t.Unreadable, r.Key)
			continue
		}
		key := of{r.Operation, r.Cluster}
		byKey[key] = append(byKey[key], r)
	}
	for key, runs := range byKey {
		t.Series = append(t.Series, newSeries(key.operation, key.cluster, runs))
	}
	slices.SortFunc(t.Series, func(a, b Series) int {
		return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Cluster.String(), b.Cluster.String()))
	})
	return t
}

func newSeries(op report.Operation, of cluster.Name, runs []Run) Series {
	s := Series{Operation: op, Cluster: of, Failed: map[string]int{}}
	var done []Run
	var data int64
	for _, r := range runs {
		p := Point{
			Run: r.Run, Backup: r.Backup, Started: r.Started, Outcome: r.Outcome, Seconds: r.Seconds,
			HoldSeconds: r.HoldSeconds, DataBytes: r.DataBytes, Changed: r.Changed,
		}
		if data > 0 && r.DataBytes > 0 {
			p.GrownBytes = r.DataBytes - data
		}
		data = cmp.Or(r.DataBytes, data)
		s.Points = append(s.Points, p)
		if r.Outcome == phase.Done {
			done = append(done, r)
		} else {
			s.Failed[cmp.Or(r.ErrorKind, "unknown")]++
		}
	}
	s.Done = len(done)
	if len(done) == 0 {
		return s
	}
	s.Seconds = spread(done, func(r Run) float64 { return r.Seconds })
	if hold := spread(done, func(r Run) float64 { return r.HoldSeconds }); hold.Most > 0 {
		s.HoldSeconds = &hold
	}
	s.Slower = slower(done[:len(done)-1], done[len(done)-1])
	return s
}

func spread(runs []Run, figure func(Run) float64) Spread {
	values := make([]float64, len(runs))
	for i, r := range runs {
		values[i] = figure(r)
	}
	last := values[len(values)-1]
	return Spread{Median: Median(values), Most: slices.Max(values), Last: last}
}

// Median returns the median of at least one value, and sorts them.
func Median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	if n%2 == 1 {
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}

// slower compares a run with the earlier ones.
func slower(before []Run, last Run) []Slower {
	var out []Slower
	figures := append(slices.Clone(last.Phases), Phase{Name: "hold", Seconds: last.HoldSeconds},
		Phase{Name: "total", Seconds: last.Seconds})
	for _, p := range figures {
		var values []float64
		for _, r := range before {
			switch seconds, ran := r.PhaseSeconds(p.Name); {
			case p.Name == "hold":
				values = append(values, r.HoldSeconds)
			case p.Name == "total":
				values = append(values, r.Seconds)
			case ran:
				values = append(values, seconds)
			}
		}
		if len(values) < minBefore {
			continue
		}
		if m := Median(values); p.Seconds > m*slowerRatio && p.Seconds > m+slowerSeconds {
			out = append(out, Slower{Phase: p.Name, Seconds: p.Seconds, Median: m})
		}
	}
	return out
}
