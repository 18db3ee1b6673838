// Package htmlreport writes reports as one HTML file that needs nothing else: no network, no script. It is readable in
// light and dark, on paper and by a screen reader; every bar of the timeline stands in a row with its numbers.
//
// Every text of a report may be hostile: it is stripped of control characters, cut, and escaped by the writer of the
// nodes (gomponents). The standard library's html/template is not used, as it calls methods by name, and the linker
// then keeps every method of every type: the program would be twice as large.
package htmlreport
