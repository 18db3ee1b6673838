package ebs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
)

// Token is the client token of a volume: the same words give the same token, on every machine and after every
// restart, and the token says nothing of them. generation is 1 at first, and one more each time that the
// token was burned; keep it in the journal.
func Token(generation int, words ...string) string {
	text := strings.Join(words, "/")
	if generation > 1 {
		text += "#" + strconv.Itoa(generation)
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// errTokenBurned is in the tree of an error that TokenBurned knows.
var errTokenBurned = errors.New("the client token is burned: its volume is gone")

// TokenBurned reports whether CreateVolume was refused because the token's volume is gone and none lives that
// carries the request's tags, so that asking with a new token makes no second volume.
func TokenBurned(err error) bool { return errors.Is(err, errTokenBurned) }
