package phasetest

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/tisnap/tisnap/pkg/phase"
)

// CheckTable returns an error unless the Markdown file has the table of these steps between the lines
// "<!-- SECTION: begin -->" and "<!-- SECTION: end -->"; with update it writes the table there. root is the module's
// folder, and file is relative to it. A step whose function has no comment is an error.
func CheckTable(root, file, section string, steps []phase.Step, update bool) error {
	table, err := Table(root, path.Dir(file), steps)
	if err != nil {
		return err
	}
	name := path.Join(root, file)
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	begin, end := "<!-- "+section+": begin -->\n", "<!-- "+section+": end -->"
	before, rest, begins := strings.Cut(string(text), begin)
	got, after, ends := strings.Cut(rest, end)
	switch {
	case !begins || !ends:
		return fmt.Errorf("%s has no section %q", file, section)
	case got == table:
		return nil
	case update:
		return os.WriteFile(name, []byte(before+begin+table+end+after), 0o600) //nolint:gosec // see above
	}
	return fmt.Errorf("%s: the table %q is stale, make docs writes it: %s", file, section, difference(got, table))
}

// difference is the first line that differs.
func difference(got, want string) string {
	has, wants := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(has), len(wants)) {
		if has[i] != wants[i] {
			return fmt.Sprintf("it has %q, the code %q", has[i], wants[i])
		}
	}
	return fmt.Sprintf("it has %d lines, the code makes %d", len(has), len(wants))
}

// Table is the Markdown table of the steps: what each does, how it is undone, and the file of its code. Links are
// relative to the folder.
func Table(root, folder string, steps []phase.Step) (string, error) {
	ended := map[string]string{}
	for _, s := range steps {
		for _, name := range s.Order.Ends {
			ended[name] = s.Name
		}
	}
	var b strings.Builder
	var problems []error
	b.WriteString("| phase | step | does | undo, if a later step fails | done, and resumed | file |\n|---|---|---|---|---|---|\n")
	previous := ""
	for _, s := range steps {
		do, err := describe(root, s.Do)
		if err != nil {
			problems = append(problems, fmt.Errorf("step %s: %w", s.Name, err))
		}
		undo := "-"
		if s.Undo.Do != nil {
			how, err := describe(root, s.Undo.Do)
			if err != nil {
				problems = append(problems, fmt.Errorf("undo of step %s: %w", s.Name, err))
			}
			undo = how.does
			if s.Undo.First {
				undo = "first: " + undo
			}
			if by := ended[s.Name]; by != "" {
				undo += fmt.Sprintf(" (until `%s`)", by)
			}
		}
		shown := s.Phase
		if shown == previous {
			shown = ""
		}
		previous = s.Phase
		up := strings.Repeat("../", strings.Count(folder, "/")+1)
		resumed := "adopted"
		if s.Resume.Repeat {
			resumed = "repeated"
		}
		name := "`" + s.Name + "`"
		if len(s.Order.After) > 0 {
			name += ", after `" + strings.Join(s.Order.After, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | [%s](%s%s) |\n", shown, name, do.does, undo, resumed, do.file, up, do.file)
	}
	return b.String(), errors.Join(problems...)
}
