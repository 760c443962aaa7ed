package master

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/autoscale"
	"github.com/penstock-ml/penstock/master/observe"
)

func TestSampleOf(t *testing.T) {
	at := time.Unix(7, 0)
	got := sampleOf(&observe.Fleet{At: at, Workers: 3, Silent: 1, Busy: 0.5, Sessions: []observe.Session{
		{
			ID: "a", Trainers: 2, Stale: true, Demand: 10, Rate: 9, Stall: 0.1, Cost: 0.2, Storage: 0.3,
			Stages: []observe.Stage{{Name: "hash", Seconds: 1}, {Name: "decode"}}, Share: observe.Share{
				Weight: 2,
				Min:    1, Max: 4,
			},
		},
		{ID: "b", Share: observe.Share{Weight: 1, Max: math.Inf(1)}},
		{
			ID: "idle", Trainers: 2, Cost: 0.2, Share: observe.Share{Weight: 1, Max: math.Inf(1)},
			Cause: observe.Cause{Bottleneck: pb.Bottleneck_NONE},
		},
		{ID: "a", Namespace: "vision", Share: observe.Share{Weight: 1, Max: math.Inf(1)}}, // another one than the first
	}}, 5)
	want := autoscale.Sample{At: at, Workers: 3, Wanted: 5, Silent: 1, Busy: 0.5, Sessions: []autoscale.Session{
		{
			ID: "a", Trainers: 2, Stale: true, Demand: 10, Rate: 9, Stall: 0.1, Cost: 0.2, Storage: 0.3,
			Stage: "hash", Weight: 2, MinWorkers: 1, MaxWorkers: 4,
		},
		{ID: "b", Weight: 1},
		{ID: "idle", Cost: 0.2, Weight: 1}, // its trainers want nothing
		{ID: "vision/a", Weight: 1},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}
