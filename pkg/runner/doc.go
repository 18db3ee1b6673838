// Package runner is what every backup, restore and resolve is as a run: it finds out which storage it works with, keeps
// other runs off its cluster by a lock, writes a journal, and continues the run of that id whose process died.
//
// What a run does is in its steps, which the caller brings; the engine of package phase carries them out.
package runner
