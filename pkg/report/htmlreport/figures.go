package htmlreport

import (
	"fmt"
	"slices"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tisnap/tisnap/pkg/report"
)

// facts are the lines under the title.
func facts(r *report.Report) g.Node {
	out := g.Group{}
	add := func(term, text string) {
		out = append(out, h.Div(h.Dt(g.Text(term)), h.Dd(g.Text(text))))
	}
	add("run", name(string(r.Run)))
	add("started", when(r.Started))
	add("finished", when(r.Finished))
	if r.VolumeSettings != nil {
		term := "volumes created as"
		if r.Operation == report.Backup {
			term = "volumes"
		}
		add(term, r.VolumeSettings.Text())
	}
	if r.Changed != nil {
		add("written to", r.Changed.Text())
	}
	for _, f := range slices.Concat(r.Regions.Facts(), r.EarlyApply.Facts(), r.Archived.Facts(), r.Copied.Facts(),
		r.Drilled.Facts()) {
		add(f[0], f[1])
	}
	return h.Dl(h.Class("facts"), out)
}

// figures are the large numbers, among them the hold and the cut, which affect the live cluster.
func figures(r *report.Report) g.Node {
	out := g.Group{Figure("total", report.Duration(r.TotalSeconds), against(r))}
	if hold := r.Hold; hold != nil {
		attempts := ""
		if hold.Attempts > 1 {
			attempts = fmt.Sprintf("attempt %d", hold.Attempts)
		}
		out = append(out,
			Figure("hold", report.Duration(hold.Seconds), attempts),
			Figure("cut", report.Duration(hold.CutSeconds), "skew "+report.Duration(hold.SkewSeconds)))
	}
	if r.DataBytes > 0 {
		most := ""
		if r.DataPerVolumeBytes > 0 {
			most = "at most " + report.Bytes(r.DataPerVolumeBytes) + " per volume"
		}
		out = append(out, Figure("data", report.Bytes(r.DataBytes), most))
	}
	return h.Dl(h.Class("figures"), out, Figure("TiKVs", fmt.Sprint(r.TiKVs), plural(r.Volumes, "volume")))
}

// Figure is one large number of a list of class figures.
func Figure(term, value, note string) g.Node {
	return h.Div(h.Class("figure"), h.Dt(g.Text(term)), h.Dd(h.Class("value"), g.Text(value)),
		h.Dd(h.Class("note"), g.Text(note)))
}

func plural(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// against is the expected time of the run.
func against(r *report.Report) string {
	e := r.Shown()
	if e == nil || e.NotAWS {
		return ""
	}
	return "expected " + report.Roughly(e.Seconds)
}

// problem is why a run failed.
func problem(r *report.Report) g.Node {
	if r.Error == "" {
		return nil
	}
	kind := "The run failed"
	if r.ErrorKind != "" {
		kind += " (" + name(r.ErrorKind) + ")"
	}
	return h.Div(h.Class("problem"), h.Role("note"), h.Strong(g.Text(kind+": ")), g.Text(clean(r.Error)))
}

// attempts are the failed holds, whose snapshots were deleted.
func attempts(r *report.Report) g.Node {
	if r.Hold == nil || len(r.Hold.Failed) == 0 {
		return nil
	}
	rows := g.Group{}
	for _, a := range r.Hold.Failed {
		rows = append(rows,
			h.Tr(num(fmt.Sprint(a.Number)), h.Td(g.Text(when(a.At))), h.Td(g.Text(name(a.Step))),
				h.Td(h.Class("wrap"), g.Text(clean(a.Error)))))
	}
	return g.Group{
		h.P(g.Text("The snapshots of these attempts were deleted: they were not proven to be of one instant.")),
		Scroll("Discarded attempts",
			h.Table(h.THead(h.Tr(numColumn("attempt"), column("failed at"), column("in step"), column("why"))),
				h.TBody(rows))),
	}
}

// processes are those of a resumed run.
func processes(r *report.Report) g.Node {
	if len(r.Processes) == 0 {
		return nil
	}
	rows := g.Group{}
	for i, p := range r.Processes {
		gap, step := "-", "-"
		if i > 0 {
			gap = report.Duration(p.GapSeconds)
		}
		if p.Step != "" {
			step = name(p.Step)
		}
		rows = append(rows,
			h.Tr(num(fmt.Sprint(i+1)), h.Td(g.Text(when(p.Start))), h.Td(g.Text(when(p.End))), num(gap),
				num(report.Duration(p.Seconds)), h.Td(g.Text(step))))
	}
	return g.Group{
		h.P(g.Text(r.Resumed() + ".")),
		Scroll("Processes of the run", h.Table(
			h.THead(
				h.Tr(numColumn("process"), column("start"), column("end"), numColumn("gap before"),
					numColumn("in steps"), column("ended in"))), h.TBody(rows))),
	}
}
