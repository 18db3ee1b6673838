package tikvtest

import "fmt"

// raftLogger drops raft's log, and turns what would kill a TiKV into a crash of this store.
type raftLogger struct{ s *Store }

// raftPanic unwinds raft out of a state that it cannot continue from.
type raftPanic struct{ text string }

// Debug implements raft.Logger.
func (raftLogger) Debug(...any) {}

// Debugf implements raft.Logger.
func (raftLogger) Debugf(string, ...any) {}

// Info implements raft.Logger.
func (raftLogger) Info(...any) {}

// Infof implements raft.Logger.
func (raftLogger) Infof(string, ...any) {}

// Warning implements raft.Logger.
func (raftLogger) Warning(...any) {}

// Warningf implements raft.Logger.
func (raftLogger) Warningf(string, ...any) {}

// Error implements raft.Logger.
func (l raftLogger) Error(v ...any) { l.s.logf("raft: %s", fmt.Sprint(v...)) }

// Errorf implements raft.Logger.
func (l raftLogger) Errorf(format string, v ...any) { l.s.logf("raft: "+format, v...) }

// Fatal implements raft.Logger.
func (raftLogger) Fatal(v ...any) { panic(raftPanic{fmt.Sprint(v...)}) }

// Fatalf implements raft.Logger.
func (raftLogger) Fatalf(format string, v ...any) { panic(raftPanic{fmt.Sprintf(format, v...)}) }

// Panic implements raft.Logger.
func (raftLogger) Panic(v ...any) { panic(raftPanic{fmt.Sprint(v...)}) }

// Panicf implements raft.Logger.
func (raftLogger) Panicf(format string, v ...any) { panic(raftPanic{fmt.Sprintf(format, v...)}) }
