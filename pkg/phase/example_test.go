package phase_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
)

// A run is a list of steps. When one fails, the steps that began are undone, the last one first; what each did is in
// the journal, so that the next run of that id resumes after the steps that are done.
func ExampleEngine_Run() {
	ctx := context.Background()
	kept := journal.NewStoreJournal(objstoretest.NewMemory(nil), "runs/example")
	step := func(name string, do error) phase.Step {
		return phase.Step{
			Phase: "hold", Name: name, Deadline: time.Minute,
			Do:   func(context.Context, *phase.Scope) error { fmt.Println("do", name); return do },
			Undo: phase.Undo{Do: func(context.Context, *phase.Scope) error { fmt.Println("undo", name); return nil }},
		}
	}
	err := phase.New(phase.Config{Run: "example", Journal: kept}).Run(ctx, []phase.Step{
		step("pause schedulers", nil),
		step("take leases", errors.New("store 3 does not answer")),
		step("read the backup ts", nil),
	})
	fmt.Println(err)
	// Output:
	// do pause schedulers
	// do take leases
	// undo take leases
	// undo pause schedulers
	// store 3 does not answer
}
