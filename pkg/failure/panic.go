package failure

import (
	"fmt"
	"runtime/debug"
)

// PanicError is a panic turned into an error, so that the code's work is still undone.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

// Error prints the panic value; the stack is for the log.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Catch is deferred directly, as `defer failure.Catch(&err, "do it")`: a panic of the function, and of no
// other goroutine, becomes its error, with a *PanicError in the chain. Without a panic nothing happens.
func Catch(err *error, op string) {
	v := recover()
	if v == nil {
		return
	}
	*err = New(Unknown, op, "", "%w", &PanicError{Value: v, Stack: debug.Stack()}).
		WithHint("this is a bug of tisnap: report it with the stack in the log")
}
