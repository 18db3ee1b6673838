package htmlreport

import (
	_ "embed"
	"io"
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/report"
)

//go:embed style.css
var style string

// Page is one file: a backup and the runs that restored it, or any other runs.
type Page struct {
	// Reports are shown in their order.
	Reports []*report.Report
	// Published adds the published figures.
	Published bool
	// Home is a link at the top; nil if none.
	Home *Link
}

// Link is a link to another page.
type Link struct {
	Text, Href string
}

// Write writes the page as a complete document and returns w's error.
func Write(w io.Writer, p Page) error {
	title := "no report"
	if len(p.Reports) > 0 {
		title = p.Reports[0].Title()
	}
	err := Document(title, p.Home, Body(p)).Render(w)
	return failure.Wrap(err, failure.Unknown, "write report", "")
}

// Document is a complete HTML document in the reports' style, with main as its only main landmark.
func Document(title string, home *Link, main ...g.Node) g.Node {
	return h.Doctype(h.HTML(h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.Meta(h.Name("color-scheme"), h.Content("light dark")),
			h.Meta(h.Name("referrer"), h.Content("no-referrer")),
			h.TitleEl(g.Text(clean(title)+" · tisnap")),
			h.Link(h.Rel("icon"), h.Href("data:,")),
			h.StyleEl(g.Raw(style)),
		),
		h.Body(
			h.A(h.Class("skip"), h.Href("#main"), g.Text("Skip to the content")),
			h.Header(h.Class("top"), h.Span(h.Class("brand"), g.Text("tisnap")), homeLink(home)),
			h.Main(append([]g.Node{h.ID("main")}, main...)...),
		),
	))
}

func homeLink(home *Link) g.Node {
	if home == nil {
		return nil
	}
	return h.Nav(h.Aria("label", "Pages"), h.A(h.Href(home.Href), g.Text(home.Text)))
}

// Body is the content of the page's main landmark, for pages that frame it themselves.
func Body(p Page) g.Node {
	if len(p.Reports) == 0 {
		return h.P(g.Text("No report is stored."))
	}
	out := g.Group{}
	if len(p.Reports) > 1 {
		out = append(out, contents(p.Reports))
	}
	for i, r := range p.Reports {
		out = append(out, article(p, i, r))
	}
	return out
}

// anchor is the id of a run's article: by number, because the run's id may be anything.
func anchor(i int) string { return "run-" + strconv.Itoa(i+1) }

// article is one run.
func article(p Page, i int, r *report.Report) g.Node {
	id := anchor(i)
	heading := h.H1
	if i > 0 {
		heading = h.H2
	}
	return h.Article(h.ID(id), h.Aria("labelledby", id+"-title"),
		heading(h.ID(id+"-title"), h.Class("title"), g.Text(subject(r)), g.Text(" "), Badge(r.Outcome)),
		facts(r),
		figures(r),
		problem(r),
		section(id, "time", "Timeline", timeline(r)),
		section(id, "held", "While the cluster was held", holdTimeline(r)),
		section(id, "expected", "Expected and actual", expected(r)),
		section(id, "published", "In the published form", published(r, p.Published)),
		section(id, "hold", "Stores during the hold", holdStores(r)),
		section(id, "stores", "Stores during the restore", restoreStores(r)),
		section(id, "processes", "Processes of the run", processes(r)),
		section(id, "attempts", "Discarded attempts", attempts(r)),
		section(id, "warnings", "Warnings", list(r.Warnings)),
		section(id, "checks", "Checked", list(r.Checks)),
	)
}

// section is a part of an article under a heading; nil if it has no content.
func section(article, name, title string, content g.Node) g.Node {
	if content == nil {
		return nil
	}
	id := article + "-" + name
	return h.Section(h.Class(name), h.Aria("labelledby", id), h.H3(h.ID(id), g.Text(title)), content)
}

// contents links the runs of a page: the backup and its restores.
func contents(reports []*report.Report) g.Node {
	rows := g.Group{}
	for i, r := range reports {
		rows = append(rows, h.Tr(
			h.Th(h.Scope("row"), h.A(h.Href("#"+anchor(i)), g.Text(subject(r)))),
			h.Td(Badge(r.Outcome)),
			h.Td(h.Class("num"), g.Text(report.Duration(r.TotalSeconds))),
			h.Td(g.Text(when(r.Started))),
		))
	}
	return h.Nav(h.Class("contents"), h.Aria("label", "Runs on this page"),
		h.Table(h.Caption(g.Text("The backup and its runs")),
			h.THead(h.Tr(column("run"), column("outcome"), numColumn("total"), column("started"))),
			h.TBody(rows)))
}
