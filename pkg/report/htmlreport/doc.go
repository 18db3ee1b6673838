// Package htmlreport writes reports as one self-contained HTML file: no network, no script. It is readable in light and
// dark mode, on paper and by a screen reader; every bar of the timeline is in a row with its numbers.
//
// Every text of a report may be hostile: control characters are stripped, long texts truncated, and gomponents escapes
// the rest. The standard library's html/template is not used because it calls methods by name, so that the linker keeps
// every method of every type: the program would be twice as large.
package htmlreport
