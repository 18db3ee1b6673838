package ui

import (
	"fmt"
	"io"
	"time"
)

// Say prints a line at once, and waits no longer than a second for one who does not read it.
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
