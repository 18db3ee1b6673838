package format

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/saturate"
)

// The repository's object that is read first, and the prefixes of the others.
const (
	RepositoryPath = "repo.json"
	PackPrefix     = "packs/"
	SegmentPrefix  = "segs/"
	ArchivePrefix  = "archives/"

	LeasePrefix     = "leases/"
	CondemnedPrefix = "condemned/"
	EpochPath       = "epoch.json"
)

// RepositoryID identifies a repository, and commits to its first key: two keys never have the same id.
type RepositoryID [16]byte

// PackName is a pack's random name.
type PackName [16]byte

// SegmentName is a keyed hash of a segment's content.
type SegmentName [32]byte

// Digest is the SHA-256 of a block.
type Digest [32]byte

// NewPackName returns a random name, which no pack has.
func NewPackName() (p PackName) {
	random(p[:])
	return p
}

// PackNames is the seed of an endless sequence of pack names, so that a writer's packs can be found again. Names are
// indistinguishable from random ones.
type PackNames [32]byte

// NewPackNames returns an unused sequence.
func NewPackNames() (s PackNames) {
	random(s[:])
	return s
}

// At is the sequence's name with this number.
func (s PackNames) At(n int) PackName {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(s[:], saturate.To[uint64](n)))
	return PackName(sum[:len(PackName{})])
}

// MarshalText returns the seed in hexadecimal.
func (s PackNames) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(s[:])), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *PackNames) UnmarshalText(text []byte) error { return unhex(s[:], string(text)) }

// String is the id in hexadecimal.
func (r RepositoryID) String() string { return hex.EncodeToString(r[:]) }

// String is the name in hexadecimal.
func (p PackName) String() string { return hex.EncodeToString(p[:]) }

// String is the name in hexadecimal.
func (s SegmentName) String() string { return hex.EncodeToString(s[:]) }

// String is the digest in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText returns the id in hexadecimal.
func (r RepositoryID) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// MarshalText returns the name in hexadecimal.
func (s SegmentName) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalText returns the digest in hexadecimal.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (r *RepositoryID) UnmarshalText(text []byte) error { return unhex(r[:], string(text)) }

// UnmarshalText reads what MarshalText wrote.
func (s *SegmentName) UnmarshalText(text []byte) error { return unhex(s[:], string(text)) }

// UnmarshalText reads what MarshalText wrote.
func (d *Digest) UnmarshalText(text []byte) error { return unhex(d[:], string(text)) }

// Path is the pack's key in the repository.
func (p PackName) Path() string { return PackPrefix + p.String()[:2] + "/" + p.String() }

// Path is the segment's key in the repository.
func (s SegmentName) Path() string { return SegmentPrefix + s.String() }

// ParsePackPath returns the name of the pack with this key.
func ParsePackPath(path string) (PackName, error) {
	var p PackName
	err := unhex(p[:], path[strings.LastIndexByte(path, '/')+1:])
	if err == nil && p.Path() != path {
		err = failure.New(failure.Corrupt, "", "", "it is no pack's path")
	}
	return p, failure.Wrap(err, failure.Corrupt, "parse name", path)
}

// ParseSegmentPath returns the name of the segment with this key.
func ParseSegmentPath(path string) (SegmentName, error) {
	var s SegmentName
	err := unhex(s[:], strings.TrimPrefix(path, SegmentPrefix))
	if err == nil && s.Path() != path {
		err = failure.New(failure.Corrupt, "", "", "it is no segment's path")
	}
	return s, failure.Wrap(err, failure.Corrupt, "parse name", path)
}

// unhex accepts exactly what hex.EncodeToString makes of out.
func unhex(out []byte, text string) error {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(out) || hex.EncodeToString(raw) != text {
		return failure.New(failure.Corrupt, "parse name", "", "%q is not %d bytes in lower-case hexadecimal", text,
			len(out))
	}
	copy(out, raw)
	return nil
}

var archiveID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// ArchivePath is the key of the archive with this id. An id has 1 to 128 letters, digits, dots, underscores and
// hyphens, and starts with a letter or digit.
func ArchivePath(id string) (string, error) {
	if !archiveID.MatchString(id) {
		return "", failure.New(failure.Usage, "name archive", "",
			"%q is not 1 to 128 letters, digits, '.', '_' or '-'", id)
	}
	return ArchivePrefix + id, nil
}

func random(out []byte) { _, _ = rand.Read(out) } // never fails: crypto/rand ends the program first
