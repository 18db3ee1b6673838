// Package arch holds the module to its own rules: imports only point down, each outside system stays in its
// adapter, no stand-in is linked into a shipped binary, and source files keep the house style.
//
// Rules are pure functions that return what breaks them, so that they are tested on samples that do. The
// package is only run as tests.
package arch
