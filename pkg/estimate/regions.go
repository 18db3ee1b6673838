package estimate

import (
	"fmt"
	"slices"

	"github.com/tisnap/tisnap/pkg/report"
)

// unchanged is the share of the regions that the restore does not flash back: none without marks; with marks, the share
// in earlier restores or, if these are too few, anything from none, which the time assumes, to all with a mark.
func (f *Fit) unchanged(in Input) spread {
	switch {
	case in.Operation != report.Restore || in.MarkedShare <= 0:
		return spread{}
	case f == nil || f.shares == nil:
		return spread{high: in.MarkedShare}
	}
	most := in.MarkedShare
	return spread{min(f.shares.low, most), min(f.shares.median, most), min(f.shares.high, most)}
}

// regionsNote is the range of the data phase by how many of the regions were written to; "" without marks.
func (f *Fit) regionsNote(in Input, left spread) string {
	if in.MarkedShare <= 0 || in.Operation != report.Restore {
		return ""
	}
	by := f.curve(in, report.ResolveData)
	text := fmt.Sprintf("%s of the regions have marks: resolve data takes %s if nothing was written to these since, "+
		"%s if all regions are flashed back",
		report.Percent(in.MarkedShare), report.Roughly(by.seconds(dataPhase(in, in.MarkedShare))),
		report.Roughly(by.seconds(dataPhase(in, 0))))
	if f != nil && f.shares != nil {
		return text + fmt.Sprintf("; the median restore of this storage flashed back %s", report.Percent(1-left.median))
	}
	return text + ", which the time assumes"
}

// dataPhase is the model's data phase.
func dataPhase(in Input, unchanged float64) Phase {
	all := restorePhases(in, unchanged)
	return all[slices.IndexFunc(all, func(p Phase) bool { return p.Name == report.ResolveData })]
}
