package manifest

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Encode fills in the schema fields that are empty, validates m and returns its JSON, indented and with a
// final newline. The same manifest gives the same bytes. A manifest that Validate refuses is not encoded.
func Encode(m *Manifest) ([]byte, error) {
	c := *m
	if c.APIVersion == "" {
		c.APIVersion = APIVersion
	}
	if c.Kind == "" {
		c.Kind = Kind
	}
	if c.FullBackupType == "" {
		c.FullBackupType = FullBackupType
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return encodeDocument(&c, "encode manifest", string(c.ID))
}

// Decode reads a manifest and validates it. It does not check the seal: only unsealed backups are read
// with it, to resume or remove them. A schema of a newer tisnap is Usage; anything else that is not a
// valid manifest is Corrupt.
func Decode(doc []byte) (*Manifest, error) {
	if err := checkSchema(doc, Kind, "decode manifest"); err != nil {
		return nil, err
	}
	m := new(Manifest)
	if err := json.Unmarshal(doc, m); err != nil {
		return nil, failure.Wrap(err, failure.Corrupt, "decode manifest", "")
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return m, nil
}

func encodeDocument(v any, op, target string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, failure.Wrap(err, failure.Corrupt, op, target)
	}
	return b.Bytes(), nil
}

// checkSchema reads the two schema fields alone, since nothing else of a newer schema can be relied on.
func checkSchema(doc []byte, kind, op string) error {
	var schema struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(doc, &schema); err != nil {
		return failure.Wrap(err, failure.Corrupt, op, "")
	}
	group, _, _ := strings.Cut(APIVersion, "/")
	switch {
	case schema.APIVersion == APIVersion && schema.Kind == kind:
		return nil
	case strings.HasPrefix(schema.APIVersion, group+"/") && schema.APIVersion != APIVersion:
		return failure.New(failure.Usage, op, "", "schema %s was made by a newer tisnap; this one reads %s",
			schema.APIVersion, APIVersion).WithHint("use the tisnap version that made the backup, or a newer one")
	default:
		return failure.New(failure.Corrupt, op, "", "want a document of %s %s, got apiVersion %q kind %q",
			APIVersion, kind, schema.APIVersion, schema.Kind)
	}
}
