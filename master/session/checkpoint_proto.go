package session

import "github.com/penstock-ml/penstock/api/pb"

// NamedFromProto reads a checkpoint.
func NamedFromProto(m *pb.Checkpoint) Named {
	return Named{
		Name: m.GetName(), Nonce: m.GetNonce(), Step: m.GetStep(), Created: m.GetCreatedUnix(),
		Generation: m.GetGeneration(), World: m.GetWorldSize(), State: CheckpointFromProto(m.GetState()),
	}
}

// Proto returns n as it lies in etcd and crosses the wire.
func (n *Named) Proto() *pb.Checkpoint {
	return &pb.Checkpoint{
		Name: n.Name, Nonce: n.Nonce, Step: n.Step, CreatedUnix: n.Created,
		Generation: n.Generation, WorldSize: n.World, State: n.State.Proto(),
	}
}

func (t *taking) proto() *pb.PendingCheckpoint {
	return &pb.PendingCheckpoint{
		Id: t.id, Name: t.name, Nonce: t.nonce, CreatedUnix: t.created,
		Step: t.step, Tries: t.tries, Retried: t.retried, Failed: t.failed,
	}
}

func takingFromProto(m *pb.PendingCheckpoint) taking {
	return taking{
		id: m.GetId(), name: m.GetName(), nonce: m.GetNonce(), created: m.GetCreatedUnix(),
		step: m.GetStep(), tries: m.GetTries(), retried: m.GetRetried(), failed: m.GetFailed(),
	}
}

// PartFromProto reads a part; nil is none.
func PartFromProto(m *pb.CheckpointPart) *Part {
	if m == nil {
		return nil
	}
	p := &Part{ID: m.GetId(), Missed: m.GetMissed()}
	if st := m.GetState(); st != nil {
		c := CheckpointFromProto(st)
		p.State = &c
	}
	return p
}

// Proto returns o as it crosses the wire; nil is nil.
func (o *Order) Proto() *pb.CheckpointOrder {
	if o == nil {
		return nil
	}
	return &pb.CheckpointOrder{Id: o.ID, Name: o.Name, Step: o.Step, Batches: o.Batches}
}

// Proto returns f as it lies in etcd and crosses the wire; none is nil.
func (f RestoredFrom) Proto() *pb.RestoredFrom {
	if f == (RestoredFrom{}) {
		return nil
	}
	return &pb.RestoredFrom{Name: f.Name, Step: f.Step, Epoch: f.Epoch}
}

func restoredFromProto(m *pb.RestoredFrom) RestoredFrom {
	return RestoredFrom{Name: m.GetName(), Step: m.GetStep(), Epoch: m.GetEpoch()}
}

// Proto returns t as it crosses the wire.
func (t *Taken) Proto() *pb.CreateCheckpointReply {
	if t.Named != nil {
		return &pb.CreateCheckpointReply{Checkpoint: t.Named.Proto()}
	}
	m := &pb.CreateCheckpointReply{Step: t.Step, Tries: t.Tries, Retried: t.Retried}
	for _, r := range t.Missing {
		m.Missing = append(m.Missing, &pb.RankStep{Rank: r.Rank, Step: r.Step, Present: r.Present})
	}
	return m
}
