package master_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestDeleteWhileTrainersSync(t *testing.T) {
	m := single(t)
	dir := dataset(t, 2)
	openSession(t, m, "other", newSpec(dir), 1)
	bystander := newTrainer(t, m, "other", 0, 1).mustJoin("z")
	for range 5 { // the same id, again and again
		openSession(t, m, "run", newSpec(dir), 4)
		ended := make(chan error, 4)
		for rank := range uint32(4) {
			r := newTrainer(t, m, "run", rank, 4).mustJoin("a")
			go func() {
				for {
					if err := r.sync(); err != nil {
						ended <- err
						return
					}
				}
			}()
		}
		_, err := m.DeleteSession(t.Context(), &pb.DeleteSessionRequest{Session: "run"})
		check(t, err)
		_, err = m.GetSession(t.Context(), &pb.GetSessionRequest{Session: "run"})
		if status.Code(err) != codes.NotFound {
			t.Errorf("a deleted session: %v", err)
		}
		for range 4 {
			if err := <-ended; status.Code(err) != codes.NotFound {
				t.Errorf("its trainer ends with %v", err)
			}
		}
	}
	_, err := m.DeleteSession(t.Context(), &pb.DeleteSessionRequest{Session: "run"})
	if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), `"run"`) {
		t.Errorf("deleting it again: %v", err)
	}
	check(t, bystander.sync()) // the term goes on
}
