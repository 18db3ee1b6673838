package ui

import (
	"fmt"
	"io"
	"time"
)

// Say prints a line at once, waiting at most a second for a blocked reader.
func Say(w io.Writer, line string) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		fmt.Fprintln(w, line)
	}()
	select {
	case <-said:
	case <-time.After(time.Second):
	}
}
