package client

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestPace(t *testing.T) {
	p := &loopPace{client: 7}
	want := func(stepNs time.Duration, rows float64, steps uint32) {
		t.Helper()
		w := &pb.Pace{StepNs: int64(stepNs), Rows: rows, Steps: steps, Buffered: 1.5, ClientNs: 7}
		if got := p.proto(1.5); !proto.Equal(got, w) {
			t.Errorf("after %d steps: %v, want %v", p.steps, got, w)
		}
	}
	for range warmUp {
		p.step(time.Hour, 1) // compiles
	}
	want(0, 0, 0)
	for range minPaceSteps {
		want(0, 0, 0)
		p.step(time.Second, 10)
	}
	want(time.Second, 10, minPaceSteps)
	p.step(time.Hour, 10) // evaluates
	want(time.Second, 10, minPaceSteps+1)
	for range 100 {
		p.step(time.Second, 10)
	}
	for range paceSteps/2 + 1 { // the loop became slower
		p.step(3*time.Second, 10)
	}
	want(3*time.Second, 10, paceSteps)
	for range paceSteps {
		p.step(0, 20)
	}
	want(0, 20, paceSteps)
}
