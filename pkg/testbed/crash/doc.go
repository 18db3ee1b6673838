// Package crash kills the shipped program at every step of a run, in every position of the step, runs it again, and
// proves that nothing is lost, leaked or held. Its matrix is made from the steps themselves: a new step is in it.
package crash
