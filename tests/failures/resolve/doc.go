// Package resolve holds a test for each reported failure of the data phase of a restore: starting the stores,
// collecting, electing, recovering, flashing back and finishing. Each injects its fault into whole restores on the
// testbed, run by the program's own command line, and proves the restored rows or reads what the run reports.
//
// Tests that load the whole machine are not parallel: the short leases of the others would end meanwhile.
package resolve
