package round

import (
	"context"
	"errors"
	"fmt"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// Prepared is the first half of a round: a testbed with one sealed backup, whose cluster is gone. It can be
// restored again and again, each time into another cluster. Close it.
type Prepared struct{ s *state }

// Prepare makes the first half of a round.
func Prepare(ctx context.Context, cfg Config) (*Prepared, error) {
	cfg.defaults()
	s := &state{cfg: cfg}
	for _, step := range []func(context.Context) error{s.start, s.backup, s.destroy} {
		if err := step(ctx); err != nil {
			err = fmt.Errorf("seed %d: %w", cfg.Seed, err)
			if s.load != nil {
				err = errors.Join(err, s.load.Close())
			}
			if s.bed != nil {
				s.bed.Close()
			}
			return nil, err
		}
	}
	return &Prepared{s: s}, nil
}

// Bed is the testbed.
func (p *Prepared) Bed() *testbed.Testbed { return p.s.bed }

// BackupTS is what a restore returns to.
func (p *Prepared) BackupTS() cluster.TS { return p.s.result.BackupTS }

// MarkTrouble is what went wrong while the backup read marks.
func (p *Prepared) MarkTrouble() string { return p.s.result.MarkTrouble }

// LogTrouble is how raft logs stalled during the backup.
func (p *Prepared) LogTrouble() string { return p.s.result.LogTrouble }

// Verify proves a restored cluster: its rows, now and at the backup ts, against the history and the live cluster's
// copy; that nothing is locked, or held in PD; that its regions cover the key space; and that each store's own data are its
// regions' leaders'. One call at a time.
func (p *Prepared) Verify(ctx context.Context, name cluster.Name) error {
	c := p.s.bed.Nodes.Cluster(name)
	if c == nil {
		return fmt.Errorf("cluster %s is not there", name)
	}
	if held := c.Held(); len(held) > 0 {
		return fmt.Errorf("something is held: %v", held)
	}
	return errors.Join(p.s.verifyRows(ctx, c), p.s.verifyPD(c), p.s.verifyRegions(c), p.s.verifyReplicas(ctx, c))
}

// Close ends the testbed.
func (p *Prepared) Close() { p.s.bed.Close() }
