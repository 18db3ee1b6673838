package ebsdirecttest

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/standin/disk"
)

// What the API allows as MaxResults.
const minResults, maxResults = 100, 10_000

// completed is a snapshot that can be read.
func (s *Server) completed(id string) (ebs.Snapshot, *disk.Image, error) {
	found, image, ok := s.account.Snapshot(cluster.SnapshotID(id))
	switch {
	case !ok:
		return found, nil, refusal("ResourceNotFoundException", "SNAPSHOT_NOT_FOUND", "The snapshot '%s' does not exist.", id)
	case found.State != ebs.SnapshotCompleted:
		return found, nil, invalid("INVALID_SNAPSHOT_ID", "The snapshot '%s' is %s.", id, found.State)
	default:
		return found, image, nil
	}
}

func (s *Server) list(r *http.Request) (answer, error) {
	id := r.PathValue("id")
	found, image, err := s.completed(id)
	if err != nil {
		return answer{}, err
	}
	type block struct {
		BlockIndex int64
		BlockToken string
	}
	var blocks []block
	next, err := s.page(r, "blocks of "+id, image.Allocated(ebsdirect.BlockSize), func(index int64) {
		blocks = append(blocks, block{index, s.issue(id, index)})
	})
	return s.listed(found, "Blocks", blocks, next), err
}

func (s *Server) changed(r *http.Request) (answer, error) {
	first, second := r.URL.Query().Get("firstSnapshotId"), r.PathValue("id")
	found, image, err := s.completed(second)
	if err != nil {
		return answer{}, err
	}
	_, base, err := s.completed(first)
	if err != nil {
		return answer{}, err
	}
	if s.lineage(cluster.SnapshotID(first)) != s.lineage(cluster.SnapshotID(second)) {
		return answer{}, invalid("UNRELATED_SNAPSHOTS", "The snapshots are not of the same volume.")
	}
	type block struct {
		BlockIndex       int64
		FirstBlockToken  string `json:",omitempty"`
		SecondBlockToken string `json:",omitempty"`
	}
	older, newer := has(base), has(image)
	var blocks []block
	next, err := s.page(r, first+" to "+second, image.Changed(base, ebsdirect.BlockSize), func(index int64) {
		b := block{BlockIndex: index}
		if older(index) {
			b.FirstBlockToken = s.issue(first, index)
		}
		if newer(index) {
			b.SecondBlockToken = s.issue(second, index)
		}
		blocks = append(blocks, b)
	})
	return s.listed(found, "ChangedBlocks", blocks, next), err
}

// has reports which blocks an image has.
func has(image *disk.Image) func(index int64) bool {
	blocks := image.Allocated(ebsdirect.BlockSize)
	return func(index int64) bool {
		_, ok := slices.BinarySearch(blocks, index)
		return ok
	}
}

func (s *Server) listed(of ebs.Snapshot, name string, blocks any, next string) answer {
	body := map[string]any{
		name: blocks, "BlockSize": ebsdirect.BlockSize, "VolumeSize": of.SizeGiB,
		"ExpiryTime": s.cfg.Clock.Wall(s.now().Add(s.rules.BlockTokenLife)).Unix(),
	}
	if next != "" {
		body["NextToken"] = next
	}
	return answer{status: http.StatusOK, body: body}
}

// page adds the blocks of one page of a list, and returns the token of the next.
func (s *Server) page(r *http.Request, list string, all []int64, add func(index int64)) (next string, err error) {
	query := r.URL.Query()
	size, from := maxResults, int64(0)
	if text := query.Get("maxResults"); text != "" {
		if size, err = strconv.Atoi(text); err != nil || size < minResults || size > maxResults {
			return "", invalid("INVALID_PARAMETER_VALUE", "maxResults must be from %d to %d.", minResults, maxResults)
		}
	}
	if text := query.Get("startingBlockIndex"); text != "" {
		if from, err = strconv.ParseInt(text, 10, 32); err != nil || from < 0 {
			return "", invalid("INVALID_PARAMETER_VALUE", "startingBlockIndex is not valid.")
		}
	}
	if text := query.Get("pageToken"); text != "" {
		t, ok := s.open(text, s.rules.PageTokenLife)
		if !ok || t.Of != list {
			return "", invalid("INVALID_PAGE_TOKEN", "The page token is not valid.")
		}
		from = t.Index
	}
	at, _ := slices.BinarySearch(all, from)
	rest, end := all[at:], from+s.rules.IndexesInPage
	for n, index := range rest {
		if n == min(size, s.rules.BlocksInPage) || index >= end {
			return s.issue(list, min(index, end)), nil
		}
		add(index)
	}
	return "", nil
}

func (s *Server) get(r *http.Request) (answer, error) {
	id := r.PathValue("id")
	_, image, err := s.completed(id)
	if err != nil {
		return answer{}, err
	}
	index, err := strconv.ParseInt(r.PathValue("index"), 10, 32)
	if err != nil || index < 0 || (index+1)*ebsdirect.BlockSize > image.Size() {
		return answer{}, invalid("INVALID_BLOCK", "The block '%s' is not valid.", r.PathValue("index"))
	}
	t, ok := s.open(r.URL.Query().Get("blockToken"), s.rules.BlockTokenLife)
	if !ok || t.Of != id || t.Index != index {
		return answer{}, invalid("INVALID_BLOCK_TOKEN", "The block token is not valid.")
	}
	data := make([]byte, ebsdirect.BlockSize)
	if _, err := image.ReadAt(data, index*ebsdirect.BlockSize); err != nil {
		return answer{}, err
	}
	sum := sha256.Sum256(data)
	switch how, ok := s.nextDamage(); {
	case ok && how == FlippedBit:
		data[len(data)/3] ^= 4
	case ok && how == Short:
		data = data[:len(data)/2]
	}
	return answer{status: http.StatusOK, body: data, header: map[string]string{
		"X-Amz-Data-Length": strconv.Itoa(len(data)), "X-Amz-Checksum": base64.StdEncoding.EncodeToString(sum[:]),
		"X-Amz-Checksum-Algorithm": "SHA256",
	}}, nil
}

func (s *Server) nextDamage() (how Damage, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.damage) == 0 {
		return 0, false
	}
	how, s.damage = s.damage[0], s.damage[1:]
	return how, true
}
