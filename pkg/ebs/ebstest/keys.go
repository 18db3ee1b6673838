package ebstest

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/ebs"
)

// keyTarget is how a call of KMS begins, which speaks as Service Quotas does.
const keyTarget = "TrentService."

// defaultAlias names the account's own key for EBS.
const defaultAlias = "alias/aws/ebs"

// keyUse is what became of a KMS key. Unchanged keys are enabled, if the account has them, and their policy
// lets EC2 use them.
type keyUse struct {
	ebs.Key
	gone, refused bool
	sharedWith    map[string]bool // accounts
}

// SetKey puts a KMS key into a state. What EC2 is to encrypt with one that is not enabled vanishes, as with AWS.
func (s *Server) SetKey(id string, key ebs.Key) {
	s.changeKey(id, func(u *keyUse) { u.Key = key })
}

// DeleteKey makes KMS forget a key.
func (s *Server) DeleteKey(id string) {
	s.changeKey(id, func(u *keyUse) { u.gone = true })
}

// RefuseKey takes the right to use an enabled key away from the role of the calls. It may still describe it.
func (s *Server) RefuseKey(id string) {
	s.changeKey(id, func(u *keyUse) { u.refused = true })
}

// ShareKey lets another account use a key of this one.
func (s *Server) ShareKey(id, account string) {
	s.changeKey(id, func(u *keyUse) {
		if u.sharedWith == nil {
			u.sharedWith = map[string]bool{}
		}
		u.sharedWith[account] = true
	})
}

// SetAlias gives a key another name, or takes that to another key.
func (s *Server) SetAlias(alias, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aliases[alias] = key
}

// SetDefaultKey chooses the account's default key for EBS, "" for the one that AWS made, and whether copies of
// unencrypted snapshots are encrypted, too.
func (s *Server) SetDefaultKey(key string, always bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chosenKey, s.encrypts = key, always
}

// keyNamed is the key that a call names by an alias or as itself.
func (s *Server) keyNamed(key string) string {
	if key == defaultAlias {
		return s.ownKey()
	}
	return cmp.Or(s.aliases[key], key)
}

type (
	defaultKeyAnswer struct {
		XMLName xml.Name `xml:"GetEbsDefaultKmsKeyIdResponse"`
		Key     string   `xml:"kmsKeyId"`
	}
	alwaysAnswer struct {
		XMLName xml.Name `xml:"GetEbsEncryptionByDefaultResponse"`
		Always  bool     `xml:"ebsEncryptionByDefault"`
	}
)

func (s *Server) getDefaultKey(request) (any, error) {
	return defaultKeyAnswer{Key: cmp.Or(s.chosenKey, defaultAlias)}, nil
}

func (s *Server) getEncryptionByDefault(request) (any, error) {
	return alwaysAnswer{Always: s.encrypts}, nil
}

func (s *Server) changeKey(id string, change func(*keyUse)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id = s.keyNamed(id)
	use := s.keys[id]
	change(&use)
	s.keys[id] = use
}

// key is what the account has of a key. One that Config.Keys leaves out and that no call has changed is gone.
func (s *Server) key(id string) keyUse {
	use, changed := s.keys[id]
	if changed || s.cfg.Keys == nil || id == s.ownKey() || id == s.defaultKey() || slices.Contains(s.cfg.Keys, id) {
		return use
	}
	return keyUse{gone: true}
}

// usable reports whether EC2 can encrypt with the key.
func (u keyUse) usable() bool {
	return !u.gone && !u.refused && (u.State == "" || u.State == ebs.KeyEnabled)
}

// serveKeys answers DescribeKey.
func (s *Server) serveKeys(w http.ResponseWriter, r *http.Request) {
	act := action{name: strings.TrimPrefix(r.Header.Get("X-Amz-Target"), keyTarget)}
	var in struct{ KeyId string } //nolint:revive,staticcheck // the name of the field
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		refuseQuotas(w, refusal("SerializationException", "%v", err))
		return
	}
	if done := s.struck(w, r, s.cfg.Faults.At(act.service()+"."+act.name), refuseQuotas); done {
		return
	}
	s.mu.Lock()
	name := s.keyNamed(in.KeyId)
	home := s.keyHome(name)
	missing, key, now := s.missing(act, request{}), home.key(name), s.now()
	if home.cfg.Account != s.cfg.Account && !key.sharedWith[s.cfg.Account] {
		missing = "kms:DescribeKey"
	}
	s.mu.Unlock()
	switch {
	case act.name != "DescribeKey":
		refuseQuotas(w, refusal("UnknownOperationException", "unknown action %s", act.name))
		return
	case missing != "":
		refuseQuotas(w, refusal("AccessDeniedException", "User: arn:aws:iam::%s:user/test is not authorized to perform: %s on resource: %s", s.cfg.Account, missing, in.KeyId))
		return
	case key.gone || home.cfg.Region != s.cfg.Region:
		refuseQuotas(w, refusal("NotFoundException", "Key '%s' does not exist", in.KeyId))
		return
	}
	meta := map[string]any{
		"AWSAccountId": home.cfg.Account, "KeyId": name, "Arn": name, "CreationDate": now.Add(-24 * time.Hour).Unix(),
		"KeyState": cmp.Or(key.State, ebs.KeyEnabled), "Enabled": key.State == "" || key.State == ebs.KeyEnabled,
	}
	if !key.DeletedAt.IsZero() {
		meta["DeletionDate"] = key.DeletedAt.Unix()
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	_ = json.NewEncoder(w).Encode(map[string]any{"KeyMetadata": meta}) // the client may have gone
}
