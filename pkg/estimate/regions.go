package estimate

import (
	"fmt"

	"github.com/tisnap/tisnap/pkg/report"
)

// unchanged is the share of the regions that the restore does not flash back: none without marks; with marks, the share
// in earlier restores or, if these are too few, anything from none, which the time assumes, to all with a mark.
func (f *Fit) unchanged(in Input) scale {
	switch {
	case in.Operation != report.Restore || in.MarkedShare <= 0:
		return scale{}
	case f == nil || f.shares == nil:
		return scale{high: in.MarkedShare}
	}
	most := in.MarkedShare
	return scale{min(f.shares.low, most), min(f.shares.median, most), min(f.shares.high, most)}
}

// regionsNote is the range of the data phase by how many of the regions were written to; "" without marks.
func (f *Fit) regionsNote(in Input, left scale) string {
	if in.MarkedShare <= 0 || in.Operation != report.Restore {
		return ""
	}
	by := f.scale(report.Restore, report.ResolveData).median
	text := fmt.Sprintf("%s of the regions have marks: resolve data takes %s if nothing was written to these since, "+
		"%s if all regions are flashed back",
		report.Percent(in.MarkedShare), report.Duration(by*dataSeconds(in, in.MarkedShare)),
		report.Duration(by*dataSeconds(in, 0)))
	if f != nil && f.shares != nil {
		return text + fmt.Sprintf("; the median restore of this storage flashed back %s", report.Percent(1-left.median))
	}
	return text + ", which the time assumes"
}

// dataSeconds is the model's time for the data phase.
func dataSeconds(in Input, unchanged float64) float64 {
	for _, p := range restorePhases(in, unchanged) {
		if p.Name == report.ResolveData {
			return p.Seconds
		}
	}
	return 0
}
