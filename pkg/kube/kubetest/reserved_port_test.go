package kubetest

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReservePort_NoListener_RefusesAndIsNotGivenAway(t *testing.T) {
	t.Parallel()
	address, release, err := ReservePort()
	require.NoError(t, err)
	defer release()
	source, err := net.ResolveTCPAddr("tcp", address)
	require.NoError(t, err)
	other, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.ErrorIs(t, syscall.Bind(other, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: source.Port}), syscall.EADDRINUSE)
	require.NoError(t, syscall.Close(other))
	for range 3 {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		require.NoError(t, err, "a server comes back at its address")
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.NoError(t, l.Close())
		_, err = new(net.Dialer).DialContext(t.Context(), "tcp", address)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	}
}
