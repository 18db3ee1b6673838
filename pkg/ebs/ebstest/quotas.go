package ebstest

import (
	"encoding/json"
	"net/http"
	"strings"
)

// quotaTarget is how a call of Service Quotas begins: it speaks JSON, and names the action in a header.
const quotaTarget = "ServiceQuotasV20190624."

// quotaJSON is one quota as Service Quotas reports it.
type quotaJSON struct {
	Service     string `json:"ServiceCode"`
	ServiceName string
	ARN         string `json:"QuotaArn"`
	Code        string `json:"QuotaCode"`
	Name        string `json:"QuotaName"`
	Value       float64
	Unit        string
	Adjustable  bool
	GlobalQuota bool
}

type quotaRequest struct {
	ServiceCode string
	QuotaCode   string
	MaxResults  int
	NextToken   string
}

// quotas are those of EBS that the rules know. Their names and codes are Amazon's.
func (s *Server) quotas() []quotaJSON {
	var all []quotaJSON
	add := func(code, name string, value float64, adjustable bool) {
		all = append(all, quotaJSON{
			Service: "ebs", ServiceName: "Amazon Elastic Block Store (Amazon EBS)", Code: code, Name: name, Value: value,
			ARN: "arn:aws:servicequotas:" + s.cfg.Region + ":" + s.cfg.Account + ":ebs/" + code, Unit: "None", Adjustable: adjustable,
		})
	}
	add("L-94D7AB7D", "Pending snapshots per account", float64(s.rules.PendingInAccount), false)
	add("L-309BACF6", "Snapshots per Region", float64(s.rules.SnapshotsInRegion), true)
	add("L-E137849C", "Cumulative throughput of time-based snapshot copies, in MiB/s", s.rules.Copies.PairRate/(1<<20), true)
	add("L-631ECBD3", "Fast snapshot restore", float64(s.rules.FastRestore.Snapshots), true)
	for _, quota := range []struct{ kind, code, name string }{
		{"gp2", "L-D18FCD1D", "Storage for General Purpose SSD (gp2) volumes, in TiB"},
		{"gp3", "L-7A658B76", "Storage for General Purpose SSD (gp3) volumes, in TiB"},
		{"io1", "L-FD252861", "Storage for Provisioned IOPS SSD (io1) volumes, in TiB"},
		{"io2", "L-09BD8365", "Storage for Provisioned IOPS SSD (io2) volumes, in TiB"},
		{"st1", "L-82ACEF56", "Storage for Throughput Optimized HDD (st1) volumes, in TiB"},
		{"sc1", "L-17AF77E8", "Storage for Cold HDD (sc1) volumes, in TiB"},
		{"standard", "L-9CF3C2EB", "Storage for Magnetic (standard) volumes, in TiB"},
	} {
		if gib, ok := s.rules.StorageGiB[quota.kind]; ok {
			add(quota.code, quota.name, float64(gib)/1024, true)
		}
	}
	if n, ok := s.rules.IOPS["io1"]; ok {
		add("L-B3A130E6", "IOPS for Provisioned IOPS SSD (io1) volumes", float64(n), true)
	}
	if n, ok := s.rules.IOPS["io2"]; ok {
		add("L-8D977E7E", "IOPS for Provisioned IOPS SSD (io2) volumes", float64(n), true)
	}
	return all
}

// serveQuotas answers GetServiceQuota and ListServiceQuotas.
func (s *Server) serveQuotas(w http.ResponseWriter, r *http.Request) {
	act := action{name: strings.TrimPrefix(r.Header.Get("X-Amz-Target"), quotaTarget), run: nil}
	var in quotaRequest
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		refuseQuotas(w, refusal("SerializationException", "%v", err))
		return
	}
	strike := s.cfg.Faults.At(act.service() + "." + act.name)
	if done := s.struck(w, r, strike, refuseQuotas); done {
		return
	}
	s.mu.Lock()
	missing, quotas := s.missing(act, request{}), s.quotas()
	s.mu.Unlock()
	if missing != "" {
		refuseQuotas(w, refusal("AccessDeniedException", "User: arn:aws:iam::%s:user/test is not authorized to perform: %s", s.cfg.Account, missing))
		return
	}
	answer, err := answerQuotas(act.name, in, quotas)
	if err != nil {
		refuseQuotas(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	_ = json.NewEncoder(w).Encode(answer) // the client may have gone
}

// answerQuotas pages by three, so that no client gets by without reading the next page.
func answerQuotas(name string, in quotaRequest, quotas []quotaJSON) (any, error) {
	if in.ServiceCode != "ebs" {
		return nil, refusal("NoSuchResourceException", "The request failed because the specified service does not exist.")
	}
	const page = 3
	switch name {
	case "GetServiceQuota":
		for _, quota := range quotas {
			if quota.Code == in.QuotaCode {
				return map[string]quotaJSON{"Quota": quota}, nil
			}
		}
		return nil, refusal("NoSuchResourceException", "The request failed because the specified service quota does not exist.")
	case "ListServiceQuotas":
		for n, quota := range quotas {
			if in.NextToken == quota.Code {
				quotas = quotas[n:]
				break
			}
		}
		answer := map[string]any{"Quotas": quotas}
		if len(quotas) > page {
			answer["Quotas"], answer["NextToken"] = quotas[:page], quotas[page].Code
		}
		return answer, nil
	default:
		return nil, refusal("UnknownOperationException", "unknown action %s", name)
	}
}

func refuseQuotas(w http.ResponseWriter, err error) {
	e := asRefusal(err)
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.Header().Set("X-Amzn-Errortype", e.code)
	w.WriteHeader(statusOf(e.code))
	_ = json.NewEncoder(w).Encode(map[string]string{"__type": e.code, "message": e.message}) // the client may have gone
}
