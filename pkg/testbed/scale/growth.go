package scale

import (
	"fmt"
	"slices"
)

// window is how many samples a median is taken of: more than there are kinds of faults, so that each kind is in it.
const window = 10

// bytesPerRun is what a process may keep of a run. cobra keeps some 4 kB of each command line for ever, in a process
// that has one as a rule.
const bytesPerRun = 8 << 10

// Growth is how much more a process has after its later runs than after its first ones: the difference between the
// medians of the first and of the last ten samples, so that neither a connection that happens to be open when one
// sample is taken, nor one that happens to be closed, counts. The first runs, one with each fault, fill what is
// filled once and are left out.
type Growth struct {
	Runs        int   `json:"runs"` // that were compared
	Goroutines  int   `json:"goroutines"`
	HeapBytes   int64 `json:"heapBytes"`
	Descriptors int   `json:"descriptors"`
}

// GrowthOf compares the samples of runs that came one after the other. Too few of them are an error.
func GrowthOf(samples []Sample) (Growth, error) {
	warm := len(Failures())
	if len(samples) < warm+2*window {
		return Growth{}, fmt.Errorf("%d runs are too few to see growth: want at least %d", len(samples), warm+2*window)
	}
	rest := samples[warm:]
	first, last := rest[:window], rest[len(rest)-window:]
	grown := func(value func(Sample) int64) int64 { return median(last, value) - median(first, value) }
	return Growth{
		Runs:        len(rest),
		Goroutines:  int(grown(func(s Sample) int64 { return int64(s.Goroutines) })),
		Descriptors: int(grown(func(s Sample) int64 { return int64(s.Descriptors) })),
		HeapBytes:   grown(func(s Sample) int64 { return int64(s.HeapBytes) }),
	}, nil
}

// Check returns an error if a process that grew so much leaks.
func (g Growth) Check() error {
	if g.Goroutines > 0 || g.Descriptors > 0 || g.HeapBytes > int64(g.Runs)*bytesPerRun {
		return fmt.Errorf("%d failing runs left %d goroutines, %d descriptors and %d bytes", g.Runs, g.Goroutines, g.Descriptors, g.HeapBytes)
	}
	return nil
}

func median(samples []Sample, value func(Sample) int64) int64 {
	values := make([]int64, 0, len(samples))
	for _, s := range samples {
		values = append(values, value(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
