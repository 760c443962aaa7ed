package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

// Recorded is what the model of a worker was measured to be, by `go run ./bench/simulate record`.
type Recorded struct {
	How         string              `json:"how"`
	Machine     string              `json:"machine"`
	StartUp     float64             `json:"start_up_seconds"` // of a worker's process, until it serves
	ShardBytes  int64               `json:"shard_bytes"`      // master/plan's default
	BudgetBytes int64               `json:"budget_bytes"`     // client's default
	Workloads   map[string]Workload `json:"workloads"`
}

// Workload is what one of bench/workload takes.
type Workload struct {
	CPU        float64 `json:"cpu_seconds_per_row"` // of a worker
	Spread     float64 `json:"cpu_spread"`          // between rounds: the greatest over the least
	Stored     float64 `json:"stored_bytes_per_row"`
	Tensors    float64 `json:"tensor_bytes_per_row"`
	StreamCPUs float64 `json:"stream_cpus"` // that one stream can use
	Batch      int     `json:"batch_size"`
}

//go:embed recorded.json
var recordedJSON []byte

func recorded() (*Recorded, error) {
	r := &Recorded{}
	if err := json.Unmarshal(recordedJSON, r); err != nil {
		return nil, fmt.Errorf("recorded.json: %w; make it anew with `go run ./bench/simulate record`", err)
	}
	return r, nil
}
