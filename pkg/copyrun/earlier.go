package copyrun

import (
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// earlier is what the run's earlier processes did, as far as its journal knows.
type earlier struct {
	journal.CopyFacts
	sealed bool
}

// learn reads the journal.
func (e *earlier) learn(h *phase.History, _ *journal.About) error {
	*e = earlier{CopyFacts: journal.ReadFacts(h.Records).Copy, sealed: h.Done("seal-copy")}
	if e.Unclear != nil {
		return failure.Wrap(e.Unclear, failure.Corrupt, "read journal", string(h.Records[0].Run))
	}
	return nil
}
