package report

import "fmt"

// PublishedTable is a run in the form of the published tables, as text.
type PublishedTable struct {
	Head []string
	Rows [][]string
	// Note is the published tables' remark on it; "" if none.
	Note string
}

// Published puts the run into the form of the published tables; with compare, followed by the published case.
func (r *Report) Published(compare bool) PublishedTable {
	t := PublishedTable{Head: []string{"", "total data", "data per volume", "TiKVs"}}
	names := PublishedPhases(r.Operation)
	t.Head = append(append(t.Head, names...), "total")
	t.Rows = append([][]string{r.publishedRow("this run", names)}, r.ownRows(names)...)
	switch {
	case !compare:
	case r.Operation == Restore:
		t.Rows = append(t.Rows, publishedRestore().publishedRow("published", names))
	case r.Operation == Backup:
		t.Note = r.compareBackup()
	}
	return t
}

func (r *Report) publishedRow(label string, names []string) []string {
	row := []string{label, Bytes(r.DataBytes), Bytes(r.DataPerVolumeBytes), fmt.Sprint(r.TiKVs)}
	for _, name := range names {
		cell := absent
		if seconds, ran := r.Seconds(name); ran {
			cell = Duration(seconds)
		}
		if r.failedIn(name) {
			cell += " (failed)"
		}
		row = append(row, cell)
	}
	return append(row, Duration(r.TotalSeconds))
}

// ownRows are the phases' own times, if phases overlap, and their shares of the total.
func (r *Report) ownRows(names []string) [][]string {
	own, shares := []string{"of its own", "", "", ""}, []string{"share", "", "", ""}
	for _, name := range names {
		seconds, ran := r.OwnSeconds(name)
		if !ran {
			own, shares = append(own, absent), append(shares, absent)
			continue
		}
		own, shares = append(own, Duration(seconds)), append(shares, Percent(r.share(seconds)))
	}
	shares = append(shares, "100%")
	if !r.Overlaps() {
		return [][]string{shares}
	}
	return [][]string{append(own, Duration(r.TotalSeconds)), shares}
}
