package mishap

// point is a call that a backup makes, and about how often it does.
type point struct {
	name  string
	calls int
	codes []string // with which the other side refuses it
}

// points are the calls of a backup that can go wrong. The transfers of the soak use none of them.
func points() []point {
	web, rpc, busy := []string{"500", "503", "403"}, []string{"Unavailable", "Aborted"}, []string{"InternalError", "RequestLimitExceeded", "UnauthorizedOperation"}
	return []point{
		{"pd.Schedulers", 8, web},
		{"pd.PauseScheduler", 8, web},
		{"pd.ResumeScheduler", 4, web},
		{"pd.SetTTLConfig", 3, web},
		{"pd.TTLConfig", 6, web},
		{"pd.DropTTLConfig", 1, web},
		{"pd.MinResolvedTS", 3, web},
		{"pd.SafePoints", 3, web},
		{"pd.Stores", 2, web},
		{"pd.UpdateServiceGCSafePoint", 3, rpc},
		{"tikv.*.PrepareSnapshotBackup", 3, rpc},
		{"tikv.*.PrepareSnapshotBackup.UpdateLease", 6, rpc},
		{"tikv.*.PrepareSnapshotBackup.WaitApply", 3, rpc},
		{"tikv.*.PrepareSnapshotBackup.WaitApply.Region", 30, []string{"epoch_not_match", "stale_command", "region_not_found", "server_is_busy"}},
		{"tikv.*.PrepareSnapshotBackup.Finish", 3, rpc},
		{"tikv.*.SuspendImportRPC", 9, rpc},
		{"tikv.*.CheckPendingAdminOp", 6, rpc},
		{"ec2.CreateSnapshots", 4, append([]string{"PendingSnapshotLimitExceeded"}, busy...)},
		{"ec2.DescribeInstances", 2, busy},
		{"ec2.DescribeVolumes", 2, busy},
		{"ec2.DescribeSnapshots", 5, busy},
		{"s3.PutObject", 12, []string{"InternalError", "SlowDown", "AccessDenied"}},
		{"s3.GetObject", 2, []string{"InternalError", "SlowDown"}},
	}
}
