package estimate

import (
	"fmt"
	"slices"

	"github.com/tisnap/tisnap/pkg/report"
)

// The runs to which the model is scaled: the newest, and how many are needed at least.
const (
	minFitRuns = 5
	maxFitRuns = 12 // of a month, a median would lag behind two weeks
)

// Sample is a past successful run: its input, and the seconds of its phases.
type Sample struct {
	Input  Input
	Phases map[string]float64
	// UnchangedShare is the share of the regions that a restore did not flash back, 0 to 1.
	UnchangedShare float64
}

// Fit is how much longer than published the runs of a storage take, phase by phase. A nil Fit changes nothing.
type Fit struct {
	runs   map[report.Operation]int
	scales map[report.Operation]map[string]scale
	// shares are those of the regions that the restores did not flash back; nil if too few are known.
	shares *scale
}

// scale is a factor on a phase, or a share: the median of the runs, and the range of eight in ten.
type scale struct{ low, median, high float64 }

// NewFit scales the model to runs, the oldest first. An operation with fewer than five runs is left as published, as is
// a phase in fewer than five.
func NewFit(samples []Sample) *Fit {
	f := &Fit{runs: map[report.Operation]int{}, scales: map[report.Operation]map[string]scale{}}
	for _, op := range []report.Operation{report.Backup, report.Restore} {
		f.add(op, samples)
	}
	return f
}

func (f *Fit) add(op report.Operation, samples []Sample) {
	ratios, shares, runs := map[string][]float64{}, []float64{}, 0
	for i := len(samples) - 1; i >= 0 && runs < maxFitRuns; i-- {
		in, err := samples[i].Input.Complete()
		if in.Operation != op || err != nil {
			continue
		}
		runs++
		shares = append(shares, samples[i].UnchangedShare)
		for _, p := range phases(in, samples[i].UnchangedShare) {
			if got, ran := samples[i].Phases[p.Name]; ran && p.Seconds > 0 {
				ratios[p.Name] = append(ratios[p.Name], got/p.Seconds)
			}
		}
	}
	if runs < minFitRuns {
		return
	}
	f.runs[op], f.scales[op] = runs, map[string]scale{}
	for name, all := range ratios {
		if len(all) >= minFitRuns {
			f.scales[op][name] = scaleOf(all)
		}
	}
	if op == report.Restore {
		s := scaleOf(shares)
		f.shares = &s
	}
}

func scaleOf(values []float64) scale {
	slices.Sort(values)
	return scale{quantile(values, 0.1), quantile(values, 0.5), quantile(values, 0.9)}
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

func (f *Fit) scale(op report.Operation, phase string) scale {
	if f != nil {
		if s, ok := f.scales[op][phase]; ok {
			return s
		}
	}
	return scale{publishedLow, 1, publishedHigh}
}

// name is the source of the times.
func (f *Fit) name(op report.Operation) string {
	if f == nil || f.runs[op] == 0 {
		return published
	}
	return fmt.Sprintf("the last %d %ss of this storage", f.runs[op], op)
}
