// Package podreason finds out why pods do not run: from their containers, their conditions, and the events about them.
package podreason
