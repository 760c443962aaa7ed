package client_test

import (
	"context"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client"
)

// The training loop of one rank.
func Example() {
	loop := func(ctx context.Context, spec *pb.Spec, rank, world uint32) error {
		spec.Epochs = 3 // without a limit the loop goes on until it leaves
		session, err := client.Open(ctx, client.Config{
			Masters: []string{"127.0.0.1:7070"},
			Session: "run-7", // the job's run id
			Spec:    spec,
			Rank:    rank, WorldSize: world,
		})
		if err != nil {
			return err
		}
		defer session.Close()
		if from := session.RestoredFrom(); from != nil { // by `penstock session restore`
			loadModel(from.Name, from.Step)
		}
		for batch, err := range session.Batches(ctx) {
			if err != nil {
				return err
			}
			train(batch.Dense, batch.Sparse, batch.Labels)
			state := session.State() // a checkpoint, to go on after this batch with Config.Restore
			save(state)
			if at := batch.Checkpoint; at != nil { // `penstock session checkpoint` takes one here, of all ranks
				saveModel(at.Name, at.Step)
			}
			batch.Release()
		}
		return nil
	}
	_ = loop
}

func train([]float32, []client.Sparse, []client.Label) {}

func save(*pb.State) {}

func saveModel(string, uint64) {}

func loadModel(string, uint64) {}
