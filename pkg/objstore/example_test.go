package objstore_test

import (
	"context"
	"fmt"
	"os"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Of two runs that create the same object one gets it, and of two that replace the same version one does: that is all
// that a lock or a journal needs.
func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "objstore")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := objstore.Open(ctx, "file://"+dir, objstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}

	first, err := store.Create(ctx, "locks/prod.json", []byte("run 1"))
	fmt.Println("run 1 creates:", err)
	_, err = store.Create(ctx, "locks/prod.json", []byte("run 2"))
	fmt.Println("run 2 creates:", failure.KindOf(err))
	_, err = store.Replace(ctx, "locks/prod.json", []byte("run 1, renewed"), first)
	fmt.Println("run 1 replaces its version:", err)
	_, err = store.Replace(ctx, "locks/prod.json", []byte("run 3"), first)
	fmt.Println("run 3 replaces an old version:", failure.KindOf(err))
	// Output:
	// run 1 creates: <nil>
	// run 2 creates: conflict
	// run 1 replaces its version: <nil>
	// run 3 replaces an old version: conflict
}
