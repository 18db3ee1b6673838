// Package notify posts how a run ended to a URL, as one CloudEvents 1.0 event in JSON: for chat bridges, pagers and
// event buses. An event holds nothing that a log may not hold, and whether it is received never changes how the run
// ended.
package notify
