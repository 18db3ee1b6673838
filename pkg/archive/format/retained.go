package format

import (
	"bytes"
	"crypto/hmac"
	"encoding/hex"
	"time"
)

// RetainedPath is the object that has until when prunes have retained all that was in use.
const RetainedPath = "retained"

// SealRetained returns the object with that time, which only holders of the newest key can make.
func (k *Keyring) SealRetained(until time.Time) ([]byte, error) {
	text := []byte(until.UTC().Format(time.RFC3339) + "\n")
	key, err := k.derive(k.Generation(), "retained mac")
	if err != nil {
		return nil, err
	}
	return append(text, hex.EncodeToString(mac(key, text))+"\n"...), nil
}

// OpenRetained returns the time of the object; zero of any other, such as one of an older key.
func (k *Keyring) OpenRetained(object []byte) time.Time {
	line, _, _ := bytes.Cut(object, []byte("\n"))
	until, err := time.Parse(time.RFC3339, string(line))
	if err != nil {
		return time.Time{}
	}
	want, err := k.SealRetained(until)
	if err != nil || !hmac.Equal(want, object) {
		return time.Time{}
	}
	return until
}
