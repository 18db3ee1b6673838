package ui

import (
	"fmt"
	"io"
	"time"
)

// WriteLine writes a line at once, waiting at most a second for a blocked reader.
func WriteLine(w io.Writer, line string) {
	written := make(chan struct{})
	go func() {
		defer close(written)
		fmt.Fprintln(w, line)
	}()
	select {
	case <-written:
	case <-time.After(time.Second):
	}
}
