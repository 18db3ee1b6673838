package format

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/codec"
)

// update writes what the code makes now. Nothing in testdata changes as long as the format's version is 1, except for a
// better compressor.
var update = flag.Bool("update", false, "write the test vectors")

const vectorPassphrase = "correct horse battery staple"

// vectors are what docs/archive-format.md shows: each step from the keys to the objects in testdata/repository.
type vectors struct {
	Masters    []string     `json:"masters"`
	Identity   string       `json:"identity"`
	Passphrase string       `json:"passphrase"`
	Repository RepositoryID `json:"repository"`
	Keys       []vectorKey  `json:"keys"`
	Block      struct {
		Raw    string `json:"raw"`
		Digest string `json:"digest"`
		ID     string `json:"id"`
		Offset uint32 `json:"offset"`
		Nonce  string `json:"nonce"`
		AAD    string `json:"aad"`
		Sealed string `json:"sealed"`
	} `json:"block"`
	Segment struct {
		Name    SegmentName `json:"name"`
		Encoded string      `json:"encoded"`
	} `json:"segment"`
	Volume struct {
		Size   int64  `json:"size"`
		SHA256 string `json:"sha256"`
	} `json:"volume"`
}

type vectorKey struct {
	Label   string `json:"label"`
	Context string `json:"context"`
	Key     string `json:"key"`
}

// vectorPack is a pack of three blocks: by zstd, by s2, and stored.
func vectorPack(t *testing.T, keys *Keyring) ([]byte, PackRef, []Block, [][]byte) {
	raws := [][]byte{block(0), block(1), []byte("the last, short block")}
	var out bytes.Buffer
	w, err := NewPackWriter(&out, keys, fixedSource(), PackName{0xaa, 0xbb, 15: 0xff})
	require.NoError(t, err)
	var blocks []Block
	for i, level := range []codec.Level{codec.ZstdFastest, codec.S2, codec.None} {
		e, err := codec.NewEncoder(level)
		require.NoError(t, err)
		id, packed := e.Encode(raws[i])
		b, err := w.Add(Origin{Index: []uint32{0, 2, 6}[i]}, sha256.Sum256(raws[i]), len(raws[i]), id, packed)
		require.NoError(t, err)
		blocks = append(blocks, b)
	}
	require.NoError(t, w.Close())
	return out.Bytes(), w.Ref(), blocks, raws
}

// makeVectors returns the vectors, and the repository's objects by path.
func makeVectors(t *testing.T) (vectors, map[string][]byte) {
	var v vectors
	keys := fixedKeys(t)
	for _, m := range keys.masters {
		v.Masters = append(v.Masters, hex.EncodeToString(m))
	}
	v.Repository, v.Passphrase = keys.id, vectorPassphrase
	data, ref, blocks, raws := vectorPack(t, keys)
	last := blocks[2]
	pack, err := keys.Pack(ref)
	require.NoError(t, err)
	v.Block.Raw, v.Block.Digest, v.Block.Offset = string(raws[2]), last.Digest.String(), last.Offset
	v.Block.ID, v.Block.AAD = hex.EncodeToString(mac(pack.idKey, last.Digest[:])), hex.EncodeToString(pack.bind(last))
	v.Block.Nonce = hex.EncodeToString(nonce(int64(last.Offset)))
	v.Block.Sealed = hex.EncodeToString(data[last.Offset:last.end()])

	s := saved(ref, blocks)
	s = Segment{s[0], {State: Zero}, s[1], {State: Free}, {State: Absent}, s[0], s[2]}
	plain, err := s.encode()
	require.NoError(t, err)
	name, segment, err := s.Seal(keys)
	require.NoError(t, err)
	v.Segment.Name, v.Segment.Encoded = name, hex.EncodeToString(plain)

	zeros := make([]byte, codec.MaxBlock)
	volume := bytes.Join([][]byte{raws[0], zeros, raws[1], zeros, zeros, raws[0], raws[2]}, nil)
	whole, sum := sha256.Sum256(volume), NewChecksum()
	v.Volume.Size, v.Volume.SHA256 = int64(len(volume)), hex.EncodeToString(whole[:])
	for _, b := range []Block{blocks[0], blocks[1], blocks[0], blocks[2]} {
		sum.Add(b.Digest)
	}
	a := &Archive{
		Backup: "nightly", BackupTS: 461234567890123456, Created: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC),
		Manifest: NewManifest([]byte("{}")),
		Stores: []Store{{ID: 1, Volumes: []Volume{{
			Role: "data", Size: int64(len(volume)), Segments: []SegmentName{name}, Counts: Counts{Saved: 4, Zero: 1, Free: 1},
			Checksum: sum.Sum(),
		}}}},
	}
	archive, err := a.seal(keys, "nightly-1", bytes.Repeat([]byte{0x5a}, sivSize))
	require.NoError(t, err)
	for _, k := range []vectorKey{
		{"block id", "", ""}, {"pack", hex.EncodeToString(ref.Name[:]), ""}, {"segment name", "", ""}, {"segment siv", "", ""},
		{"segment", hex.EncodeToString(append(name[:], segment[prefixSize:sealedStart]...)), ""},
		{"archive", hex.EncodeToString(append([]byte("archives/nightly-1"), archive[prefixSize:sealedStart]...)), ""},
		{"repository mac", "", ""},
	} {
		context, err := hex.DecodeString(k.Context)
		require.NoError(t, err)
		key, err := keys.derive(1, k.Label, context)
		require.NoError(t, err)
		k.Key = hex.EncodeToString(key)
		v.Keys = append(v.Keys, k)
	}
	return v, map[string][]byte{ref.Name.Path(): data, name.Path(): segment, "archives/nightly-1": archive}
}

func writeVectors(t *testing.T) {
	v, objects := makeVectors(t)
	id := identity(t)
	v.Identity = id.String()
	keys := fixedKeys(t)
	slot, err := keys.AgeSlot("ops", id.Recipient().String(), id.Recipient())
	require.NoError(t, err)
	phrase, err := keys.PassphraseSlot("safe", vectorPassphrase)
	require.NoError(t, err)
	objects["repo.json"], err = EncodeRepository(keys, []Slot{slot, phrase}, Settings{PackSize: 32 << 20})
	require.NoError(t, err)
	text, err := json.MarshalIndent(v, "", "  ")
	require.NoError(t, err)
	objects["../vectors.json"] = append(text, '\n')
	for path, data := range objects {
		file := filepath.Join("testdata/repository", path)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(t, os.WriteFile(file, data, 0o600))
	}
}

func object(t *testing.T, path string) []byte {
	data, err := os.ReadFile(filepath.Join("testdata/repository", path))
	require.NoError(t, err)
	return data
}

func TestVectors_EveryStep_IsTheSame(t *testing.T) {
	t.Parallel()
	if *update {
		writeVectors(t)
	}
	var want vectors
	require.NoError(t, json.Unmarshal(object(t, "../vectors.json"), &want))
	got, _ := makeVectors(t)
	got.Identity = want.Identity
	// The compressor decides where the pack's last blocks are, and so some of what follows.
	if string(object(t, "packs/aa/aabb00000000000000000000000000ff")) == string(packOf(t)) {
		assert.Equal(t, want, got)
	}
	assert.Equal(t, want.Repository, got.Repository)
	assert.Equal(t, want.Keys[:4], got.Keys[:4])
	assert.Equal(t, want.Volume, got.Volume)
}

func packOf(t *testing.T) []byte {
	data, _, _, _ := vectorPack(t, fixedKeys(t))
	return data
}

// TestVectors_Repository_IsRead reads what the first release wrote.
func TestVectors_Repository_IsRead(t *testing.T) {
	t.Parallel()
	var v vectors
	require.NoError(t, json.Unmarshal(object(t, "../vectors.json"), &v))
	id, err := age.ParseX25519Identity(v.Identity)
	require.NoError(t, err)
	phrase, err := Passphrase(v.Passphrase)
	require.NoError(t, err)
	for _, by := range []age.Identity{id, phrase} {
		keys, err := unlock(t, object(t, "repo.json"), by)
		require.NoError(t, err)
		assert.Equal(t, fixedKeys(t), keys)
	}
	keys := fixedKeys(t)
	a, err := OpenArchive(keys, "nightly-1", object(t, "archives/nightly-1"))
	require.NoError(t, err)
	name := a.Stores[0].Volumes[0].Segments[0]
	assert.Equal(t, v.Segment.Name, name)
	s, err := OpenSegment(keys, name, object(t, name.Path()))
	require.NoError(t, err)
	plain, err := s.encode()
	require.NoError(t, err)
	assert.Equal(t, v.Segment.Encoded, hex.EncodeToString(plain))
	c, err := read(keys, s[0].Pack.Name, object(t, s[0].Pack.Name.Path()))
	require.NoError(t, err)
	assert.Equal(t, fixedSource(), c.Source)
	for i, at := range []int{0, 2, 6} {
		assert.Equal(t, Entry{Block: s[at].Block, Origin: Origin{Index: uint32(at)}}, c.Blocks[i])
	}
	d, err := codec.NewDecoder()
	require.NoError(t, err)
	volume, sum := make([]byte, v.Volume.Size), NewChecksum()
	for i, p := range s {
		if p.State != Saved {
			continue
		}
		pack, err := keys.Pack(p.Pack)
		require.NoError(t, err)
		packed, err := pack.Open(nil, p.Block, object(t, p.Pack.Name.Path())[p.Block.Offset:p.Block.end()])
		require.NoError(t, err)
		require.NoError(t, d.Decode(volume[i*codec.MaxBlock:][:p.Block.Raw], p.Block.Codec, packed))
		sum.Add(p.Block.Digest)
	}
	whole := sha256.Sum256(volume)
	assert.Equal(t, v.Volume.SHA256, hex.EncodeToString(whole[:]))
	assert.Equal(t, a.Stores[0].Volumes[0].Checksum, sum.Sum())
}

// TestVectors_OfTheDocument_AreThese: a stranger writes a reader by what the document shows.
func TestVectors_OfTheDocument_AreThese(t *testing.T) {
	t.Parallel()
	var v vectors
	require.NoError(t, json.Unmarshal(object(t, "../vectors.json"), &v))
	text, err := os.ReadFile("../../../docs/archive-format.md")
	require.NoError(t, err)
	for _, shown := range []string{
		v.Repository.String(), v.Keys[0].Key, v.Keys[1].Context, v.Keys[1].Key, v.Block.Raw, v.Block.Digest, v.Block.Nonce,
		v.Block.AAD, v.Block.Sealed, v.Segment.Name.String(), v.Volume.SHA256,
	} {
		assert.Contains(t, string(text), "`"+shown+"`")
	}
}
