package ebstest

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"encoding/xml"
	"maps"
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

// keyRequest is a call's body.
type keyRequest struct {
	KeyId             string //nolint:revive,staticcheck // the name of the field
	Plaintext         []byte
	CiphertextBlob    []byte
	EncryptionContext map[string]string
}

// serveKeys answers DescribeKey, Encrypt and Decrypt.
func (s *Server) serveKeys(w http.ResponseWriter, r *http.Request) {
	act := action{name: strings.TrimPrefix(r.Header.Get("X-Amz-Target"), keyTarget)}
	var in keyRequest
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		refuseQuotas(w, refusal("SerializationException", "%v", err))
		return
	}
	if done := s.struck(w, r, s.cfg.Faults.At(act.service()+"."+act.name), refuseQuotas); done {
		return
	}
	s.mu.Lock()
	answer, err := s.answerKeys(act, in)
	s.mu.Unlock()
	if err != nil {
		refuseQuotas(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	_ = json.NewEncoder(w).Encode(answer) // the client may have gone
}

func (s *Server) answerKeys(act action, in keyRequest) (any, error) {
	name := s.keyNamed(in.KeyId)
	home := s.keyHome(name)
	missing, key, now := s.missing(act, request{}), home.key(name), s.now()
	if home.cfg.Account != s.cfg.Account && !key.sharedWith[s.cfg.Account] || key.refused && act.name != "DescribeKey" {
		missing = "kms:" + act.name
	}
	switch {
	case missing != "":
		return nil, refusal("AccessDeniedException", "User: arn:aws:iam::%s:user/test is not authorized to perform: %s on resource: %s", s.cfg.Account, missing, in.KeyId)
	case key.gone || home.cfg.Region != s.cfg.Region:
		return nil, refusal("NotFoundException", "Key '%s' does not exist", in.KeyId)
	case act.name == "DescribeKey":
	case key.State == ebs.KeyDisabled:
		return nil, refusal("DisabledException", "%s is disabled.", name)
	case key.State != "" && key.State != ebs.KeyEnabled:
		return nil, refusal("KMSInvalidStateException", "%s is pending deletion.", name)
	}
	switch act.name {
	case "DescribeKey":
		meta := map[string]any{
			"AWSAccountId": home.cfg.Account, "KeyId": name, "Arn": name, "CreationDate": now.Add(-24 * time.Hour).Unix(),
			"KeyState": cmp.Or(key.State, ebs.KeyEnabled), "Enabled": key.State == "" || key.State == ebs.KeyEnabled,
		}
		if !key.DeletedAt.IsZero() {
			meta["DeletionDate"] = key.DeletedAt.Unix()
		}
		return map[string]any{"KeyMetadata": meta}, nil
	case "Encrypt":
		return encryptByKey(name, in)
	case "Decrypt":
		return decryptByKey(name, in)
	}
	return nil, refusal("UnknownOperationException", "unknown action %s", act.name)
}

// maxPlaintext is the most bytes that KMS encrypts.
const maxPlaintext = 4096

// sealed is what a ciphertext of the stand-in holds: nothing is secret in it.
type sealed struct {
	Key     string
	Context map[string]string
	Plain   []byte
	Sum     [sha256.Size]byte // of the others
}

func (c sealed) sum() [sha256.Size]byte {
	c.Sum = [sha256.Size]byte{}
	text, _ := json.Marshal(c) // of texts and bytes
	return sha256.Sum256(text)
}

func encryptByKey(name string, in keyRequest) (any, error) {
	if n := len(in.Plaintext); n == 0 || n > maxPlaintext {
		return nil, refusal("ValidationException", "Value at 'plaintext' failed to satisfy constraint: Member must have length between 1 and %d", maxPlaintext)
	}
	c := sealed{Key: name, Context: in.EncryptionContext, Plain: in.Plaintext}
	c.Sum = c.sum()
	text, err := json.Marshal(c)
	return map[string]any{"CiphertextBlob": text, "KeyId": name, "EncryptionAlgorithm": "SYMMETRIC_DEFAULT"}, err
}

// decryptByKey gives the same answer for another context as for a ciphertext that was changed, as KMS does.
func decryptByKey(name string, in keyRequest) (any, error) {
	var c sealed
	if json.Unmarshal(in.CiphertextBlob, &c) != nil || c.sum() != c.Sum || !maps.Equal(c.Context, in.EncryptionContext) {
		return nil, refusal("InvalidCiphertextException", "")
	}
	if c.Key != name {
		return nil, refusal("IncorrectKeyException", "The key ID in the request does not identify a CMK that can perform this operation.")
	}
	return map[string]any{"Plaintext": c.Plain, "KeyId": name, "EncryptionAlgorithm": "SYMMETRIC_DEFAULT"}, nil
}
