package report

import "fmt"

// Regions is what a restore did with the cluster's regions. How many keys were taken back is not in it: TiKV does not
// say.
type Regions struct {
	Total int `json:"total"`
	// Unchanged are those that provably nothing was written to since the backup ts; they were not flashed back.
	Unchanged int `json:"unchanged"`
	Flashed   int `json:"flashed"`
	// Checked is how many of the unchanged were flashed back all the same, and did not change.
	Checked int `json:"checked,omitempty"`
	// SavedSeconds is how much longer the flashback of all would have taken, at the rate of those that were; 0 is not
	// known.
	SavedSeconds float64 `json:"savedSeconds,omitempty"`
}

// UnchangedShare is how many of the regions were not flashed back, 0 to 1; 0 of nil, as where nothing is known.
func (n *Regions) UnchangedShare() float64 {
	if n == nil || n.Unchanged+n.Flashed <= 0 {
		return 0
	}
	return float64(n.Unchanged) / float64(n.Unchanged+n.Flashed)
}

// Facts are lines about the regions, each a term and a text; none of nil.
func (n *Regions) Facts() [][2]string {
	if n == nil {
		return nil
	}
	facts := [][2]string{
		{"regions", fmt.Sprintf("%d, of which %d were unchanged and %d flashed back", n.Total, n.Unchanged, n.Flashed)},
	}
	if n.SavedSeconds > 0 {
		facts = append(facts,
			[2]string{"time saved", "about " + Duration(n.SavedSeconds) + ", against flashing back all regions"})
	}
	if n.Checked > 0 {
		facts = append(facts,
			[2]string{
				"checked",
				fmt.Sprintf("%d unchanged regions were flashed back all the same, and no row changed", n.Checked),
			})
	}
	return facts
}
