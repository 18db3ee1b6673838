// Package gotemplate writes a JSON document through a Go template, as kubectl does for -o go-template. It is linked into a
// program of its own, tisnap-template: text/template calls methods by name, so the linker keeps every method of a program
// that imports it, and tisnap would be twice as large.
package gotemplate
