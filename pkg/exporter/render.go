package exporter

import (
	"fmt"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fleet"
	"github.com/tisnap/tisnap/pkg/report/htmlreport"
)

// content is a handler's result: a document, or a part of one.
type content struct {
	title  string
	nodes  []g.Node
	part   bool // not a complete document
	absent bool // nothing more to show: 204
}

// page makes a handler that responds with a document, or with an error page.
func (x *Exporter) page(show func(*http.Request, *fleet.State) (content, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusOK
		s, err := x.latest(r.Context())
		var c content
		if err == nil {
			c, err = show(r, s)
		}
		if err != nil {
			status, c = x.wentWrong(err)
		}
		if c.absent {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		var out g.Node = g.Group(c.nodes)
		if !c.part {
			out = htmlreport.Document(c.title, &htmlreport.Link{Text: "All backups", Href: "/"},
				x.framed(s, c.nodes)...)
		}
		if err := out.Render(w); err != nil {
			x.options.Log.Debug("a page was not sent completely", zap.Error(err))
		}
	})
}

// wentWrong is the page for an error.
func (x *Exporter) wentWrong(err error) (int, content) {
	status, title := http.StatusBadGateway, "Cannot read the storage"
	switch failure.KindOf(err) {
	case failure.NotFound:
		status, title = http.StatusNotFound, "Not found"
	case failure.Unready:
		status, title = http.StatusServiceUnavailable, "Not ready"
	default: // as above
	}
	return status, content{
		title: title, nodes: []g.Node{h.H1(h.Class("title"), g.Text(title)), h.P(g.Text(failure.Line(err.Error())))},
	}
}

// framed adds to each page the exporter's style, a notice about who can read it, and its age.
func (x *Exporter) framed(s *fleet.State, nodes []g.Node) []g.Node {
	out := []g.Node{h.Link(h.Rel("stylesheet"), h.Href("/page.css"))}
	if x.options.Public {
		out = append(out,
			h.P(h.Class("notice"), h.Role("note"),
				g.Text("Anyone who can reach this address can read this page. Nothing can be changed here.")))
	}
	out = append(out, nodes...)
	if s != nil {
		out = append(out,
			h.P(h.Class("foot"),
				g.Text(
					fmt.Sprintf("Read from %s at %s. Nothing can be changed here.", short(x.store.URL()),
						when(s.Read)))))
	}
	return out
}

// maxShown is how many characters of a name are shown.
const maxShown = 80

// short makes a name fit a page: sanitized, with the middle of a long one cut out.
func short(text string) string {
	text = failure.Line(text)
	if utf8.RuneCountInString(text) <= maxShown {
		return text
	}
	runes := []rune(text)
	return string(runes[:maxShown/2]) + "…" + string(runes[len(runes)-maxShown/2+1:])
}

func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// age is how long ago something was, in at most two units.
func age(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := max(now.Sub(t), 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

func badge(text, class string) g.Node { return h.Span(h.Class("badge "+class), g.Text(short(text))) }

func link(href, text string) g.Node { return h.A(h.Href(href), g.Text(short(text))) }

func backupLink(id string) g.Node { return link("/backups/"+url.PathEscape(id), id) }

func runLink(run string) g.Node { return link("/runs/"+url.PathEscape(run), run) }

func column(text, class string) g.Node { return h.Th(h.Scope("col"), h.Class(class), g.Text(text)) }

func num(text string) g.Node { return h.Td(h.Class("num"), g.Text(text)) }

// scroll makes a wide table scroll separately; it is reachable by keyboard.
func scroll(label string, table g.Node) g.Node {
	return h.Div(h.Class("scroll"), h.Role("region"), h.Aria("label", label), h.TabIndex("0"), table)
}
