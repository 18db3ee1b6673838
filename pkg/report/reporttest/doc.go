// Package reporttest makes reports for tests of what shows them.
package reporttest
