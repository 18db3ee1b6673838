package journal

import (
	"encoding/json"

	"github.com/tisnap/tisnap/pkg/phase"
)

// Expected is how long the run should take, as its first process announced it; nil if it did not.
func Expected(h *phase.History) json.RawMessage {
	for _, r := range h.Records {
		if r.Type == phase.RecordResult && r.Name == ResultExpected {
			return r.Data
		}
	}
	return nil
}
