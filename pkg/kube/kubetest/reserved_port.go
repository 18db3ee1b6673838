package kubetest

import (
	"fmt"
	"syscall"
)

// ReservePort takes a free port of 127.0.0.1 without listening on it. A listener that reuses addresses, as Go's do, can be
// opened and closed on it again and again; while there is none, connections are refused, and the kernel does not reuse the
// port: neither for a listener on port 0 nor for an outgoing connection. release gives the port back.
func ReservePort() (address string, release func(), err error) {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, err
	}
	if address, err = bindLoopback(socket); err != nil {
		_ = syscall.Close(socket)
		return "", nil, fmt.Errorf("reserve a port of 127.0.0.1: %w", err)
	}
	return address, func() { _ = syscall.Close(socket) }, nil
}

func bindLoopback(socket int) (string, error) {
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return "", err
	}
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return "", err
	}
	bound, err := syscall.Getsockname(socket)
	if err != nil {
		return "", err
	}
	to, ok := bound.(*syscall.SockaddrInet4)
	if !ok {
		return "", fmt.Errorf("it is bound to %T", bound)
	}
	return fmt.Sprintf("127.0.0.1:%d", to.Port), nil
}
