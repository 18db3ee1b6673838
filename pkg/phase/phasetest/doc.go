// Package phasetest documents the steps of a use case: a Markdown table made from the steps and from the comments
// of the functions that do and undo them, so that it cannot go stale. It is for tests.
package phasetest
