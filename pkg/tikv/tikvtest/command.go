package tikvtest

import (
	"encoding/binary"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/raft_cmdpb"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// Kinds of raft entries with data.
const (
	commandWrite = 1
	commandAdmin = 2
)

// command is the content of a raft entry: mutations or one admin request. It has an effect only if the
// region still has the epoch it was proposed with.
type command struct {
	id        uint64 // shows the proposer that it was applied
	confVer   uint64
	version   uint64
	flashback bool // part of a flashback: applied only while the region is prepared, others only while it is not
	muts      []mvcc.Mutation
	admin     *raft_cmdpb.AdminRequest
	finished  finishedFlashback // of FinishFlashback
}

func (c *command) encode() []byte {
	kind := byte(commandWrite)
	if c.admin != nil {
		kind = commandAdmin
	}
	b := []byte{kind, 0}
	if c.flashback {
		b[1] = 1
	}
	b = binary.AppendUvarint(b, c.id)
	b = binary.AppendUvarint(b, c.confVer)
	b = binary.AppendUvarint(b, c.version)
	if c.admin == nil {
		return appendMutations(b, c.muts)
	}
	admin, _ := c.admin.Marshal() // a message that was made here always encodes
	b = appendBytes(b, admin)
	b = binary.AppendUvarint(b, c.finished.startTS)
	b = binary.AppendUvarint(b, c.finished.commitTS)
	if c.finished.empty {
		return append(b, 1)
	}
	return append(b, 0)
}

// commandOf is the entry's command, nil of an empty one.
func commandOf(e *raftpb.Entry) (*command, error) {
	data := e.Data
	if e.Type == raftpb.EntryConfChangeV2 {
		var cc raftpb.ConfChangeV2
		if err := cc.Unmarshal(data); err != nil {
			return nil, err
		}
		data = cc.Context
	}
	if len(data) == 0 {
		return nil, nil
	}
	return decodeCommand(data)
}

func decodeCommand(data []byte) (*command, error) {
	d := &decoder{b: data}
	kind := d.byte()
	c := &command{flashback: d.byte() == 1, id: d.uint(), confVer: d.uint(), version: d.uint()}
	if kind == commandWrite {
		c.muts = d.mutations()
		return c, d.err
	}
	c.admin = &raft_cmdpb.AdminRequest{}
	if err := c.admin.Unmarshal(d.bytes()); err != nil {
		return nil, err
	}
	c.finished = finishedFlashback{startTS: d.uint(), commitTS: d.uint(), empty: d.byte() == 1}
	return c, d.err
}

// copyRegion returns a copy whose epoch may be changed. Regions are shared and never changed in place.
func copyRegion(r *metapb.Region) *metapb.Region {
	c := *r
	epoch := *r.RegionEpoch
	c.RegionEpoch = &epoch
	return &c
}
