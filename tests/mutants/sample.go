package mutants

import "slices"

// Sample returns n of the mutants: those whose file is among the changed files first, and for the
// rest some that are spread over the table. It is the same for the same table and files; all if n is 0 or too large.
func Sample(all []Mutant, n int, changed []string) []Mutant {
	if n <= 0 || n >= len(all) {
		return all
	}
	var touched, others []Mutant
	for _, m := range all {
		if slices.Contains(changed, m.File) {
			touched = append(touched, m)
		} else {
			others = append(others, m)
		}
	}
	first := min(n, len(touched))
	return slices.Concat(spread(touched, first), spread(others, n-first))
}

// spread returns n of the mutants, at even distances.
func spread(all []Mutant, n int) []Mutant {
	out := make([]Mutant, 0, n)
	for i := range n {
		out = append(out, all[i*len(all)/n])
	}
	return out
}
