package archive_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/prune"
	"github.com/tisnap/tisnap/pkg/archive/repair"
	archive "github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/verify"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// interpreter names the Python that has the reader's one package.
const interpreter = "TISNAP_TEST_PYTHON"

const vectors = "../../pkg/archive/format/testdata"

// read runs the reader, and returns the volume that it wrote, or its error.
func read(t *testing.T, folder, archive, store, role, flag, key string, more ...string) ([]byte, error) {
	t.Helper()
	python := os.Getenv(interpreter)
	if python == "" {
		t.Skip("it needs a Python: make test-archive")
	}
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte(key+"\n"), 0o600))
	var out, problem bytes.Buffer
	cmd := exec.CommandContext(t.Context(), python, append([]string{"reader.py", folder, archive, store, role, flag, file}, more...)...)
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, problem.String())
	}
	return out.Bytes(), nil
}

// repository writes one as tisnap does.
type repository struct {
	t      *testing.T
	folder string
	keys   *format.Keyring
	ids    []*age.X25519Identity
}

func newRepository(t *testing.T) *repository {
	keys, err := format.NewKeyring()
	require.NoError(t, err)
	r := &repository{t: t, folder: t.TempDir(), keys: keys}
	for range 2 {
		id, err := age.GenerateX25519Identity()
		require.NoError(t, err)
		r.ids = append(r.ids, id)
	}
	r.putKeys()
	return r
}

func (r *repository) put(path string, data []byte) {
	file := filepath.Join(r.folder, path)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(file), 0o750))
	require.NoError(r.t, os.WriteFile(file, data, 0o600))
}

func (r *repository) putKeys() {
	slots := []format.Slot{{Type: format.SlotKMS, Name: "kms", Key: "arn", Data: []byte("only AWS KMS opens it")}}
	for i, id := range r.ids {
		slot, err := r.keys.AgeSlot(strconv.Itoa(i), id.Recipient().String(), id.Recipient())
		require.NoError(r.t, err)
		slots = append(slots, slot)
	}
	data, err := format.EncodeRepository(r.keys, slots, format.Settings{
		PackSize: 1 << 20, Storage: format.Storage{ConditionalCreate: true, ConditionalReplace: true},
	})
	require.NoError(r.t, err)
	r.put(format.RepositoryPath, data)
}

// save writes a volume's blocks into packs of about 1 MiB, each block at another level, and returns its map.
func (r *repository) save(volume []byte) format.Segment {
	var s format.Segment
	var out bytes.Buffer
	var w *format.PackWriter
	finish := func() {
		require.NoError(r.t, w.Close())
		r.put(w.Ref().Name.Path(), out.Bytes())
		out, w = bytes.Buffer{}, nil
	}
	for at := 0; at < len(volume); at += codec.MaxBlock {
		raw := volume[at:min(at+codec.MaxBlock, len(volume))]
		if len(bytes.Trim(raw, "\x00")) == 0 {
			s = append(s, format.Place{State: format.State(len(s) % int(format.Saved))})
			continue
		}
		var err error
		if w == nil {
			w, err = format.NewPackWriter(&out, r.keys, format.Source{Archive: "one", Volumes: []format.SourceVolume{{Store: 4, Role: "data"}}}, format.NewPackName())
			require.NoError(r.t, err)
		}
		levels := codec.Levels()
		e, err := codec.NewEncoder(levels[len(s)%len(levels)])
		require.NoError(r.t, err)
		id, packed := e.Encode(raw)
		b, err := w.Add(format.Origin{Index: uint32(at / codec.MaxBlock)}, sha256.Sum256(raw), len(raw), id, packed)
		require.NoError(r.t, err)
		s = append(s, format.Place{State: format.Saved, Pack: w.Ref(), Block: b})
		if w.Size() > 1<<20 {
			finish()
		}
	}
	if w != nil {
		finish()
	}
	return s
}

// commit writes the segments and the archive of one volume.
func (r *repository) commit(id string, size int64, s format.Segment) {
	v := format.Volume{Role: "data", Size: size}
	sum := format.NewChecksum()
	for start := 0; start < len(s); start += format.SegmentBlocks {
		part := s[start:min(start+format.SegmentBlocks, len(s))]
		name, object, err := part.SealUnique(r.keys)
		require.NoError(r.t, err)
		r.put(name.Path(), object)
		v.Segments, v.Proofs = append(v.Segments, name), append(v.Proofs, part.Proof())
		v.Counts = v.Counts.Plus(part)
		for _, p := range part {
			if p.State == format.Saved {
				sum.Add(p.Block.Digest)
			}
		}
	}
	v.Checksum = sum.Sum()
	a := format.Archive{
		Backup: id, Created: time.Unix(1, 0), Manifest: format.NewManifest(nil),
		Stores: []format.Store{{ID: 3}, {ID: 4, Volumes: []format.Volume{v}}},
	}
	object, err := a.Seal(r.keys, id)
	require.NoError(r.t, err)
	r.put("archives/"+id, object)
}

func (r *repository) read(id string) ([]byte, error) {
	return read(r.t, r.folder, id, "4", "data", "--identity", r.ids[1].String())
}

// volume has blocks of text, noise, both, repetition, and zeros, and a last one that is short.
func volume(seed uint64, blocks int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]byte, blocks*codec.MaxBlock+12345)
	for at := 0; at < len(out); at += codec.MaxBlock {
		part := out[at:min(at+codec.MaxBlock, len(out))]
		switch r.IntN(5) {
		case 0:
			for i := 0; i < len(part); i += 80 {
				copy(part[i:], fmt.Sprintf("%d row %d of %x\n", i, r.IntN(1000), r.Uint64()))
			}
		case 1:
			noise(r, part)
		case 2:
			noise(r, part[:len(part)/2])
		case 3:
			noise(r, part[:1000])
			for i := 1000; i < len(part); i++ {
				part[i] = part[i-1000]
			}
		}
	}
	noise(r, out[len(out)-100:])
	return out
}

func noise(r *rand.Rand, b []byte) {
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
}

func TestReader_GivesBackWhatTisnapWrites(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	first, second := volume(1, 30), volume(2, 25)
	one := r.save(first)
	r.commit("one", int64(len(first)), one)
	keys, err := r.keys.Rotated()
	require.NoError(t, err)
	r.keys = keys
	r.putKeys()
	// The second archive has blocks of the first, which are under the older key, in another order.
	two := append(append(one[10:20:20], one[0:10]...), r.save(second)...)
	whole := append(append(bytes.Clone(first[10*codec.MaxBlock:20*codec.MaxBlock]), first[:10*codec.MaxBlock]...), second...)
	r.commit("two", int64(len(whole)), two)
	for id, want := range map[string][]byte{"one": first, "two": whole} {
		got, err := r.read(id)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(want, got), id)
	}
}

// What verifications have read is of the maps that they have read.
func TestReader_ReadsWhatWasVerified(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	data := volume(1, 3)
	s := r.save(data)
	r.commit("one", int64(len(data)), s)
	unread := func() string {
		got, err := read(t, r.folder, "one", "4", "data", "--identity", r.ids[1].String(), "--unread")
		require.NoError(t, err)
		return string(got)
	}
	require.Equal(t, "1.0\n", unread())
	store, err := objstore.Open(t.Context(), "file://"+r.folder, objstore.Config{})
	require.NoError(t, err)
	opened, err := archive.Open(t.Context(), store, r.ids[0])
	require.NoError(t, err)
	a, err := opened.Archive(t.Context(), "one")
	require.NoError(t, err)
	maps := map[string]format.Digest{"one": a.Maps()}
	require.NoError(t, opened.RecordVerified(t.Context(), []string{"one"}, maps, .75, time.Now()))
	require.Equal(t, "0.25\n", unread())
	maps["one"] = format.Digest{1}
	require.NoError(t, opened.RecordVerified(t.Context(), []string{"one"}, maps, .75, time.Now()))
	require.Equal(t, "1.0\n", unread())
}

// Packs that are mostly unused are rewritten, under the newest key.
func TestReader_GivesBackWhatAPruneRewrote(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	data := volume(1, 30)
	all := r.save(data)
	r.commit("all", int64(len(data)), all)
	few, want := slices.Clone(all), bytes.Clone(data)
	for i := range few {
		if i%7 != 0 {
			few[i] = format.Place{State: format.Free}
			clear(want[i*codec.MaxBlock : min((i+1)*codec.MaxBlock, len(want))])
		}
	}
	r.commit("few", int64(len(data)), few)
	keys, err := r.keys.Rotated()
	require.NoError(t, err)
	r.keys = keys
	r.putKeys()
	store, err := objstore.Open(t.Context(), "file://"+r.folder, objstore.Config{})
	require.NoError(t, err)
	opened, err := archive.Open(t.Context(), store, r.ids[0])
	require.NoError(t, err)
	require.NoError(t, prune.Forget(t.Context(), opened, "all"))
	report, err := prune.Run(t.Context(), opened, prune.Options{MinAge: -time.Hour, BreakAfter: -1})
	require.NoError(t, err)
	require.Equal(t, 1, report.Rewriting.Archives)
	require.Positive(t, report.Deleted.Packs)
	got, err := r.read("few")
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got))
}

func TestReader_ReadsTheTestVectors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(vectors, "vectors.json"))
	require.NoError(t, err)
	var v struct {
		Identity, Passphrase string
		Volume               struct{ SHA256 string }
	}
	require.NoError(t, json.Unmarshal(text, &v))
	for flag, key := range map[string]string{"--identity": v.Identity, "--passphrase": v.Passphrase} {
		got, err := read(t, filepath.Join(vectors, "repository"), "nightly-1", "1", "data", flag, key)
		require.NoError(t, err)
		sum := sha256.Sum256(got)
		assert.Equal(t, v.Volume.SHA256, hex.EncodeToString(sum[:]))
	}
}

// A map that was lost, and blocks of a pack that was, are where a repair has put them.
func TestReader_GivesBackWhatARepairRepaired(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	data := volume(4, 12)
	all := r.save(data)
	r.commit("one", int64(len(data)), all)
	again := r.save(data) // the same blocks in other packs
	r.commit("two", int64(len(data)), again)
	store, err := objstore.Open(t.Context(), "file://"+r.folder, objstore.Config{})
	require.NoError(t, err)
	opened, err := archive.Open(t.Context(), store, r.ids[0])
	require.NoError(t, err)
	lost, err := opened.Archive(t.Context(), "two")
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(r.folder, lost.Stores[1].Volumes[0].Segments[0].Path())))
	for i := range all {
		if all[i].State == format.Saved {
			require.NoError(t, os.Remove(filepath.Join(r.folder, all[i].Pack.Name.Path())))
			break
		}
	}
	_, err = r.read("one")
	require.Error(t, err)
	report, err := repair.Run(t.Context(), opened, repair.Options{Options: verify.Options{
		Archives: []string{"one", "two"}, Level: verify.Data, Sample: 1, Reads: 1,
	}})
	require.NoError(t, err)
	require.Empty(t, report.Left)
	require.Equal(t, 2, report.Replaced)
	for _, id := range []string{"one", "two"} {
		got, err := r.read(id)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(data, got), id)
	}
}

// TestReader_Damage_IsFound changes a byte of each object in turn.
func TestReader_Damage_IsFound(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	data := volume(3, 6)
	r.commit("one", int64(len(data)), r.save(data))
	_, err := r.read("one")
	require.NoError(t, err)
	var objects int
	require.NoError(t, filepath.WalkDir(r.folder, func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(file, format.RepositoryPath) {
			return err
		}
		objects++
		sound, err := os.ReadFile(file)
		require.NoError(t, err)
		bad := bytes.Clone(sound)
		bad[len(bad)/2] ^= 1
		require.NoError(t, os.WriteFile(file, bad, 0o600))
		_, err = r.read("one")
		require.ErrorContains(t, err, "damaged: ")
		assert.ErrorContains(t, err, filepath.Base(file))
		return os.WriteFile(file, sound, 0o600)
	}))
	assert.GreaterOrEqual(t, objects, 3)
	_, err = read(t, r.folder, "one", "4", "data", "--identity", identity(t))
	require.ErrorContains(t, err, "no key slot is for this key")
}

func identity(t *testing.T) string {
	id, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	return id.String()
}
