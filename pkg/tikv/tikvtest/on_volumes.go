package tikvtest

import (
	"errors"

	"github.com/tisnap/tisnap/pkg/standin/disk"
)

// OnVolumes is a region's replica as a store's volumes have it.
type OnVolumes struct {
	Region  uint64
	Term    uint64
	Last    uint64 // index of the log's last entry
	Applied uint64 // index of the last entry in the data
}

// ReadVolumes reads what a pair of images holds, without a store, PD or a client: whose it is, and its replicas by region.
// It changes nothing.
func ReadVolumes(data, log *disk.Image) (store uint64, replicas []OnVolumes, err error) {
	dataDevice, dataErr := disk.FromImage(data, data.Size())
	logDevice, logErr := disk.FromImage(log, log.Size())
	if err := errors.Join(dataErr, logErr); err != nil {
		return 0, nil, err
	}
	engine, err := openKVEngine(dataDevice)
	if err != nil {
		return 0, nil, err
	}
	logs, err := openRaftLog(logDevice)
	if err != nil {
		return 0, nil, err
	}
	for _, state := range engine.states() {
		own := logs.region(state.region.Id)
		last := own.last()
		if engine.asItCame(state.region.Id) {
			last = max(last, state.applied) // its log begins there; see raftWorker.create
		}
		replicas = append(replicas, OnVolumes{Region: state.region.Id, Term: own.hard.Term, Last: last, Applied: state.applied})
	}
	return engine.storeID, replicas, nil
}
