package format

import (
	"encoding/json"

	"github.com/tisnap/tisnap/pkg/failure"
)

// UnitPrefix begins the keys of what the processes that make one archive together share. No archive refers to it.
const UnitPrefix = "units/"

// SealUnit returns the object with this key, which is below UnitPrefix or VerifiedPath, in JSON. It can be read under
// no other key.
func (k *Keyring) SealUnit(path string, content any) ([]byte, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, "seal object", path)
	}
	packed, err := inZstd(text)
	if err != nil {
		return nil, failure.Annotate(err, "seal object", path)
	}
	salt := make([]byte, sivSize)
	random(salt)
	object, err := k.sealObject(kindUnit, path, "unit", []byte(path), salt, packed)
	return object, failure.Annotate(err, "seal object", path)
}

// OpenUnit reads what SealUnit made.
func (k *Keyring) OpenUnit(path string, object []byte, content any) error {
	packed, _, err := openObject(k, kindUnit, object, path, "unit", []byte(path))
	if err == nil {
		packed, err = unzstd(packed, maxArchive)
	}
	if err != nil {
		return failure.Annotate(err, "open object", path)
	}
	return failure.Wrap(json.Unmarshal(packed, content), failure.Corrupt, "open object", path)
}
