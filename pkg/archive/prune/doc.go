// Package prune forgets archives, and deletes what no archive refers to, beside any number of clients and other prunes:
// package lease has the rules. It deletes nothing in doubt, and a prune that dies is continued by the next one.
package prune
