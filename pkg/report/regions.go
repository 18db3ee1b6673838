package report

import "fmt"

// Regions is what a restore did with the cluster's regions. The number of keys flashed back is unknown: TiKV does not
// report it.
type Regions struct {
	Total int `json:"total"`
	// Unchanged are those proven to have no writes after the backup ts; they were not flashed back.
	Unchanged int `json:"unchanged"`
	Flashed   int `json:"flashed"`
	// Checked is how many of the unchanged were flashed back anyway, as a check, and did not change.
	Checked int `json:"checked,omitempty"`
	// SavedSeconds is how much longer flashing back all would have taken, at the rate of those that were; 0 is unknown.
	SavedSeconds float64 `json:"savedSeconds,omitempty"`
}

// UnchangedShare is the share of the regions that were not flashed back, 0 to 1; 0 for nil.
func (n *Regions) UnchangedShare() float64 {
	if n == nil || n.Unchanged+n.Flashed <= 0 {
		return 0
	}
	return float64(n.Unchanged) / float64(n.Unchanged+n.Flashed)
}

// Facts are lines about the regions, each a term and a text; none for nil.
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
				fmt.Sprintf("%d unchanged regions were flashed back as a check, and no row changed", n.Checked),
			})
	}
	return facts
}
