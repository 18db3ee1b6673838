package report

import (
	"encoding/json"
	"io"
	"slices"

	"github.com/tisnap/tisnap/pkg/failure"
)

// maxSize bounds what Decode reads: a report of a thousand stores is well below a mebibyte.
const maxSize = 64 << 20

// JSON writes the report as indented JSON with a line feed at its end, its texts without secrets: see failure.Redact.
// It returns w's error.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return failure.Wrap(enc.Encode(r.redacted()), failure.Unknown, "write report", string(r.Run))
}

// redacted is the report with its error texts redacted, also those that an older version stored unredacted.
func (r *Report) redacted() *Report {
	out := *r
	out.Error = failure.Redact(r.Error)
	out.Warnings, out.Checks = each(r.Warnings, failure.Redact), each(r.Checks, failure.Redact)
	if r.Hold != nil {
		h := *r.Hold
		h.Failed = slices.Clone(h.Failed)
		for i := range h.Failed {
			h.Failed[i].Error = failure.Redact(h.Failed[i].Error)
		}
		out.Hold = &h
	}
	return &out
}

// Decode reads a report that JSON wrote. Unknown fields are ignored, so that a newer report can be read.
// Text that is not JSON, or JSON that is not a report, is Corrupt.
func Decode(rd io.Reader) (*Report, error) {
	var r Report
	if err := json.NewDecoder(io.LimitReader(rd, maxSize)).Decode(&r); err != nil {
		return nil, failure.Wrap(err, failure.Corrupt, "decode report", "")
	}
	if r.APIVersion != APIVersion || r.Kind != Kind {
		return nil, failure.New(failure.Corrupt, "decode report", "",
			"want apiVersion %s and kind %s, got %q and %q", APIVersion, Kind, r.APIVersion, r.Kind)
	}
	return &r, nil
}
