package kube

import (
	"encoding/json"

	"github.com/tisnap/tisnap/pkg/failure"
)

// maxObjectBytes bounds an object's size, well below etcd's 1.5 MiB per request.
const maxObjectBytes = 200 << 10

// checkSize rejects objects that are too large for etcd before anything is sent.
func checkSize(o any, target string) error {
	b, err := json.Marshal(o)
	if err != nil {
		return failure.Wrap(err, failure.Usage, "encode object", target)
	}
	if len(b) > maxObjectBytes {
		return failure.New(failure.Usage, "write object", target, "it has %d bytes, more than %d", len(b),
			maxObjectBytes).
			WithHint("make the source's object smaller")
	}
	return nil
}
