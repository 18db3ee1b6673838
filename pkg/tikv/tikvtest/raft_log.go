package tikvtest

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/tisnap/tisnap/pkg/standin/disk"
)

// A region's log starts behind an imaginary entry with this index and term, as in TiKV.
const (
	initialIndex = 5
	initialTerm  = 5
)

// Records of the raft-log device.
const (
	recordReady    = 1 // region, hard state, entries
	recordTruncate = 2 // region, index, term
	recordLog      = 3 // as recordTruncate and recordReady, replaces what was there
)

// raftLog is the store's raft engine: hard states and entries of all regions, in memory and on a device.
// It belongs to the raft worker.
type raftLog struct {
	wal   *wal
	peers map[uint64]*peerLog
	// commitOnDisk is what each region's hard state had as commit index when the device was opened.
	commitOnDisk map[uint64]uint64
}

// peerLog is one region's part. It implements raft.Storage.
type peerLog struct {
	members    raftpb.ConfState
	snapshot   func() (raftpb.Snapshot, error)
	hard       raftpb.HardState
	truncIndex uint64
	truncTerm  uint64
	entries    []raftpb.Entry // entries[0].Index is truncIndex+1
}

// openRaftLog loads the engine from its device.
func openRaftLog(dev *disk.Device) (*raftLog, error) {
	l := &raftLog{peers: map[uint64]*peerLog{}, commitOnDisk: map[uint64]uint64{}}
	w, err := openWAL(dev, l.replay)
	if err != nil {
		return nil, fmt.Errorf("raft log: %w", err)
	}
	l.wal = w
	for id, p := range l.peers {
		l.commitOnDisk[id] = p.hard.Commit
	}
	return l, nil
}

// region returns a region's log; one never seen starts at the initial index.
func (l *raftLog) region(id uint64) *peerLog {
	p := l.peers[id]
	if p == nil {
		p = &peerLog{
			hard:       raftpb.HardState{Term: initialTerm, Commit: initialIndex},
			truncIndex: initialIndex, truncTerm: initialTerm,
		}
		l.peers[id] = p
	}
	return p
}

// save appends what a Ready holds; it is durable after flush.
func (l *raftLog) save(region uint64, hard raftpb.HardState, entries []raftpb.Entry) {
	p := l.region(region)
	if !raft.IsEmptyHardState(hard) {
		p.hard = hard
	}
	p.append(entries)
	l.wal.append(encodeReady(binary.AppendUvarint([]byte{recordReady}, region), p.hard, entries))
}

// truncate drops the entries up to index.
func (l *raftLog) truncate(region, index uint64) {
	p := l.region(region)
	if index <= p.truncIndex || index > p.last() {
		return
	}
	p.truncate(index)
	b := binary.AppendUvarint([]byte{recordTruncate}, region)
	b = binary.AppendUvarint(b, p.truncIndex)
	l.wal.append(binary.AppendUvarint(b, p.truncTerm))
}

// reset replaces the region's log by one that begins behind an index.
func (l *raftLog) reset(region, index, term uint64, hard raftpb.HardState) {
	p := l.region(region)
	hard.Commit = max(hard.Commit, index)
	p.hard, p.truncIndex, p.truncTerm, p.entries = hard, index, term, nil
	b := binary.AppendUvarint([]byte{recordLog}, region)
	b = binary.AppendUvarint(b, index)
	b = binary.AppendUvarint(b, term)
	l.wal.append(encodeReady(b, hard, nil))
}

// flush makes all that was saved durable, and rewrites the log when that pays.
func (l *raftLog) flush(checkpointBytes int64) error {
	if err := l.wal.flush(); err != nil {
		return err
	}
	if !l.wal.wasteful(checkpointBytes) {
		return nil
	}
	return l.wal.checkpoint(func(emit func([]byte) error) error {
		for id, p := range l.peers {
			b := binary.AppendUvarint([]byte{recordLog}, id)
			b = binary.AppendUvarint(b, p.truncIndex)
			b = binary.AppendUvarint(b, p.truncTerm)
			if err := emit(encodeReady(b, p.hard, p.entries)); err != nil {
				return err
			}
		}
		return nil
	})
}

func encodeReady(b []byte, hard raftpb.HardState, entries []raftpb.Entry) []byte {
	b = binary.AppendUvarint(b, hard.Term)
	b = binary.AppendUvarint(b, hard.Vote)
	b = binary.AppendUvarint(b, hard.Commit)
	b = binary.AppendUvarint(b, uint64(len(entries)))
	for i := range entries {
		b = binary.AppendUvarint(b, entries[i].Term)
		b = binary.AppendUvarint(b, entries[i].Index)
		b = append(b, byte(entries[i].Type))
		b = appendBytes(b, entries[i].Data)
	}
	return b
}

func (l *raftLog) replay(record []byte) error {
	d := &decoder{b: record}
	kind, id := d.byte(), d.uint()
	p := l.region(id)
	if kind == recordTruncate || kind == recordLog {
		index, term := d.uint(), d.uint()
		if kind == recordLog {
			p.entries = nil
			p.truncIndex, p.truncTerm = index, term
		} else if index > p.truncIndex && index <= p.last() {
			p.truncate(index)
		}
	}
	if kind == recordReady || kind == recordLog {
		p.hard = raftpb.HardState{Term: d.uint(), Vote: d.uint(), Commit: d.uint()}
		entries := make([]raftpb.Entry, 0, 1)
		for n := d.uint(); n > 0 && d.err == nil; n-- {
			e := raftpb.Entry{Term: d.uint(), Index: d.uint(), Type: raftpb.EntryType(d.byte())}
			e.Data = append([]byte(nil), d.bytes()...)
			entries = append(entries, e)
		}
		if d.err == nil {
			p.append(entries)
		}
	}
	return d.err
}

// append adds entries behind or over those there are. Shared arrays are never written: readers may hold them.
func (p *peerLog) append(entries []raftpb.Entry) {
	if len(entries) == 0 {
		return
	}
	first := entries[0].Index
	if first <= p.truncIndex {
		return // a repeated record from before a truncation
	}
	keep := first - p.truncIndex - 1
	if keep < uint64(len(p.entries)) {
		p.entries = p.entries[:keep:keep]
	}
	p.entries = append(p.entries, entries...)
}

func (p *peerLog) truncate(index uint64) {
	term, _ := p.Term(index)
	p.entries = append([]raftpb.Entry(nil), p.entries[index-p.truncIndex:]...)
	p.truncIndex, p.truncTerm = index, term
}

func (p *peerLog) last() uint64 { return p.truncIndex + uint64(len(p.entries)) }

// InitialState implements raft.Storage.
func (p *peerLog) InitialState() (raftpb.HardState, raftpb.ConfState, error) {
	return p.hard, p.members, nil
}

// Entries implements raft.Storage.
func (p *peerLog) Entries(lo, hi, maxSize uint64) ([]raftpb.Entry, error) {
	if lo <= p.truncIndex {
		return nil, raft.ErrCompacted
	}
	if hi > p.last()+1 {
		return nil, raft.ErrUnavailable
	}
	from, to := lo-p.truncIndex-1, hi-p.truncIndex-1
	size, end := uint64(0), from
	for end < to {
		size += uint64(p.entries[end].Size())
		if size > maxSize && end > from {
			break
		}
		end++
	}
	return p.entries[from:end:end], nil
}

// Term implements raft.Storage.
func (p *peerLog) Term(i uint64) (uint64, error) {
	switch {
	case i == p.truncIndex:
		return p.truncTerm, nil
	case i < p.truncIndex:
		return 0, raft.ErrCompacted
	case i > p.last():
		return 0, raft.ErrUnavailable
	}
	return p.entries[i-p.truncIndex-1].Term, nil
}

// LastIndex implements raft.Storage.
func (p *peerLog) LastIndex() (uint64, error) { return p.last(), nil }

// FirstIndex implements raft.Storage.
func (p *peerLog) FirstIndex() (uint64, error) { return p.truncIndex + 1, nil }

// Snapshot implements raft.Storage: new members need one. Leaders keep enough log for all others.
func (p *peerLog) Snapshot() (raftpb.Snapshot, error) { return p.snapshot() }
