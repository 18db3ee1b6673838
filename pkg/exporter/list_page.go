package exporter

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fleet"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// Bounds of one page.
const (
	maxRows     = 100
	maxCards    = 24
	maxQuestion = 200
)

// listPage has a card per cluster, then the backups, the newest first; ?q= searches names, clusters, runs and states.
func (x *Exporter) listPage(r *http.Request, s *fleet.State) (content, error) {
	question := failure.Line(r.URL.Query().Get("q"))
	question = question[:min(len(question), maxQuestion)]
	number, _ := strconv.Atoi(r.URL.Query().Get("page")) // anything else is the first
	found := matching(s.Backups, strings.ToLower(strings.TrimSpace(question)))
	pages := max((len(found)+maxRows-1)/maxRows, 1)
	number = min(max(number, 1), pages)
	nodes := []g.Node{
		h.Div(h.Class("bar-top"), h.H1(g.Text("Backups")), search(question)),
	}
	if question == "" && number == 1 {
		nodes = append(nodes, x.cards(s))
	}
	nodes = append(nodes, h.H2(g.Attr("class", "title"), g.Text(counted(len(found), question))))
	if len(found) == 0 && question != "" {
		nodes = append(nodes, h.P(g.Textf("No backup has %q in its name, cluster, run or state. ", question),
			link("/", "Show all")))
	}
	if len(found) > 0 {
		nodes = append(nodes, table(s, found[(number-1)*maxRows:min(number*maxRows, len(found))]))
	}
	nodes = append(nodes, pager(question, number, pages))
	nodes = append(nodes, restores(s, question), besides(s, question), failures(s, question))
	return content{title: "Backups", nodes: nodes}, nil
}

func counted(n int, question string) string {
	switch {
	case n == 0 && question == "":
		return "No backups yet"
	case n == 0:
		return "No backup found"
	case n == 1:
		return "1 backup"
	}
	return strconv.Itoa(n) + " backups"
}

func search(question string) g.Node {
	return h.Form(h.Class("search"), h.Role("search"), h.Method("get"), h.Action("/"),
		h.Div(h.Label(h.For("q"), g.Text("Search backups, clusters, runs, states")),
			h.Input(h.Type("search"), h.ID("q"), h.Name("q"), h.Value(question),
				h.MaxLength(strconv.Itoa(maxQuestion)))),
		h.Button(h.Type("submit"), g.Text("Search")))
}

// matching returns the backups whose names contain the words; all of them without words.
func matching(backups []catalog.Entry, question string) []catalog.Entry {
	if question == "" {
		return backups
	}
	var found []catalog.Entry
	for _, e := range backups {
		if strings.Contains(strings.ToLower(fmt.Sprintf("%s %s %s %s %s", e.ID, e.Cluster, e.Run, e.State, e.Version)),
			question) {
			found = append(found, e)
		}
	}
	return found
}

// cards are the clusters with their newest backup, the current run, and how long the last runs took.
func (x *Exporter) cards(s *fleet.State) g.Node {
	clusters, more := s.Ordered(maxCards)
	if len(clusters) == 0 {
		return nil
	}
	cards := g.Group{}
	for _, c := range clusters {
		if c.Name == (cluster.Name{}) {
			continue // unreadable backups: they are in the list
		}
		done := c.Done()
		cards = append(cards,
			h.Li(h.H3(g.Text(short(c.Name.String())), g.Text(" "), clusterBadge(s, c)), newest(s, c),
				since(s, c), verified(s, c), underWay(c),
				h.Div(h.Class("sparks"),
					sparkline("hold", "hold", done, func(r *history.Run) float64 { return r.HoldSeconds }),
					sparkline("duration", "", done, func(r *history.Run) float64 { return r.Seconds }))))
	}
	out := g.Group{h.Section(h.Aria("label", "Clusters"), h.Ul(h.Class("clusters"), cards))}
	if more > 0 {
		out = append(out, h.P(g.Text(fmt.Sprintf("%d more clusters: use the search to find them.", more))))
	}
	return out
}

func clusterBadge(s *fleet.State, c *fleet.Cluster) g.Node {
	failed := len(c.Failures()) > 0
	switch {
	case c.Held(s.Read) && !c.Live():
		return badge("held, no live run", "bad")
	case c.Live() && c.Lock.Record.Silent(s.Read):
		return badge("lock not renewed", "warn")
	case c.Live():
		return badge("running", "warn")
	case dead(c):
		return badge("last run died", "bad")
	case c.RestoredOnly() && failed:
		return badge("restore failed", "bad")
	case c.RestoredOnly():
		return badge("restored", "good")
	case c.Sealed == nil:
		return badge("no sealed backup", "bad")
	case failed:
		return badge("last backup failed", "bad")
	}
	return badge("idle", "good")
}

func newest(s *fleet.State, c *fleet.Cluster) g.Node {
	if c.RestoredOnly() {
		return h.P(g.Text("The target of a restore; it has never been backed up."))
	}
	if c.Sealed == nil {
		return h.P(g.Text("No sealed backup: nothing to restore."))
	}
	return h.P(g.Text("Last sealed "), g.El("strong", g.Text(age(c.Sealed.SealedAt, s.Read)+" ago")), g.Text(": "),
		backupLink(string(c.Sealed.ID)))
}

// since is when the cluster's backups were last restored, drilled, archived and copied into this storage, if ever.
func since(s *fleet.State, c *fleet.Cluster) g.Node {
	var last []string
	for _, of := range []struct {
		what string
		run  *history.Run
	}{
		{"restored", c.Restored}, {"drilled", c.Ended(report.Drill)}, {"archived", c.Good(report.Archive)},
		{"copied", c.Good(report.Copy)},
	} {
		if of.run == nil {
			continue
		}
		text := of.what + " " + age(of.run.Finished, s.Read) + " ago"
		if of.run.Outcome == phase.Failed {
			text += " (" + short(of.run.ErrorKind) + ")"
		}
		last = append(last, text)
	}
	if len(last) == 0 {
		return nil
	}
	return h.P(g.Text("Last " + strings.Join(last, ", ")))
}

// verified is how much of the cluster's archives was read, if that is recorded.
func verified(s *fleet.State, c *fleet.Cluster) g.Node {
	share, known := c.Unverified()
	switch {
	case !known:
		return nil
	case c.Unreadable > 0:
		return h.P(g.Textf("%s, and %s that cannot be read", archives(c.Archived.Archives), archives(c.Unreadable)))
	case c.Archived.Verified.IsZero():
		return h.P(g.Textf("%s, of which no block was verified", archives(c.Archived.Archives)))
	}
	return h.P(g.Textf("%s, %s of them unverified, last verified %s ago", archives(c.Archived.Archives),
		percent(share), age(c.Archived.Verified, s.Read)))
}

func archives(n int) string {
	if n == 1 {
		return "1 archive"
	}
	return strconv.Itoa(n) + " archives"
}

// percent never shows all or nothing for a part.
func percent(share float64) string {
	switch {
	case share > 0 && share < .01:
		return "less than 1%"
	case share > .99 && share < 1:
		return "more than 99%"
	}
	return fmt.Sprintf("%.0f%%", share*100)
}

// dead reports whether the process of the last run that had the cluster's lock died.
func dead(c *fleet.Cluster) bool { return c.Lock != nil && c.Lock.Dead() }

// underWay links the runs that work on the cluster or on its backups, or that died doing so.
func underWay(c *fleet.Cluster) g.Node {
	out := g.Group{}
	for _, lock := range c.Open() {
		state := " running: "
		if !lock.Alive {
			state = " died: "
		}
		owner := lock.Record.Owner
		out = append(out, h.P(g.Text(short(string(lock.Operation()))+state), runLink(string(owner.Run))))
	}
	return out
}

// table begins with what an emergency asks for: a phone shows the first three columns.
func table(s *fleet.State, entries []catalog.Entry) g.Node {
	rows := g.Group{}
	for i := range entries {
		e := &entries[i]
		of, size, hold, took := "-", "-", "-", "-"
		if e.Cluster != (cluster.Name{}) {
			of = e.Cluster.String()
		}
		if e.SizeGiB > 0 {
			size = report.Bytes(e.SizeGiB * gib)
		}
		if run := s.Made(e.Run); run != nil {
			took = report.Duration(run.Seconds)
			if run.HoldSeconds > 0 {
				hold = report.Duration(run.HoldSeconds)
			}
		}
		rows = append(rows,
			h.Tr(h.Th(h.Scope("row"), backupLink(string(e.ID))), h.Td(stateBadge(e.State)),
				num(age(e.CreatedAt, s.Read)), h.Td(g.Text(short(of))), num(size),
				num(strconv.Itoa(e.Snapshots)), num(hold), num(took)))
	}
	return scroll("Backups",
		h.Table(h.THead(h.Tr(column("backup", ""), column("state", ""), column("age", "num"),
			column("cluster", ""), column("size", "num"), column("snapshots", "num"), column("hold", "num"),
			column("took", "num"))),
			h.TBody(rows)))
}

func stateBadge(state catalog.State) g.Node {
	class := map[catalog.State]string{
		catalog.StateSealed: "good", catalog.StateUnsealed: "warn", catalog.StateRemoving: "",
		catalog.StateDamaged: "bad",
	}[state]
	return badge(string(state), class)
}

func pager(question string, number, pages int) g.Node {
	if pages == 1 {
		return nil
	}
	to := func(n int) string { return "/?" + url.Values{"q": {question}, "page": {strconv.Itoa(n)}}.Encode() }
	out := g.Group{}
	if number > 1 {
		out = append(out, h.A(h.Rel("prev"), h.Href(to(number-1)), g.Text("Newer")))
	}
	out = append(out, h.Span(g.Text(fmt.Sprintf("page %d of %d", number, pages))))
	if number < pages {
		out = append(out, h.A(h.Rel("next"), h.Href(to(number+1)), g.Text("Older")))
	}
	return h.Nav(h.Class("pages"), h.Aria("label", "Pages of backups"), out)
}
