package tikv

import (
	"github.com/tikv/client-go/v2/util/codec"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// DecodeRange turns a region's encoded bounds, as PD returns them, into the raw keys of kv requests.
// Open ends stay open. A key that is not memcomparable-encoded is Corrupt.
func DecodeRange(r cluster.KeyRange) (cluster.RawRange, error) {
	start, err := decodeKey(r.Start)
	if err != nil {
		return cluster.RawRange{}, err
	}
	end, err := decodeKey(r.End)
	if err != nil {
		return cluster.RawRange{}, err
	}
	return cluster.RawRange{Start: start, End: end}, nil
}

func decodeKey(key cluster.EncodedKey) (cluster.RawKey, error) {
	if len(key) == 0 {
		return nil, nil
	}
	rest, raw, err := codec.DecodeBytes(key, nil)
	if err != nil || len(rest) != 0 {
		return nil, failure.New(failure.Corrupt, "decode region key", cluster.KeyRange{Start: key}.String(),
			"it is not memcomparable-encoded")
	}
	return raw, nil
}
