package importer

import (
	"context"
	"fmt"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/units"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// The beginnings of the names of records.
const (
	processRecords = "processes/"
	segmentRecords = "segments/"
)

// process is the record of a process, before it stores anything.
type process struct {
	Names   format.PackNames `json:"names"`
	Pending int              `json:"pending"` // the most packs that are begun and not stored
	States  []string         `json:"states"`  // of the sources: see volume.File

	from int // the number of its first pack that may have blocks of later segments
}

// segment is the record of a segment that a process wrote, once all packs with its blocks are stored.
type segment struct {
	Process int                `json:"process"`
	Volume  int                `json:"volume"`
	Index   int                `json:"index"` // in the volume's map
	Name    format.SegmentName `json:"name"`
	Stats   volume.Stats       `json:"stats"`
	From    int                `json:"from"` // see process
}

func processName(number int) string { return fmt.Sprintf("%s%06d", processRecords, number) }

func (s *segment) name() string {
	return fmt.Sprintf("%s%06d-%d-%d", segmentRecords, s.Process, s.Volume, s.Index)
}

// earlier is what the import's earlier processes did.
type earlier struct {
	processes []process
	segments  []segment // in the order of the processes
}

// recordReads are at the same time.
const recordReads = 8

// readEarlier reads the records.
func readEarlier(ctx context.Context, shared *units.Shared) (e earlier, err error) {
	names, err := shared.Records(ctx, processRecords)
	if err != nil {
		return e, err
	}
	e.processes = make([]process, len(names))
	for i := range names { // without a gap: each is written under the lock
		if err := shared.Recorded(ctx, processName(i), &e.processes[i]); err != nil {
			return e, err
		}
	}
	if names, err = shared.Records(ctx, segmentRecords); err != nil {
		return e, err
	}
	e.segments = make([]segment, len(names))
	err = parallel.Each(ctx, recordReads, names, func(ctx context.Context, i int, name string) error {
		return shared.Recorded(ctx, name, &e.segments[i])
	})
	for _, s := range e.segments {
		if err == nil && s.Process < len(e.processes) {
			p := &e.processes[s.Process]
			p.from = max(p.from, s.From)
		}
	}
	return e, err
}

// unchanged reports whether all earlier processes are known to have read of a volume what is there now.
func (e *earlier) unchanged(v int, state string) bool {
	for i := range e.processes {
		if states := e.processes[i].States; state == "" || v >= len(states) || states[v] != state {
			return false
		}
	}
	return true
}

// done are the segments that begin a volume's map, and what was done for them. Of two for the same place the later
// process wrote the one that counts.
func (e *earlier) done(v int) (names []format.SegmentName, stats volume.Stats) {
	at := map[int]segment{}
	for _, s := range e.segments {
		if s.Volume == v && s.Process >= at[s.Index].Process {
			at[s.Index] = s
		}
	}
	for k := 0; ; k++ {
		s, is := at[k]
		if !is {
			return names, stats
		}
		names = append(names, s.Name)
		stats.Add(s.Stats)
	}
}

// places are the blocks that earlier processes packed, by volume and index, of segments that are not done.
type places map[int]map[int64]format.Place

// find looks for the packs of the earlier processes.
func (e *earlier) find(ctx context.Context, r *repository.Repository, volumes int) (places, error) {
	out := places{}
	below := make([]int64, volumes)
	for v := range below {
		names, _ := e.done(v)
		below[v], out[v] = int64(len(names))*format.SegmentBlocks, map[int64]format.Place{}
	}
	for _, p := range e.processes {
		err := r.FindPacks(ctx, p.Names, p.from, p.Pending, func(c format.Contents) error {
			for _, b := range c.Blocks {
				if v, index := int(b.Volume), int64(b.Index); v < volumes && index >= below[v] {
					out[v][index] = format.Place{State: format.Saved, Pack: c.Ref, Block: b.Block}
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// in returns where a volume's block is.
func (p places) in(v int) func(int64) (format.Place, bool) {
	return func(index int64) (format.Place, bool) {
		place, ok := p[v][index]
		return place, ok
	}
}
