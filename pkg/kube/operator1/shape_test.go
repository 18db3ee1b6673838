package operator1

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

func TestShapeOf_VolumesAndEncryption_AreRead(t *testing.T) {
	t.Parallel()
	shape := func(text string) Shape {
		s, err := ShapeOf(json.RawMessage(text))
		require.NoError(t, err)
		return s
	}
	plain := shape(`{"spec":{"tikv":{"config":"[storage]\nreserve-space = \"0\"\n"}}}`)
	require.Equal(t, Shape{Volumes: 1, Encryption: map[string]string{}}, plain)
	toml := shape(`{"spec":{"tikv":{"storageVolumes":[{"name":"raft"}],"config":"[security.encryption]\ndata-encryption-method = \"aes256-ctr\"\n[security.encryption.master-key]\ntype = \"kms\"\nkey-id = \"1\"\n"}}}`)
	require.Equal(t, 2, toml.Volumes)
	object := shape(`{"spec":{"tikv":{"config":{"security":{"encryption":{"data-encryption-method":"aes256-ctr","master-key":{"type":"kms","key-id":"1"}}}}}}}`)
	require.True(t, toml.SameEncryption(object))
	require.False(t, plain.SameEncryption(toml))
	other := shape(`{"spec":{"tikv":{"config":{"security":{"encryption":{"data-encryption-method":"aes256-ctr","master-key":{"type":"kms","key-id":"2"}}}}}}}`)
	require.False(t, other.SameEncryption(object), "another master key")
	_, err := ShapeOf(json.RawMessage(`{`))
	require.Equal(t, failure.Corrupt, failure.KindOf(err))
}
