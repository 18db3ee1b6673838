package report

import "fmt"

// CopiedSet is what a copy run copied, and where to.
type CopiedSet struct {
	FromRegion string `json:"fromRegion"`
	ToRegion   string `json:"toRegion"`
	Account    string `json:"account"` // of the copies
	Snapshots  int    `json:"snapshots"`
	Completed  int    `json:"completed"`
	// FullBytes is the data of the copies that move all of it; ChangedBytes that of the others, which move at most
	// that.
	FullBytes    int64 `json:"fullBytes"`
	ChangedBytes int64 `json:"changedBytes"`
}

// Facts are lines, each as a term and a text; none for nil.
func (c *CopiedSet) Facts() [][2]string {
	if c == nil {
		return nil
	}
	return [][2]string{
		{"copied", fmt.Sprintf("%d of %d snapshots, from %s to %s of account %s", c.Completed, c.Snapshots,
			Name(c.FromRegion), Name(c.ToRegion), Name(c.Account))},
		{"data", fmt.Sprintf("%s in full, %s incrementally", Bytes(c.FullBytes), Bytes(c.ChangedBytes))},
	}
}

// printable makes its texts safe by as.
func (c *CopiedSet) printable(as func(string) string) *CopiedSet {
	if c == nil {
		return nil
	}
	out := *c
	out.FromRegion, out.ToRegion, out.Account = as(c.FromRegion), as(c.ToRegion), as(c.Account)
	return &out
}
