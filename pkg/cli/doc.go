// Package cli is the tisnap command line: flags, connections, output and exit codes. What the commands do
// is in the use-case packages; results go to stdout, everything else to stderr.
package cli
