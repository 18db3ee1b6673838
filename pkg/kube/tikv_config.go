package kube

import (
	"strconv"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
)

// configStrings reads the string values of a TiKV configuration by their dotted keys ("raft-engine.dir").
//
// It understands as much of TOML as finding them takes: tables, dotted and quoted keys, basic, literal and
// multi-line strings, comments. Values of other types are skipped, arrays over several lines included. A
// string that never ends is Corrupt: a folder that is overlooked would give a volume the wrong role.
func configStrings(text string) (map[string]string, error) {
	values := map[string]string{}
	table := ""
	scan := tomlScanner{rest: text}
	for scan.skipBlank(true) {
		if scan.rest[0] == '[' {
			header := scan.line()
			table = dotted(strings.Trim(strings.TrimSpace(stripComment(header)), "[]"))
			continue
		}
		key, ok := scan.key()
		if !ok {
			scan.line()
			continue
		}
		if table != "" {
			key = table + "." + key
		}
		value, isString, err := scan.value()
		if err != nil {
			return nil, failure.New(failure.Corrupt, "read tikv configuration", key, "%v", err)
		}
		if isString {
			values[key] = value
		}
	}
	return values, nil
}

// tomlScanner walks over a document.
type tomlScanner struct{ rest string }

// skipBlank skips white space, comments and, if asked, ends of lines; it returns false at the end of the document.
func (s *tomlScanner) skipBlank(lines bool) bool {
	space := " \t\r"
	if lines {
		space += "\n"
	}
	for {
		s.rest = strings.TrimLeft(s.rest, space)
		if !lines || !strings.HasPrefix(s.rest, "#") {
			return s.rest != ""
		}
		s.line()
	}
}

// line takes the rest of the line.
func (s *tomlScanner) line() string {
	line, rest, _ := strings.Cut(s.rest, "\n")
	s.rest = rest
	return line
}

// key takes "a.b =" and leaves the value.
func (s *tomlScanner) key() (string, bool) {
	end := strings.IndexAny(s.rest, "=\n")
	if end < 0 || s.rest[end] == '\n' {
		return "", false
	}
	key := dotted(s.rest[:end])
	s.rest = s.rest[end+1:]
	return key, key != ""
}

// value takes a value; only strings are returned.
func (s *tomlScanner) value() (string, bool, error) {
	s.skipBlank(false)
	for _, quote := range []string{`"""`, `'''`, `"`, `'`} {
		if strings.HasPrefix(s.rest, quote) {
			v, err := s.quoted(quote)
			s.line()
			return v, true, err
		}
	}
	if strings.HasPrefix(s.rest, "[") || strings.HasPrefix(s.rest, "{") {
		return "", false, s.skipNested()
	}
	s.line()
	return "", false, nil
}

// quoted takes a string that begins with quote.
func (s *tomlScanner) quoted(quote string) (string, error) {
	var out strings.Builder
	rest := s.rest[len(quote):]
	for rest != "" {
		if strings.HasPrefix(rest, quote) {
			s.rest = rest[len(quote):]
			return strings.TrimPrefix(out.String(), "\n"), nil
		}
		if rest[0] == '\n' && len(quote) == 1 {
			break
		}
		if rest[0] == '\\' && quote[0] == '"' {
			if folded := strings.TrimLeft(rest[1:], " \t\r"); len(quote) > 1 && strings.HasPrefix(folded, "\n") {
				rest = strings.TrimLeft(folded, " \t\r\n") // a backslash at the end of a line joins it with the next
				continue
			}
			char, _, tail, err := strconv.UnquoteChar(rest, '"')
			if err != nil {
				return "", err
			}
			out.WriteRune(char)
			rest = tail
			continue
		}
		out.WriteByte(rest[0])
		rest = rest[1:]
	}
	return "", failure.New(failure.Corrupt, "", "", "string is not closed")
}

// skipNested skips an array or an inline table, with the strings in it.
func (s *tomlScanner) skipNested() error {
	depth := 0
	for s.rest != "" {
		switch c := s.rest[0]; c {
		case '"', '\'':
			if _, err := s.quoted(string(c)); err != nil {
				return err
			}
			continue
		case '#':
			s.line()
			continue
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		s.rest = s.rest[1:]
		if depth == 0 {
			s.line()
			return nil
		}
	}
	return failure.New(failure.Corrupt, "", "", "array is not closed")
}

// dotted removes white space and quotes around the parts of a key.
func dotted(key string) string {
	parts := strings.Split(key, ".")
	for i, p := range parts {
		parts[i] = strings.Trim(strings.TrimSpace(p), `"'`)
	}
	return strings.Join(parts, ".")
}

func stripComment(line string) string {
	before, _, _ := strings.Cut(line, "#")
	return before
}
