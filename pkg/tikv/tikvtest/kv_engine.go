package tikvtest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/tidwall/btree"

	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

const cfCount = 3

// Records of the data device.
const (
	recordIdent = 1 // cluster id, store id
	recordApply = 2 // region, applied index and term, region states, mutations: one entry's whole effect
	// recordSnapshot is as recordApply: a snapshot's whole effect, or the state of a region that has applied nothing since.
	recordSnapshot = 3
)

// localState is what a store keeps of a region beside its keys. The flashback of region.StartTs is under way
// while region.IsInFlashback; done is the last one that was finished.
type localState struct {
	region *metapb.Region
	done   finishedFlashback
	merge  *mergeState
	gone   bool // merged into its neighbour: nothing is kept
}

// finishedFlashback makes a repeated flashback call recognisable.
type finishedFlashback struct {
	startTS, commitTS uint64
	empty             bool // there was no key, so any commit ts matches
}

// regionProgress is how far a region is applied, in memory and on the device.
type regionProgress struct {
	localState
	applied, appliedTerm uint64
	persisted            uint64
	snapshot             uint64 // index of the snapshot that it came with; 0 for none
}

// kvEngine is the store's data: applied key-values in three column families and the regions' local states,
// in memory and on a device. Writers are the apply worker and the flusher; it is safe for concurrent use.
type kvEngine struct {
	mu        sync.RWMutex
	cfs       [cfCount]*btree.Map[string, []byte]
	regions   map[uint64]*regionProgress
	unflushed map[uint64]struct{}
	clusterID uint64
	storeID   uint64
	wal       *wal
}

// openKVEngine loads the engine from its device.
func openKVEngine(dev *disk.Device) (*kvEngine, error) {
	e := &kvEngine{regions: map[uint64]*regionProgress{}, unflushed: map[uint64]struct{}{}}
	for i := range e.cfs {
		e.cfs[i] = btree.NewMap[string, []byte](64)
	}
	w, err := openWAL(dev, e.replay)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	e.wal = w
	for _, p := range e.regions {
		p.persisted = p.applied
	}
	return e, nil
}

func (e *kvEngine) replay(record []byte) error {
	d := &decoder{b: record}
	switch kind := d.byte(); kind {
	case recordIdent:
		e.clusterID, e.storeID = d.uint(), d.uint()
	case recordApply, recordSnapshot:
		region, index, term := d.uint(), d.uint(), d.uint()
		states := make([]localState, 0, 1)
		for n := d.uint(); n > 0 && d.err == nil; n-- {
			states = append(states, decodeLocalState(d))
		}
		muts := d.mutations()
		if d.err == nil {
			e.change(region, index, term, states, muts)
		}
		if p := e.regions[region]; p != nil && kind == recordSnapshot {
			p.snapshot = index
		}
	}
	return d.err
}

// setIdent writes the store's ident and makes it durable.
func (e *kvEngine) setIdent(clusterID, storeID uint64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.clusterID, e.storeID = clusterID, storeID
	e.wal.append(e.encodeIdent())
	return e.wal.flush()
}

func (e *kvEngine) encodeIdent() []byte {
	return binary.AppendUvarint(binary.AppendUvarint([]byte{recordIdent}, e.clusterID), e.storeID)
}

// apply carries out one entry of a region: its applied position, new local states and mutations, all or
// nothing after a crash.
func (e *kvEngine) apply(region, index, term uint64, states []localState, muts []mvcc.Mutation) {
	record := encodeApply(recordApply, region, index, term, states, muts)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.change(region, index, term, states, muts)
	e.unflushed[region] = struct{}{}
	e.wal.append(record)
}

// applySnapshot is apply of a region that comes as a whole.
func (e *kvEngine) applySnapshot(region, index, term uint64, state localState, muts []mvcc.Mutation) {
	record := encodeApply(recordSnapshot, region, index, term, []localState{state}, muts)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.change(region, index, term, []localState{state}, muts)
	e.regions[region].snapshot = index
	e.unflushed[region] = struct{}{}
	e.wal.append(record)
}

// asItCame reports whether the region came with a snapshot and has applied nothing since.
func (e *kvEngine) asItCame(region uint64) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	p := e.regions[region]
	return p != nil && p.snapshot > 0 && p.snapshot == p.applied
}

func encodeApply(kind byte, region, index, term uint64, states []localState, muts []mvcc.Mutation) []byte {
	size := 64
	for _, m := range muts {
		size += len(m.Key) + len(m.Value) + 12
	}
	b := append(make([]byte, 0, size), kind)
	b = binary.AppendUvarint(b, region)
	b = binary.AppendUvarint(b, index)
	b = binary.AppendUvarint(b, term)
	b = binary.AppendUvarint(b, uint64(len(states)))
	for _, s := range states {
		b = appendLocalState(b, s)
	}
	return appendMutations(b, muts)
}

// change is apply without the record. Region 0 stands for none: a checkpoint's share of the keys.
func (e *kvEngine) change(region, index, term uint64, states []localState, muts []mvcc.Mutation) {
	for _, s := range states {
		if s.gone {
			delete(e.regions, s.region.Id)
			delete(e.unflushed, s.region.Id)
			continue
		}
		p := e.regions[s.region.Id]
		if p == nil {
			p = &regionProgress{applied: initialIndex, appliedTerm: initialTerm, persisted: initialIndex}
			e.regions[s.region.Id] = p
		}
		p.localState = s
	}
	if p := e.regions[region]; p != nil {
		p.applied, p.appliedTerm = index, term
	}
	for _, m := range muts {
		if m.Delete {
			e.cfs[m.CF].Delete(string(m.Key))
		} else {
			e.cfs[m.CF].Set(string(m.Key), m.Value)
		}
	}
}

// flush makes everything applied so far durable and rewrites the device's log when that pays.
func (e *kvEngine) flush(checkpointBytes int64) error {
	e.mu.Lock()
	positions := make(map[uint64]uint64, len(e.unflushed))
	for id := range e.unflushed {
		if p := e.regions[id]; p != nil { // it may be gone
			positions[id] = p.applied
		}
	}
	clear(e.unflushed)
	e.mu.Unlock()
	if err := e.wal.flush(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, index := range positions {
		if p := e.regions[id]; p != nil { // it may have been merged meanwhile
			p.persisted = index
		}
	}
	if !e.wal.wasteful(checkpointBytes) {
		return nil
	}
	return e.wal.checkpoint(e.writeState)
}

// writeState emits the whole state. The caller holds mu.
func (e *kvEngine) writeState(emit func([]byte) error) error {
	if err := emit(e.encodeIdent()); err != nil {
		return err
	}
	for id, p := range e.regions {
		kind := byte(recordApply)
		if p.snapshot > 0 && p.snapshot == p.applied {
			kind = recordSnapshot
		}
		if err := emit(encodeApply(kind, id, p.applied, p.appliedTerm, []localState{p.localState}, nil)); err != nil {
			return err
		}
	}
	for cf, keys := range e.cfs {
		var chunk []mvcc.Mutation
		var err error
		keys.Scan(func(k string, v []byte) bool {
			chunk = append(chunk, mvcc.Mutation{CF: mvcc.CF(cf), Key: []byte(k), Value: v})
			if len(chunk) == 1024 {
				err = emit(encodeApply(recordApply, 0, 0, 0, nil, chunk))
				chunk = chunk[:0]
			}
			return err == nil
		})
		if err == nil && len(chunk) > 0 {
			err = emit(encodeApply(recordApply, 0, 0, 0, nil, chunk))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// persistedIndex is the applied index of the region that a crash keeps.
func (e *kvEngine) persistedIndex(region uint64) uint64 {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if p := e.regions[region]; p != nil {
		return p.persisted
	}
	return 0
}

// states lists the regions by id.
func (e *kvEngine) states() []regionProgress {
	e.mu.RLock()
	defer e.mu.RUnlock()
	list := make([]regionProgress, 0, len(e.regions))
	for _, p := range e.regions {
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b regionProgress) int { return cmp.Compare(a.region.Id, b.region.Id) })
	return list
}

// view runs fn on one consistent view of the keys. fn has to be short: nothing is applied meanwhile.
func (e *kvEngine) view(fn func(r mvcc.Reader)) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	fn(reader{e})
}

// reader implements mvcc.Reader over the engine; its user holds mu.
type reader struct{ e *kvEngine }

// Get implements mvcc.Reader.
func (r reader) Get(cf mvcc.CF, key []byte) ([]byte, bool) { return r.e.cfs[cf].Get(string(key)) }

// Ascend implements mvcc.Reader.
func (r reader) Ascend(cf mvcc.CF, start, end []byte, fn func(k, v []byte) bool) {
	limit := string(end)
	r.e.cfs[cf].Ascend(string(start), func(k string, v []byte) bool {
		return (limit == "" || k < limit) && fn([]byte(k), v)
	})
}

// Descend implements mvcc.Reader.
func (r reader) Descend(cf mvcc.CF, start, end []byte, fn func(k, v []byte) bool) {
	from, limit := string(start), string(end)
	visit := func(k string, v []byte) bool {
		if limit != "" && k >= limit {
			return true
		}
		return k >= from && fn([]byte(k), v)
	}
	if limit == "" {
		r.e.cfs[cf].Reverse(visit)
		return
	}
	r.e.cfs[cf].Descend(limit, visit)
}

func appendLocalState(b []byte, s localState) []byte {
	region, _ := s.region.Marshal() // a message that was made here always encodes
	b = appendBytes(b, region)
	b = binary.AppendUvarint(b, s.done.startTS)
	b = binary.AppendUvarint(b, s.done.commitTS)
	var flags byte
	if s.done.empty {
		flags |= stateEmpty
	}
	if s.gone {
		flags |= stateGone
	}
	if s.merge == nil {
		return append(b, flags)
	}
	target, _ := s.merge.target.Marshal()
	b = appendBytes(append(b, flags|stateMerging), target)
	return binary.AppendUvarint(b, s.merge.commit)
}

// Flags of a local state on the device.
const (
	stateEmpty   = 1
	stateMerging = 2
	stateGone    = 4
)

func decodeLocalState(d *decoder) localState {
	s := localState{region: &metapb.Region{}}
	if err := s.region.Unmarshal(d.bytes()); err != nil && d.err == nil {
		d.err = err
	}
	s.done = finishedFlashback{startTS: d.uint(), commitTS: d.uint()}
	flags := d.byte()
	s.done.empty, s.gone = flags&stateEmpty != 0, flags&stateGone != 0
	if flags&stateMerging != 0 {
		s.merge = &mergeState{target: &metapb.Region{}}
		if err := s.merge.target.Unmarshal(d.bytes()); err != nil && d.err == nil {
			d.err = err
		}
		s.merge.commit = d.uint()
	}
	return s
}
