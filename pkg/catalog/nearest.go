package catalog

import (
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// nearest lists up to limit ids that a person may have meant, the nearest first: those that differ in at
// most a third of the longer one's characters, or that start with what was typed.
func nearest(typed cluster.BackupID, ids []cluster.BackupID, limit int) []string {
	type candidate struct {
		id       string
		distance int
	}
	var near []candidate
	for _, id := range ids {
		d := distance(string(typed), string(id))
		prefix := len(typed) >= 3 && len(id) > len(typed) && id[:len(typed)] == typed
		if prefix {
			d = 0
		}
		if prefix || d*3 <= max(len(typed), len(id)) {
			near = append(near, candidate{string(id), d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return a.distance - b.distance })
	var names []string
	for _, c := range near[:min(limit, len(near))] {
		names = append(names, c.id)
	}
	return names
}

// distance is Levenshtein's, over bytes: ids are ASCII.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
