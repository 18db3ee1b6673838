// Package hold holds a test for each reported failure of the hold: of what a backup pauses in a live cluster, for
// how long, and how it ends. The names A1 to A23 and B12 are those of the catalogue; each test cites its source.
//
// Every test injects its fault into a testbed, runs the program's own command line against it, and looks at two
// things: what the run reports, and that nothing is held afterwards, read from the stand-ins themselves.
//
// Tests that load the whole machine are not parallel: the short leases of the others would end meanwhile.
package hold
