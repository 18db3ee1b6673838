// Package archive has a reader of archive repositories that shares no code with tisnap, reader.py, and tests that it
// gives back what tisnap writes. make test-archive installs what the reader needs, and runs them.
package archive
