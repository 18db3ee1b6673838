// Package mutants breaks the program on purpose, one guard at a time, and runs the tests that must notice: a guard that
// can go without a test that fails is a promise that nothing holds.
//
// The table has a row for each guard: a file, a few lines of it and what is to be there instead, the promise that this
// breaks, and the tests that must catch it. The source is not touched: the compiler reads the other file by
// "go test -overlay". A row whose lines are no longer in the file, or are there twice, is an error, and so is one
// that does not compile or whose tests do not exist.
//
// make mutants runs all rows, make mutants SAMPLE=10 ten: of the files that changed since
// origin/main, or in the last commits where there is no such branch, and for the rest some that are spread over the table.
// tests/arch checks that every
// row still applies.
package mutants
