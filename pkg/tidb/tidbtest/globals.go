package tidbtest

import (
	"context"
	"maps"
	"strings"
)

// newGlobals are the variables that only the whole cluster has, as TiDB makes them. All are on or off.
func newGlobals() map[string]string {
	return map[string]string{"tidb_ttl_job_enable": "ON", "tidb_enable_auto_analyze": "ON", "tidb_gc_enable": "ON"}
}

// Globals are the variables of the cluster and their values: those that sessions have set, and the defaults.
func (s *Server) Globals() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.globals)
}

func (s *Server) setGlobal(ctx context.Context, global bool, name, value string) error {
	if err := s.suffer(ctx, s.cfg.Faults.At("tidb.SetGlobal")); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	to := map[string]string{"ON": "ON", "1": "ON", "OFF": "OFF", "0": "OFF"}[strings.ToUpper(strings.TrimSpace(value))]
	switch {
	case s.globals[name] == "":
		return refusal(1193, "Unknown system variable '%s'", name)
	case !global:
		return refusal(1229, "Variable '%s' is a GLOBAL variable and should be set with SET GLOBAL", name)
	case to == "":
		return refusal(1231, "Variable '%s' can't be set to the value of '%s'", name, value)
	}
	s.globals[name] = to
	return nil
}
