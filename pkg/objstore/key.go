package objstore

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/tisnap/tisnap/pkg/failure"
)

// maxKey is S3's limit on a key's length in bytes, less some room for the store's prefix.
const maxKey = 900

// tempPrefix starts the names of the file store's unfinished files.
const tempPrefix = ".tisnap-"

// CheckKey accepts keys that are valid in every store: UTF-8 without control characters, relative,
// without empty, "." or ".." parts, not ending in '/', no part starting with ".tisnap-", at most 900 bytes.
// Anything else is Usage.
func CheckKey(key string) error {
	if key == "" || len(key) > maxKey || !utf8.ValidString(key) || path.Clean("/"+key) != "/"+key ||
		strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == '\\' }) ||
		strings.Contains("/"+key, "/"+tempPrefix) {
		return failure.New(failure.Usage, "check key", fmt.Sprintf("%q", key), "not a key of object storage")
	}
	return nil
}
