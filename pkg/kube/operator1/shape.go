package operator1

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Shape is what must be equal in a TidbCluster and in the target of its restore.
type Shape struct {
	Volumes int // per TiKV store
	// Encryption has TiKV's encryption-at-rest settings (security.encryption…): with another method or master key a
	// store cannot open the data.
	Encryption map[string]string
}

// ShapeOf reads the shape of a TidbCluster. An unreadable one is Corrupt.
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

// SameEncryption reports whether stores of one can open the data of the other.
func (s Shape) SameEncryption(other Shape) bool { return maps.Equal(s.Encryption, other.Encryption) }
