// Command run breaks each guard of the table in turn and runs the tests that must notice. It exits with 1 if one
// survives, or cannot be judged.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/tests/mutants"
)

func main() {
	sample := flag.Int("sample", 0, "run so many: of the files that changed, and spread over the table; 0 runs all")
	only := flag.String("only", "", "run those whose name or file matches this regular expression")
	jobs := flag.Int("jobs", 2, "how many at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, *sample, *only, *jobs)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, sample int, only string, jobs int) int {
	matches, err := regexp.Compile(only)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "tisnap-mutants-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // mutated sources
	var chosen []mutants.Mutant
	for _, m := range mutants.Sample(mutants.All(), sample, mutants.Changed(ctx, ".")) {
		if matches.MatchString(m.Name) || matches.MatchString(m.File) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		fmt.Fprintln(os.Stderr, "no mutant's name or file matches that")
		return 1
	}
	var mu sync.Mutex
	failed := 0
	runner := mutants.Runner{Root: ".", Dir: dir}
	err = parallel.Each(ctx, jobs, chosen, func(ctx context.Context, _ int, m mutants.Mutant) error {
		begin := time.Now()
		err := runner.Run(ctx, m)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			fmt.Printf("caught    %5.1f s  %s\n", time.Since(begin).Seconds(), m.Name)
			return nil
		}
		failed++
		fmt.Printf("NOT CAUGHT %4.1f s  %s (%s)\n  breaks: %s\n  tests: -run '%s' ./%s\n  %v\n",
			time.Since(begin).Seconds(), m.Name, m.File, m.Promise, m.Tests, m.Package, err)
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Printf("%d mutants, %d caught\n", len(chosen), len(chosen)-failed)
	return min(failed, 1)
}
