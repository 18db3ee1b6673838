package failure

import "slices"

// Nearest lists up to limit names that a user may have meant, for a hint, nearest first: those that differ in at most a
// third of the longer one's characters, or that start with the input.
func Nearest(typed string, names []string, limit int) []string {
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	for _, name := range names {
		d := distance(typed, name)
		prefix := len(typed) >= 3 && len(name) > len(typed) && name[:len(typed)] == typed
		if prefix {
			d = 0
		}
		if prefix || d*3 <= max(len(typed), len(name)) {
			near = append(near, candidate{name, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return a.distance - b.distance })
	var out []string
	for _, c := range near[:min(limit, len(near))] {
		out = append(out, c.name)
	}
	return out
}

// distance is the edit distance in bytes: insertions, deletions, replacements and swaps of neighbours.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := last[j]
			if a[i] != b[j] {
				cost++
			}
			row[j+1] = min(cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
