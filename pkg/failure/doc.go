// Package failure classifies errors by what a caller can do about them.
//
// Every adapter maps the other side's codes to a Kind in one table; nothing above the adapters inspects codes or
// message texts. An error has the operation, its target, the kind and, if a person can act, a hint: one imperative
// sentence. The package does no I/O.
package failure
