package ebsdirecttest

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/standin/disk"
)

// Documented bounds of StartSnapshot.
const (
	mostGiB                     = 65_536
	leastTimeout, mostTimeout   = 10, 4320 // minutes
	defaultTimeout, tokenLength = 60, 255
)

// written is a snapshot that StartSnapshot made.
type written struct {
	lineage string
	device  *disk.Device
	sums    map[int64][sha256.Size]byte // of the blocks that were put
	timeout time.Duration
	sealed  string // what CompleteSnapshot was called with; "" before
}

// start is what a client token stands for.
type start struct{ request, answer []byte }

type tagJSON struct{ Key, Value string }

type startJSON struct {
	ClientToken, Description, KmsKeyArn, ParentSnapshotId string //nolint:revive,staticcheck // names of fields
	Encrypted                                             bool
	Tags                                                  []tagJSON
	Timeout                                               int64
	VolumeSize                                            int64
}

// lineage names what a snapshot's blocks can be compared within: its volume, or the first snapshot of a chain of parents.
func (s *Server) lineage(id cluster.SnapshotID) string {
	s.mu.Lock()
	w := s.written[id]
	s.mu.Unlock()
	if w != nil {
		return w.lineage
	}
	if found, _, ok := s.account.Snapshot(id); ok && found.Volume != ebstest.NoVolume {
		return string(found.Volume)
	}
	return string(id)
}

func (s *Server) start(r *http.Request) (answer, error) {
	var in startJSON
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return answer{}, invalid("", "%v", err)
	}
	clientToken := in.ClientToken
	in.ClientToken = ""
	request, _ := json.Marshal(in) //nolint:gosec // plain fields, without the token
	s.starting.Lock()
	defer s.starting.Unlock()
	s.mu.Lock()
	known, ok := s.starts[clientToken]
	s.mu.Unlock()
	switch {
	case len(clientToken) > tokenLength:
		return answer{}, invalid("INVALID_PARAMETER_VALUE", "The client token is too long.")
	case clientToken != "" && ok && string(known.request) == string(request):
		return answer{status: http.StatusCreated, body: json.RawMessage(known.answer)}, nil
	case clientToken != "" && ok:
		return answer{}, refusal("ConflictException", "", "The client token was used with other parameters.")
	}
	w, want, err := s.wanted(in)
	if err != nil {
		return answer{}, err
	}
	made, err := s.account.Writable(want, in.Description, s.now().Add(w.timeout))
	switch ebstest.CodeOf(err) {
	case "":
	case "PendingSnapshotLimitExceeded", "SnapshotLimitExceeded":
		return answer{}, refusal("ServiceQuotaExceededException", "", "%v", err)
	default:
		return answer{}, invalid("INVALID_TAG", "%v", err)
	}
	w.lineage = cmp.Or(w.lineage, string(made.ID))
	body, _ := json.Marshal(map[string]any{ // plain fields
		"SnapshotId": made.ID, "Status": made.State, "OwnerId": s.account.Account(), "VolumeSize": in.VolumeSize,
		"BlockSize": ebsdirect.BlockSize, "StartTime": s.cfg.Clock.Wall(made.StartedAt).Unix(), "Tags": in.Tags,
		"ParentSnapshotId": in.ParentSnapshotId, "KmsKeyArn": made.KMSKey, "Description": in.Description,
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written[made.ID] = w
	s.starts[clientToken] = start{request, body}
	return answer{status: http.StatusCreated, body: json.RawMessage(body)}, nil
}

// wanted holds the parameters of StartSnapshot against its rules.
func (s *Server) wanted(in startJSON) (*written, ebs.Snapshot, error) {
	w := &written{
		sums: map[int64][sha256.Size]byte{}, timeout: time.Duration(cmp.Or(in.Timeout, defaultTimeout)) * time.Minute,
	}
	want := ebs.Snapshot{SizeGiB: in.VolumeSize, Encrypted: in.Encrypted, KMSKey: in.KmsKeyArn, Tags: ebs.Tags{}}
	for _, tag := range in.Tags {
		want.Tags[tag.Key] = tag.Value
	}
	switch {
	case in.VolumeSize < 1 || in.VolumeSize > mostGiB:
		return nil, want, invalid("INVALID_VOLUME_SIZE", "The volume size must be from 1 to %d GiB.", mostGiB)
	case in.Timeout != 0 && (in.Timeout < leastTimeout || in.Timeout > mostTimeout):
		return nil, want, invalid("INVALID_PARAMETER_VALUE", "The timeout must be from %d to %d.", leastTimeout, mostTimeout)
	case in.KmsKeyArn != "" && !in.Encrypted:
		return nil, want, invalid("INVALID_PARAMETER_VALUE", "KmsKeyArn needs Encrypted.")
	case in.ParentSnapshotId == "":
		w.device = disk.New(in.VolumeSize << 30)
		return w, want, nil
	case in.Encrypted:
		return nil, want, invalid("INVALID_PARAMETER_VALUE", "Encrypted and ParentSnapshotId exclude each other.")
	}
	parent, image, err := s.completed(in.ParentSnapshotId)
	if err != nil {
		return nil, want, err
	}
	if w.device, err = disk.FromImage(image, in.VolumeSize<<30); err != nil {
		return nil, want, invalid("INVALID_VOLUME_SIZE", "The parent's volume has %d GiB.", parent.SizeGiB)
	}
	want.Encrypted, want.KMSKey = parent.Encrypted, parent.KMSKey
	w.lineage = s.lineage(parent.ID)
	return w, want, nil
}

// writable is a snapshot that takes blocks. The caller holds the lock.
func (s *Server) writable(id cluster.SnapshotID) (*written, error) {
	found, _, ok := s.account.Snapshot(id)
	w := s.written[id]
	switch {
	case !ok:
		return nil, refusal("ResourceNotFoundException", "SNAPSHOT_NOT_FOUND", "The snapshot '%s' does not exist.", id)
	case w == nil || w.sealed != "" || found.State != ebs.SnapshotPending:
		return nil, invalid("INVALID_SNAPSHOT_ID", "The snapshot '%s' takes no blocks.", id)
	default:
		return w, nil
	}
}

func (s *Server) put(r *http.Request) (answer, error) {
	id := cluster.SnapshotID(r.PathValue("id"))
	data, err := io.ReadAll(io.LimitReader(r.Body, ebsdirect.BlockSize+1))
	if err != nil {
		return answer{}, err
	}
	sum := sha256.Sum256(data)
	text := base64.StdEncoding.EncodeToString(sum[:])
	index, err := strconv.ParseInt(r.PathValue("index"), 10, 32)
	switch {
	case err != nil || index < 0:
		return answer{}, invalid("INVALID_BLOCK", "The block '%s' is not valid.", r.PathValue("index"))
	case len(data) != ebsdirect.BlockSize || r.Header.Get("X-Amz-Data-Length") != strconv.Itoa(len(data)):
		return answer{}, invalid("INVALID_BLOCK", "A block has %d bytes.", ebsdirect.BlockSize)
	case r.Header.Get("X-Amz-Checksum-Algorithm") != "SHA256":
		return answer{}, invalid("INVALID_PARAMETER_VALUE", "The checksum algorithm must be SHA256.")
	case r.Header.Get("X-Amz-Checksum") != text:
		return answer{}, invalid("INVALID_PARAMETER_VALUE", "The checksum does not match.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w, err := s.writable(id)
	if err != nil {
		return answer{}, err
	}
	if (index+1)*ebsdirect.BlockSize > w.device.Size() {
		return answer{}, invalid("INVALID_BLOCK", "The block %d is outside the volume.", index)
	}
	if _, err := w.device.WriteAt(data, index*ebsdirect.BlockSize); err != nil {
		return answer{}, err
	}
	w.sums[index] = sum
	s.account.Extend(id, s.now().Add(w.timeout))
	return answer{status: http.StatusCreated, body: []byte{}, header: map[string]string{
		"X-Amz-Checksum": text, "X-Amz-Checksum-Algorithm": "SHA256",
	}}, nil
}

// complete seals a snapshot. The same call once more has no effect, as all calls of AWS's SDKs that are repeated; others
// are refused.
func (s *Server) complete(r *http.Request) (answer, error) {
	id := cluster.SnapshotID(r.PathValue("id"))
	call := fmt.Sprint(r.Header.Get("X-Amz-Changedblockscount"), r.Header.Get("X-Amz-Checksum"))
	done := answer{status: http.StatusAccepted, body: map[string]string{"Status": "pending"}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.written[id]; w != nil && w.sealed == call {
		return done, nil
	}
	w, err := s.writable(id)
	if err != nil {
		return answer{}, err
	}
	if r.Header.Get("X-Amz-Changedblockscount") != strconv.Itoa(len(w.sums)) {
		return answer{}, invalid("INVALID_PARAMETER_VALUE", "%d blocks were put.", len(w.sums))
	}
	if given := r.Header.Get("X-Amz-Checksum"); given != "" {
		all := sha256.New()
		for _, index := range slices.Sorted(maps.Keys(w.sums)) {
			sum := w.sums[index]
			_, _ = all.Write(sum[:])
		}
		if r.Header.Get("X-Amz-Checksum-Aggregation-Method") != "LINEAR" || given != base64.StdEncoding.EncodeToString(all.Sum(nil)) {
			return answer{}, invalid("INVALID_PARAMETER_VALUE", "The checksum does not match.")
		}
	}
	w.sealed = call
	s.account.Seal(id, disk.Cut(w.device)[0])
	return done, nil
}
