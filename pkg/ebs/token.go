package ebs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
)

// Token returns a volume's client token: the same words give the same token on every machine and after every restart,
// without revealing them. generation starts at 1 and increases each time the token was burned; keep it in the journal.
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

// TokenBurned reports whether CreateVolume was refused because the token's volume is gone and no volume with the
// request's tags exists, so that a new token does not create a second volume.
func TokenBurned(err error) bool { return errors.Is(err, errTokenBurned) }
