// Package notify posts a run's outcome to a URL, as one CloudEvents 1.0 event in JSON, for chat bridges, pagers and
// event buses. An event has nothing that a log must not have, and its delivery never changes the outcome.
package notify
