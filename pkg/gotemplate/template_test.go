package gotemplate

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const backups = `{"kind": "BackupList", "items": [
	{"id": "a", "backupTS": 468000000000000001, "share": 0.5, "tags": ["x"], "secret": "aGVsbG8="},
	{"id": "b", "backupTS": 2, "huge": 1e400}]}`

func TestTemplate_Execute(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{{range .items}}{{.id}} {{end}}`:                      "a b ",
		`{{(index .items 0).backupTS}}`:                        "468000000000000001",
		`{{if eq (index .items 1).backupTS 2}}two{{end}}`:      "two",
		`{{(index .items 0).share}} {{(index .items 1).huge}}`: "0.5 1e400",
		`{{.none}}`: "<no value>",
		`{{range .items}}{{if exists . "tags"}}{{index .tags 0}}{{end}}{{end}}`:                                               "x",
		`{{exists . "items" 1 "id"}} {{exists . "items" 2}} {{exists . "items" "id"}} {{exists . "kind" "x"}} {{exists . 1}}`: "true false false false false",
		`{{base64decode (index .items 0).secret}}`:                                                                            "hello",
		`{{printf "%s=%d" .kind (len .items)}}{{"\n"}}`:                                                                       "BackupList=2\n",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			parsed, err := Parse(text)
			require.NoError(t, err)
			var out bytes.Buffer
			require.NoError(t, parsed.Execute(&out, strings.NewReader(backups)))
			require.Equal(t, want, out.String())
		})
	}
}

func TestTemplate_Errors_WriteNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, document, want string }{
		"no template":      {`{{.a`, `{}`, "unclosed action"},
		"no function":      {`{{none .}}`, `{}`, `function "none" not defined`},
		"no JSON":          {`a`, `{`, "read JSON"},
		"two documents":    {`a`, `{} {}`, "more than one document"},
		"no number to it":  {`before {{index .a 3}}`, `{"a": [1]}`, "index out of range"},
		"not encoded":      {`before {{base64decode .a}}`, `{"a": "*"}`, "illegal base64"},
		"of another type":  {`before {{.a.b}}`, `{"a": 1}`, "can't evaluate field b"},
		"compared as text": {`before {{eq .a 1}}`, `{"a": "1"}`, "incompatible types"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parsed, err := Parse(c.text)
			var out bytes.Buffer
			if err == nil {
				err = parsed.Execute(&out, strings.NewReader(c.document))
			}
			require.ErrorContains(t, err, c.want)
			require.Empty(t, out.String())
		})
	}
}
