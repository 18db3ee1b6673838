package gotemplate

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/template"
)

// Template is one that was parsed. It has text/template's functions, and kubectl's two: exists VALUE INDEX... says
// whether the indices lead to something, base64decode TEXT is the text that was encoded.
type Template struct{ parsed *template.Template }

// Parse returns an error for a text that is no template, or that calls a function that there is none of.
func Parse(text string) (*Template, error) {
	parsed, err := template.New("output").Funcs(template.FuncMap{"exists": exists, "base64decode": base64decode}).Parse(text)
	if err != nil {
		return nil, err
	}
	return &Template{parsed: parsed}, nil
}

// Execute reads one JSON document and writes it through the template. Fields have their JSON names. A whole number that
// 64 bits can hold keeps every digit, as a ts needs; any other is a float. A missing field prints as "<no value>", as in kubectl.
// Nothing is written if there is an error.
func (t *Template) Execute(w io.Writer, document io.Reader) error {
	decoder := json.NewDecoder(document)
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("read JSON: more than one document")
	}
	var out bytes.Buffer
	if err := t.parsed.Execute(&out, numbers(value)); err != nil {
		return err
	}
	_, err := out.WriteTo(w)
	return err
}

// numbers gives a template numbers that it can compare.
func numbers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = numbers(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = numbers(inner)
		}
	case json.Number:
		if whole, err := v.Int64(); err == nil {
			return whole
		}
		if float, err := v.Float64(); err == nil {
			return float
		}
		return v.String()
	}
	return value
}

// exists follows keys of objects and places of lists.
func exists(value any, indices ...any) bool {
	for _, index := range indices {
		switch at := value.(type) {
		case map[string]any:
			key, ok := index.(string)
			if !ok {
				return false
			}
			if value, ok = at[key]; !ok {
				return false
			}
		case []any:
			i, ok := index.(int)
			if !ok || i < 0 || i >= len(at) {
				return false
			}
			value = at[i]
		default:
			return false
		}
	}
	return true
}

func base64decode(text string) (string, error) {
	decoded, err := base64.StdEncoding.DecodeString(text)
	return string(decoded), err
}
