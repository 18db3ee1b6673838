package earlyapply

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/wait"
)

// A process that holds a cluster for another to cut reads the replicas before its hold, and publishes the result as
// notes in PD: numbered parts small enough for etcd, and a heading that is written last and removed first. Whenever a
// process is killed, the parts that exist are numbered from 0 without gaps, so they can be removed without a heading.
const (
	headingName    = "early-apply-reading"
	publishVersion = 1
	partSize       = 256 << 10
	// maxParts bounds what a killed process leaves behind: some 1.5 million regions.
	maxParts = 64
	// unpublishLimit bounds the removal, of at most a few hundred short calls.
	unpublishLimit = 30 * time.Second
)

// heading describes what was published. Its digest covers the heading without the digest, and the regions.
type heading struct {
	Version int           `json:"version"`
	Run     cluster.RunID `json:"run"`
	Stores  []askedStore  `json:"stores"`
	Regions int           `json:"regions"`
	Size    int           `json:"size"`
	SHA256  string        `json:"sha256"`
}

type askedStore struct {
	ID        cluster.StoreID `json:"id"`
	StartedAt time.Time       `json:"startedAt"`
}

// Publish stores in PD what a run has read, for the process that cuts under its hold, replacing what any run has left
// there. Regions with a replica that was ahead or not read are omitted: nothing is proven of them. It retries until ctx
// ends. After an error what is there counts as incomplete; Unpublish removes it.
func Publish(ctx context.Context, n pd.Notes, run cluster.RunID, r *Replicas) error {
	const op = "publish replicas"
	body, regions := r.encode()
	if len(body) > maxParts*partSize {
		return failure.New(failure.Limited, op, "PD", "%d regions take %d bytes; at most %d can be stored in PD",
			regions, len(body), maxParts*partSize)
	}
	if err := Unpublish(ctx, n, ""); err != nil {
		return err
	}
	i := 0
	for part := range slices.Chunk(body, partSize) {
		if err := putNote(ctx, n, partName(i), part); err != nil {
			return failure.Annotate(err, op, "PD")
		}
		i++
	}
	h := heading{Version: publishVersion, Run: run, Regions: regions, Size: len(body)}
	for _, id := range r.Stores() {
		h.Stores = append(h.Stores, askedStore{id, r.started[id].UTC()})
	}
	h.SHA256 = h.digest(body)
	text, err := json.Marshal(h)
	if err != nil {
		return failure.Wrap(err, failure.Unknown, op, "PD")
	}
	return failure.Annotate(putNote(ctx, n, headingName, text), op, "PD")
}

// Published returns what a run has published, and the run: the caller checks that it is the one that holds the cluster
// now. It returns NotFound if there is nothing, and Corrupt if it is incomplete or of another version.
func Published(ctx context.Context, n pd.Notes) (run cluster.RunID, r *Replicas, err error) {
	const op, target = "read published replicas", "PD"
	text, revision, err := n.Note(ctx, headingName)
	if err != nil {
		return "", nil, failure.Annotate(err, op, target)
	}
	if revision == 0 {
		return "", nil, failure.New(failure.NotFound, op, target, "the process that holds the cluster published none").
			WithHint("see the log of `br operator pause-gc-and-schedulers`, which must be of this version")
	}
	corrupt := func(format string, args ...any) (cluster.RunID, *Replicas, error) {
		return "", nil, failure.New(failure.Corrupt, op, target, format, args...).
			WithHint("use one image to hold and to cut, and take another backup")
	}
	var h heading
	if err := json.Unmarshal(text, &h); err != nil {
		return corrupt("%w", err)
	}
	if h.Version != publishVersion {
		return corrupt("they are of version %d, and this one reads version %d", h.Version, publishVersion)
	}
	if h.Size < 0 || h.Size > maxParts*partSize {
		return corrupt("they are to have %d bytes", h.Size)
	}
	var body []byte
	for i := 0; i*partSize < h.Size; i++ {
		part, _, err := n.Note(ctx, partName(i))
		if err != nil {
			return "", nil, failure.Annotate(err, op, target)
		}
		body = append(body, part...)
	}
	if h.digest(body) != h.SHA256 {
		return corrupt("they are not whole: %d bytes of %d, or others than were written", len(body), h.Size)
	}
	regions, whole := decodeRegions(body, h.Regions)
	if !whole {
		return corrupt("they are not %d regions", h.Regions)
	}
	r = &Replicas{regions: regions, started: make(map[cluster.StoreID]time.Time, len(h.Stores))}
	for _, s := range h.Stores {
		r.started[s.ID] = s.StartedAt
	}
	return h.Run, r, nil
}

// Unpublish removes what the run has published, or any run if empty, even if incomplete. What another run has published
// is kept. It is bounded and idempotent.
func Unpublish(ctx context.Context, n pd.Notes, run cluster.RunID) error {
	const op = "remove published replicas"
	ctx, cancel := context.WithTimeout(ctx, unpublishLimit)
	defer cancel()
	text, revision, err := n.Note(ctx, headingName)
	if err != nil {
		return failure.Annotate(err, op, "PD")
	}
	var h heading
	if revision != 0 && run != "" && json.Unmarshal(text, &h) == nil && h.Run != run {
		return nil
	}
	if err := putNote(ctx, n, headingName, nil); err != nil {
		return failure.Annotate(err, op, "PD")
	}
	parts := 0
	for ; parts < maxParts; parts++ {
		_, revision, err := n.Note(ctx, partName(parts))
		if err != nil {
			return failure.Annotate(err, op, "PD")
		}
		if revision == 0 {
			break
		}
	}
	for i := parts - 1; i >= 0; i-- {
		if err := putNote(ctx, n, partName(i), nil); err != nil {
			return failure.Annotate(err, op, "PD")
		}
	}
	return nil
}

// putNote replaces a note, or removes it if body is nil, retrying until ctx ends.
func putNote(ctx context.Context, n pd.Notes, name string, body []byte) error {
	var last error
	_ = wait.Until(ctx, wait.Every(interval), func() (bool, error) { // last is the last try's error
		var old []byte
		var revision int64
		if old, revision, last = n.Note(ctx, name); last == nil {
			if bytes.Equal(old, body) && (body != nil) == (revision != 0) {
				return true, nil // maybe by an earlier try whose answer was lost
			}
			last = n.PutNote(ctx, name, body, revision)
		}
		return !failure.Is(last, failure.Conflict) && !failure.Transient(last), last
	})
	return last
}

func partName(i int) string { return headingName + "-" + strconv.Itoa(i) }

func (h heading) digest(body []byte) string {
	h.SHA256 = ""
	text, _ := json.Marshal(h) // cannot fail: it was decoded, or will be
	sum := sha256.Sum256(append(text, body...))
	return hex.EncodeToString(sum[:])
}

// encode encodes the regions with all replicas read and level: four numbers each, 8 to 10 bytes in most clusters.
func (r *Replicas) encode() (body []byte, regions int) {
	last := uint64(0)
	for _, g := range r.regions {
		if !g.read || !g.level {
			continue
		}
		for _, v := range [...]uint64{uint64(g.id) - last, g.confVer, g.version, g.terms} {
			body = binary.AppendUvarint(body, v)
		}
		last = uint64(g.id)
		regions++
	}
	return body, regions
}

// decodeRegions reverses encode; whole is false if the number of regions differs.
func decodeRegions(body []byte, count int) (regions []reading, whole bool) {
	regions = make([]reading, 0, len(body)/4)
	last := uint64(0)
	for len(body) > 0 {
		var numbers [4]uint64
		for i := range numbers {
			value, size := binary.Uvarint(body)
			if size <= 0 {
				return nil, false
			}
			numbers[i], body = value, body[size:]
		}
		last += numbers[0]
		regions = append(regions, reading{
			id: cluster.RegionID(last), confVer: numbers[1], version: numbers[2], terms: numbers[3], read: true,
			level: true,
		})
	}
	return regions, len(regions) == count
}
