package ebsdirecttest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"
)

// token is the content of a block token or of a token of the next page. Clients cannot read more than its text.
type token struct {
	Of       string // snapshot, or list
	Index    int64
	IssuedAt time.Time
}

type sealed struct {
	Token token
	MAC   []byte
}

func (s *Server) issue(of string, index int64) string {
	t := token{of, index, s.now()}
	text, _ := json.Marshal(sealed{t, s.mac(t)}) // plain fields
	return base64.RawURLEncoding.EncodeToString(text)
}

// open reads a token that is not older than life.
func (s *Server) open(text string, life time.Duration) (token, bool) {
	var t sealed
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, &t) != nil || !hmac.Equal(t.MAC, s.mac(t.Token)) {
		return token{}, false
	}
	return t.Token, s.now().Sub(t.Token.IssuedAt) < life
}

func (s *Server) mac(t token) []byte {
	text, _ := json.Marshal(t) // plain fields
	m := hmac.New(sha256.New, s.secret)
	_, _ = m.Write(text)
	return m.Sum(nil)
}
