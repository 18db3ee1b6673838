package estimate

import (
	"fmt"
	"slices"

	"github.com/tisnap/tisnap/pkg/report"
)

// The runs to which the model is fitted: the newest, and how many are needed at least.
const (
	minFitRuns = 5
	maxFitRuns = 12 // of a month, a median would lag behind two weeks
)

// Runs of which the largest has at least minSpread times the data of the smallest show overhead and rate apart: they
// hold for runs of up to farther times the largest. Others hold only for runs within nearby times their sizes.
const (
	minSpread = 2
	farther   = 4
	nearby    = 2
)

// Sample is a past successful run: its input, and the seconds of its phases.
type Sample struct {
	Input  Input
	Phases map[string]float64
	// UnchangedShare is the share of the regions that a restore did not flash back, 0 to 1.
	UnchangedShare float64
}

// Fit is how long the runs of a storage take compared with the published ones, phase by phase. A nil Fit changes
// nothing.
type Fit struct {
	of map[report.Operation]operationFit // those with enough runs
	// shares are those of the regions that the restores did not flash back; nil if too few are known.
	shares *spread
}

// operationFit is the fit of an operation's phases to its runs, which had sizes from least to most.
type operationFit struct {
	runs        int
	least, most int64
	curves      map[string]curve
}

// spread is the median of some values, and the range of eight in ten.
type spread struct{ low, median, high float64 }

// curve predicts a phase from the model's fixed seconds and those that grow with the data; the range is a factor.
type curve struct{ overhead, fixed, growing, low, high float64 }

var asPublished = curve{fixed: 1, growing: 1, low: publishedLow, high: publishedHigh}

func (c curve) seconds(p Phase) float64 {
	return c.overhead + c.fixed*(p.Seconds-p.grows) + c.growing*p.grows
}

// NewFit fits the model to runs, the oldest first. An operation with fewer than five runs is left as published, as is a
// phase in fewer than five.
func NewFit(samples []Sample) *Fit {
	f := &Fit{of: map[report.Operation]operationFit{}}
	for _, op := range []report.Operation{report.Backup, report.Restore} {
		f.add(op, samples)
	}
	return f
}

func (f *Fit) add(op report.Operation, samples []Sample) {
	var shares []float64
	fit, seen := operationFit{curves: map[string]curve{}}, map[string][]observation{}
	for i := len(samples) - 1; i >= 0 && fit.runs < maxFitRuns; i-- {
		in, err := samples[i].Input.Complete()
		if in.Operation != op || err != nil {
			continue
		}
		size := in.copied()
		if fit.runs == 0 {
			fit.least = size
		}
		fit.least, fit.most = min(fit.least, size), max(fit.most, size)
		fit.runs++
		shares = append(shares, samples[i].UnchangedShare)
		for _, p := range phases(in, samples[i].UnchangedShare) {
			if got, ran := samples[i].Phases[p.Name]; ran && p.Seconds > 0 {
				seen[p.Name] = append(seen[p.Name], observation{p, got})
			}
		}
	}
	if fit.runs < minFitRuns {
		return
	}
	for name, all := range seen {
		if len(all) >= minFitRuns {
			fit.curves[name] = curveOf(all)
		}
	}
	f.of[op] = fit
	if op == report.Restore {
		s := spreadOf(shares)
		f.shares = &s
	}
}

// observation is the seconds that a phase took, and the model's.
type observation struct {
	model Phase
	got   float64
}

// curveOf fits overhead and rate apart if the growing part varies enough (the line of Theil and Sen, which a few odd
// runs do not move), else one factor for both.
func curveOf(all []observation) curve {
	var grows, values []float64
	for _, o := range all {
		grows = append(grows, o.model.grows)
	}
	c := curve{}
	if slices.Max(grows) > 0 && slices.Max(grows) >= minSpread*slices.Min(grows) {
		for i, a := range all {
			for _, b := range all[:i] {
				if a.model.grows != b.model.grows {
					values = append(values, (a.got-b.got)/(a.model.grows-b.model.grows))
				}
			}
		}
		c.growing = max(spreadOf(values).median, 0)
		values = nil
		for _, o := range all {
			values = append(values, o.got-c.growing*o.model.grows)
		}
		c.overhead = max(spreadOf(values).median, 0)
	} else {
		for _, o := range all {
			values = append(values, o.got/o.model.Seconds)
		}
		c.fixed = spreadOf(values).median
		c.growing = c.fixed
	}
	values = nil
	for _, o := range all {
		if want := c.seconds(o.model); want > 0 {
			values = append(values, o.got/want)
		}
	}
	c.low, c.high = 1, 1
	if len(values) > 0 {
		off := spreadOf(values)
		c.low, c.high = min(off.low, 1), max(off.high, 1)
	}
	return c
}

func spreadOf(values []float64) spread {
	slices.Sort(values)
	return spread{quantile(values, 0.1), quantile(values, 0.5), quantile(values, 0.9)}
}

// quantile interpolates between the sorted values.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// copied is the size of a run, which its time depends on: the data that a backup copies off the fullest volume, or that
// a restore reads from it.
func (in Input) copied() int64 {
	if in.Operation == report.Backup {
		return int64(in.changed())
	}
	return in.LargestBytes
}

// covers reports whether there are enough runs, and of about the size of in.
func (f *Fit) covers(in Input) bool {
	if f == nil {
		return false
	}
	o, size := f.of[in.Operation], in.copied()
	if o.most >= minSpread*o.least {
		return size <= farther*o.most
	}
	return size >= o.least/nearby && size <= nearby*o.most
}

func (f *Fit) curve(in Input, phase string) curve {
	if f.covers(in) {
		if c, ok := f.of[in.Operation].curves[phase]; ok {
			return c
		}
	}
	return asPublished
}

// name is the source of the times.
func (f *Fit) name(in Input) string {
	if f == nil || f.of[in.Operation].runs == 0 {
		return published
	}
	own := fmt.Sprintf("the last %d %ss of this storage", f.of[in.Operation].runs, in.Operation)
	if !f.covers(in) {
		return published + ", as " + own + " are of other sizes"
	}
	return own
}
