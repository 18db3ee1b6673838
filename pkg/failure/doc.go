// Package failure says what a caller can do about an error.
//
// Every adapter turns the other side's codes into a Kind in one table of its own; above the adapters
// nobody looks at codes or message texts. An error names the operation, its target, the kind and, where
// a person can act, a hint that is one imperative sentence. The package does no I/O.
package failure
