// Package cage makes namespaces in which a restored cluster can run beside the one that it is a copy of, and reach
// nothing but itself: no pod outside is reached, none reaches it, and no load balancer or node port leads into it.
// That the network keeps to this is proven by connections that have to fail, beside others that have to succeed. Each
// cage is known by the run that made it and by the UID of its namespace, and has a time at which it may be removed.
package cage
