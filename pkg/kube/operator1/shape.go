package operator1

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Shape is what has to be the same in a TidbCluster and in the target of its restore.
type Shape struct {
	Volumes int // of each TiKV store
	// Encryption are TiKV's own settings of encryption at rest (security.encryption…): with another method or
	// master key a store cannot open the data.
	Encryption map[string]string
}

// ShapeOf reads the shape of a TidbCluster. One that cannot be read is Corrupt.
func ShapeOf(object json.RawMessage) (Shape, error) {
	var doc struct {
		Spec struct {
			TiKV struct {
				StorageVolumes []json.RawMessage `json:"storageVolumes"`
				Config         any               `json:"config"`
			} `json:"tikv"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(object, &doc); err != nil {
		return Shape{}, failure.Wrap(err, failure.Corrupt, "read tidbcluster", "")
	}
	values, err := configValues(doc.Spec.TiKV.Config)
	if err != nil {
		return Shape{}, err
	}
	s := Shape{Volumes: 1 + len(doc.Spec.TiKV.StorageVolumes), Encryption: map[string]string{}}
	for key, value := range values {
		if strings.HasPrefix(key, "security.encryption") {
			s.Encryption[key] = value
		}
	}
	return s, nil
}

// SameEncryption reports whether stores of the one can open the data of the other.
func (s Shape) SameEncryption(other Shape) bool { return maps.Equal(s.Encryption, other.Encryption) }
